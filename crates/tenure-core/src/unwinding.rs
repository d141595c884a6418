//! Undoing what a job has done: why, and what the job becomes once everything is undone. While it stands in a job's row, the
//! job works in the direction `compensating`, and its runs undo instead of doing. Neighbours: `settlement` decides when it
//! begins and how it ends, `effect` says which steps there are.

use serde::{Deserialize, Serialize};

use crate::{
    job::{Outcome, State},
    record::RecordKind,
};

/// Why a job is unwound, and what becomes of it then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "instead_of", rename_all = "snake_case")]
pub enum Unwinding {
    /// It was cancelled.
    Cancelled,
    /// It failed, and its agent says that this is undone.
    Failed {
        /// Why it failed, as a stable word.
        reason: String,
        /// Why, for a person.
        detail: String,
    },
}

impl Unwinding {
    /// What began with this record; none: nothing.
    #[must_use]
    pub fn begun_by(record: &RecordKind) -> Option<Self> {
        let RecordKind::UnwindStarted { instead_of, reason, detail, .. } = record else { return None };
        if *instead_of != State::Failed {
            return Some(Self::Cancelled);
        }
        let (reason, detail) = (reason.clone().unwrap_or_default(), detail.clone().unwrap_or_default());
        Some(Self::Failed { reason, detail })
    }

    /// The verdict once everything is undone.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Cancelled => Outcome::Cancelled,
            Self::Failed { .. } => Outcome::Failed,
        }
    }

    /// The state of that verdict.
    #[must_use]
    pub const fn state(&self) -> State {
        self.outcome().state()
    }

    /// Why it failed: as a stable word, and for a person. None: it did not.
    #[must_use]
    pub fn failure(&self) -> Option<(&str, &str)> {
        match self {
            Self::Cancelled => None,
            Self::Failed { reason, detail } => Some((reason, detail)),
        }
    }
}
