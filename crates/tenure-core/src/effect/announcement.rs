//! What an announcement is answered with, from the last attempt that is recorded under its key. Only the holder of a job
//! writes outcomes, so what its own journal says is what is so: an attempt without an outcome has no performer any more,
//! unless the very run that asks performs it (which its worker knows, and answers before it asks here).

use jiff::Timestamp;

use super::{Disposition, EffectRecovery};
use crate::id::{Digest, Run, Seq};

/// How the last attempt under a key ended, as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It has no outcome.
    Open,
    /// It was done.
    Done,
    /// It failed.
    Failed(Disposition),
    /// Somebody found out afterwards; in doubt: the probe was inconclusive.
    Reconciled(Disposition),
}

/// The last attempt under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastAttempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// The run that announced it.
    pub run: Run,
    /// The seq of its announcement.
    pub announced: Seq,
    /// When it was announced.
    pub since: Timestamp,
    /// What was declared to happen in doubt; the record decides, whatever the present caller declares.
    pub recovery: EffectRecovery,
    /// False where nothing in the world is changed.
    pub mutates: bool,
    /// SHA-256 of the command or payload that it was announced with.
    pub request: Digest,
    /// How it ended.
    pub outcome: Outcome,
}

/// What the caller is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announcement {
    /// Announce this attempt, and perform it once that is durable.
    Announce {
        /// From 1.
        attempt: u32,
    },
    /// Perform this attempt again; its announcement is the last record of its key.
    PerformAgain {
        /// From 1.
        attempt: u32,
    },
    /// Find out what became of this attempt, and record the verdict before it is used.
    Probe {
        /// From 1.
        attempt: u32,
    },
    /// It was done: read its output back.
    Done,
    /// It failed for good: it took effect, and the answer is unusable.
    FailedForGood,
    /// Nobody but a person can decide.
    Undecided,
}

/// Answers an announcement.
#[must_use]
pub const fn decide_announcement(last: Option<&LastAttempt>) -> Announcement {
    let Some(last) = last else { return Announcement::Announce { attempt: 1 } };
    let attempt = last.attempt;
    match last.outcome {
        Outcome::Done | Outcome::Reconciled(Disposition::Landed) => Announcement::Done,
        Outcome::Failed(Disposition::Landed) => Announcement::FailedForGood,
        Outcome::Failed(Disposition::DidNotHappen) | Outcome::Reconciled(Disposition::DidNotHappen) => {
            Announcement::Announce { attempt: attempt + 1 }
        }
        Outcome::Reconciled(Disposition::InDoubt) => Announcement::Undecided,
        Outcome::Failed(Disposition::InDoubt) => match last.recovery {
            EffectRecovery::Probe => Announcement::Probe { attempt },
            // After a recorded outcome an attempt is never performed again.
            EffectRecovery::Retry | EffectRecovery::Idempotent | EffectRecovery::Ask => {
                Announcement::Undecided
            }
        },
        Outcome::Open => match last.recovery {
            EffectRecovery::Retry | EffectRecovery::Idempotent => Announcement::PerformAgain { attempt },
            EffectRecovery::Probe => Announcement::Probe { attempt },
            EffectRecovery::Ask => Announcement::Undecided,
        },
    }
}

impl LastAttempt {
    /// True where nobody knows whether it happened.
    #[must_use]
    pub const fn is_in_doubt(&self) -> bool {
        match self.outcome {
            Outcome::Open
            | Outcome::Failed(Disposition::InDoubt)
            | Outcome::Reconciled(Disposition::InDoubt) => true,
            Outcome::Done | Outcome::Failed(_) | Outcome::Reconciled(_) => false,
        }
    }
}
