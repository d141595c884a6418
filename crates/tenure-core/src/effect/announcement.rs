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

impl Outcome {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Open,
        Self::Done,
        Self::Failed(Disposition::DidNotHappen),
        Self::Failed(Disposition::InDoubt),
        Self::Failed(Disposition::Landed),
        Self::Reconciled(Disposition::DidNotHappen),
        Self::Reconciled(Disposition::InDoubt),
        Self::Reconciled(Disposition::Landed),
    ];

    /// What became of the world, where that is recorded apart.
    #[must_use]
    pub const fn disposition(self) -> Option<Disposition> {
        match self {
            Self::Open | Self::Done => None,
            Self::Failed(disposition) | Self::Reconciled(disposition) => Some(disposition),
        }
    }

    /// The state as stored.
    #[must_use]
    pub const fn state(self) -> &'static str {
        match self {
            Self::Open => "started",
            Self::Done => "done",
            Self::Failed(_) => "failed",
            Self::Reconciled(_) => "reconciled",
        }
    }

    /// Whether it happened; none: nobody knows.
    #[must_use]
    pub const fn happened(self) -> Option<bool> {
        match self {
            Self::Done | Self::Failed(Disposition::Landed) | Self::Reconciled(Disposition::Landed) => {
                Some(true)
            }
            Self::Failed(Disposition::DidNotHappen) | Self::Reconciled(Disposition::DidNotHappen) => {
                Some(false)
            }
            Self::Open | Self::Failed(Disposition::InDoubt) | Self::Reconciled(Disposition::InDoubt) => None,
        }
    }

    /// True where nobody knows whether it happened.
    #[must_use]
    pub const fn is_in_doubt(self) -> bool {
        self.happened().is_none()
    }

    /// The outcome as a sentence goes on with it.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Open => "has no outcome",
            Self::Done => "was done",
            Self::Failed(Disposition::DidNotHappen) => "failed and did not happen",
            Self::Failed(Disposition::InDoubt) => "failed in doubt",
            Self::Failed(Disposition::Landed) => "failed and took effect",
            Self::Reconciled(Disposition::DidNotHappen) => "was found not to have happened",
            Self::Reconciled(Disposition::InDoubt) => "could not be found out about",
            Self::Reconciled(Disposition::Landed) => "was found to have taken effect",
        }
    }

    /// The outcome that is stored as this state and disposition; none: there is no such outcome.
    #[must_use]
    pub fn of_stored(state: &str, disposition: Option<&str>) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|outcome| {
            outcome.state() == state && outcome.disposition().map(Disposition::word) == disposition
        })
    }
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
    match last {
        None => Announcement::Announce { attempt: 1 },
        Some(last) => answer_after(last.attempt, last.outcome, last.recovery),
    }
}

/// The answer where the last attempt ended so, and was declared with this recovery.
pub(crate) const fn answer_after(attempt: u32, outcome: Outcome, recovery: EffectRecovery) -> Announcement {
    match outcome {
        Outcome::Done | Outcome::Reconciled(Disposition::Landed) => Announcement::Done,
        Outcome::Failed(Disposition::Landed) => Announcement::FailedForGood,
        Outcome::Failed(Disposition::DidNotHappen) | Outcome::Reconciled(Disposition::DidNotHappen) => {
            Announcement::Announce { attempt: attempt + 1 }
        }
        Outcome::Reconciled(Disposition::InDoubt) => Announcement::Undecided,
        Outcome::Failed(Disposition::InDoubt) => match recovery {
            EffectRecovery::Probe => Announcement::Probe { attempt },
            // After a recorded outcome an attempt is never performed again.
            EffectRecovery::Retry | EffectRecovery::Idempotent | EffectRecovery::Ask => {
                Announcement::Undecided
            }
        },
        Outcome::Open => match recovery {
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
        self.outcome.is_in_doubt()
    }
}
