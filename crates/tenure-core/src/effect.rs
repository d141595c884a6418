//! An effect: a change to the world, or any other step that must not be repeated, under a key that is unique in its job.
//! It is announced before it is performed and its outcome is recorded after; what was announced, has no outcome and whose
//! performer is gone is *in doubt*. This module owns what may be said about an effect, and the one decision at its heart:
//! what an announcement is answered with. It performs nothing and knows no journal.
//!
//! ```text
//!            announce                 outcome
//!   nothing ─────────▶ started ───┬──────────▶ done                      read back, never performed again
//!                        │        ├──────────▶ failed(landed)            for good, never performed again
//!                        │        ├──────────▶ failed(did not happen)    may be announced as the next attempt
//!                        │        └──────────▶ failed(in doubt) ─┐
//!                        └─── performer gone: in doubt ──────────┴──▶ settled by its recovery, or listed
//!                                                   reconciled(landed | did not happen | inconclusive)
//! ```
//!
//! An effect may be performed only while the last record of its key is its announcement. What is retried after a doubt
//! (`retry`, `idempotent`) therefore has no outcome recorded until there is one that can be vouched for; a verdict that
//! lets it be performed again is written together with the next announcement.
//! Neighbours: `record` has the records, `settlement` what a doubt makes of a job, the worker performs.

mod act;
mod announcement;
mod doubt;
mod key;
mod request;

pub use act::{ActRefused, EffectAct, EffectMark, Standing, follow_act};
pub(crate) use announcement::answer_after;
pub use announcement::{Announcement, LastAttempt, Outcome, decide_announcement};
pub use doubt::{Doubt, Doubts, EffectRef, StepsToUndo};
pub use key::{EffectKey, InvalidKey, UNDO_PREFIX};
pub use request::{CompensationCall, EffectRequest};

use serde::{Deserialize, Serialize};

/// What happens to an effect in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectRecovery {
    /// It is performed again under the same attempt. The default where nothing is mutated.
    Retry,
    /// It is performed again under the same attempt, with the same idempotency key for the provider.
    Idempotent,
    /// It is looked up in the world.
    Probe,
    /// A person decides. The default where something is mutated.
    Ask,
}

impl EffectRecovery {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Retry, Self::Idempotent, Self::Probe, Self::Ask];

    /// The word, as stored and shown.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Idempotent => "idempotent",
            Self::Probe => "probe",
            Self::Ask => "ask",
        }
    }

    /// True where an attempt in doubt is performed again under the same announcement.
    #[must_use]
    pub const fn performs_again(self) -> bool {
        match self {
            Self::Retry | Self::Idempotent => true,
            Self::Probe | Self::Ask => false,
        }
    }
}

/// What became of the world where an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// Nothing: it may be repeated.
    DidNotHappen,
    /// Nobody knows.
    InDoubt,
    /// It took effect, and the answer is unusable: never repeated.
    Landed,
}

impl Disposition {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::DidNotHappen, Self::InDoubt, Self::Landed];

    /// The word, as stored and shown.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::DidNotHappen => "did_not_happen",
            Self::InDoubt => "in_doubt",
            Self::Landed => "landed",
        }
    }
}

/// How a step is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compensation {
    /// Nothing was said.
    Undeclared,
    /// By a command, which stands in the value beside the announcement.
    Undo,
    /// Not at all, and unwinding stops here.
    Pivot,
    /// It is unnecessary.
    Unnecessary,
}

impl Compensation {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Undeclared, Self::Undo, Self::Pivot, Self::Unnecessary];

    /// The word, as stored and shown.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Undeclared => "undeclared",
            Self::Undo => "undo",
            Self::Pivot => "pivot",
            Self::Unnecessary => "unnecessary",
        }
    }
}

/// What is declared about an effect with its announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declared {
    /// What happens to it in doubt.
    pub recovery: EffectRecovery,
    /// False where nothing in the world is changed.
    pub mutates: bool,
    /// How it is undone.
    pub compensation: Compensation,
}

#[cfg(test)]
mod tests;
