//! What a record does to its effect: the one form in which announcements and outcomes are derived from records, and the one
//! rule of which of them may follow which. The store applies it to its rows in the statement that writes the record;
//! whoever replays a journal applies the same.

use std::fmt;

use super::{Declared, Disposition, EffectKey, EffectRecovery, Outcome};
use crate::id::Digest;

/// What one record says about one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectMark {
    /// The effect.
    pub key: EffectKey,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// What is said of it.
    pub act: EffectAct,
}

/// What is said of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectAct {
    /// It is about to be performed.
    Announced {
        /// What was declared with it.
        declared: Declared,
        /// What it uses.
        tool: String,
        /// SHA-256 of its command or payload.
        request: Digest,
    },
    /// It was done.
    Done,
    /// It failed.
    Failed(Disposition),
    /// It was found out what became of it.
    Reconciled(Disposition),
}

/// The last attempt under a key, as far as it matters to what may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// What was declared to happen in doubt.
    pub recovery: EffectRecovery,
}

/// A record that what stands under its key does not admit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", describe(key, *attempt, act, last.as_ref()))]
pub struct ActRefused {
    /// The effect.
    pub key: EffectKey,
    /// The attempt that the record is about.
    pub attempt: u32,
    /// What it says.
    pub act: &'static str,
    /// What stands; none: nothing was announced.
    pub last: Option<Standing>,
}

impl EffectAct {
    /// How the attempt ended; none where it begins.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Announced { .. } => None,
            Self::Done => Some(Outcome::Done),
            Self::Failed(disposition) => Some(Outcome::Failed(*disposition)),
            Self::Reconciled(verdict) => Some(Outcome::Reconciled(*verdict)),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Announced { .. } => "announcement",
            Self::Done | Self::Failed(_) => "outcome",
            Self::Reconciled(_) => "verdict",
        }
    }
}

/// What stands under the key after the record, where what stands before it admits it: a first announcement needs nothing, a
/// further one that the attempt before did not happen; an outcome needs an attempt without one; a verdict needs an attempt
/// in doubt, whether it has no outcome, failed so, or could not be found out about: somebody may yet find out. In doubt
/// fails only what is never performed again under the same attempt, or an outcome would stand before a performance.
///
/// # Errors
/// It does not.
pub fn follow_act(last: Option<Standing>, mark: &EffectMark) -> Result<Standing, ActRefused> {
    let this = last.filter(|last| last.attempt == mark.attempt);
    let ended = |outcome| this.map(|this| Standing { outcome, ..this });
    let open = this.is_some_and(|this| this.outcome == Outcome::Open);
    let in_doubt = this.is_some_and(|this| this.outcome.is_in_doubt());
    let next = match &mark.act {
        EffectAct::Announced { declared, .. } => {
            let may = match last {
                None => mark.attempt == 1,
                Some(last) => {
                    last.outcome.happened() == Some(false)
                        && last.attempt.checked_add(1) == Some(mark.attempt)
                }
            };
            let recovery = declared.recovery;
            may.then_some(Standing { attempt: mark.attempt, outcome: Outcome::Open, recovery })
        }
        EffectAct::Done if open => ended(Outcome::Done),
        EffectAct::Failed(Disposition::InDoubt)
            if this.is_some_and(|this| this.recovery.performs_again()) =>
        {
            None
        }
        EffectAct::Failed(disposition) if open => ended(Outcome::Failed(*disposition)),
        EffectAct::Reconciled(verdict) if in_doubt => ended(Outcome::Reconciled(*verdict)),
        EffectAct::Done | EffectAct::Failed(_) | EffectAct::Reconciled(_) => None,
    };
    next.ok_or_else(|| ActRefused {
        key: mark.key.clone(),
        attempt: mark.attempt,
        act: mark.act.name(),
        last,
    })
}

fn describe(key: &EffectKey, attempt: u32, act: &str, last: Option<&Standing>) -> String {
    let stands: &dyn fmt::Display = match last {
        None => &"nothing was announced under the key",
        Some(last) => &format!("attempt {} {}", last.attempt, last.outcome.words()),
    };
    format!(
        "the {act} of attempt {attempt} of effect {key:?} does not follow from what is recorded: {stands}"
    )
}
