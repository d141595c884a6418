//! Effects as the end of a run finds them: in doubt (mutating, announced, and nobody knows whether they happened), or landed
//! and not undone.

use serde::{Deserialize, Serialize};

use super::{Announcement, EffectKey, LastAttempt, decide_announcement};

/// One effect in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Its key.
    pub key: EffectKey,
    /// Its last attempt.
    pub last: LastAttempt,
}

/// The mutating effects of a job that are in doubt, by key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Doubts {
    /// The first of them, at most `limits::DOUBTS_MAX`.
    pub listed: Vec<Doubt>,
    /// How many there are in all.
    pub count: u64,
    /// How many of all can be settled by nobody but a person.
    pub undecided: u64,
    /// How many of all no run that undoes could settle: it looks up what can be looked up by a command, goes on with its own undoing,
    /// and performs nothing else again.
    pub bar_undoing: u64,
    /// How many others are known, from somebody who looked, not to have happened, and were not announced again since.
    pub denied: u64,
}

/// The steps that are to be undone where a job is unwound: mutating effects that took effect, after the last pivot, whose
/// undoing is declared or was never spoken of, and that were not undone yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepsToUndo {
    /// The first of them, at most `limits::DOUBTS_MAX`: the one that landed last comes first.
    pub listed: Vec<EffectRef>,
    /// How many there are in all.
    pub count: u64,
    /// The first of those whose undoing was never spoken of, in the same order.
    pub undeclared: Vec<EffectRef>,
    /// How many of all those are.
    pub undeclared_count: u64,
}

/// An effect as a record names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRef {
    /// Its key.
    pub key: EffectKey,
    /// Its attempt, from 1.
    pub attempt: u32,
}

impl Doubt {
    /// True where no later run may settle it: its recovery is a person.
    #[must_use]
    pub const fn needs_a_person(&self) -> bool {
        match decide_announcement(Some(&self.last)) {
            Announcement::Undecided => true,
            Announcement::Announce { .. }
            | Announcement::PerformAgain { .. }
            | Announcement::Probe { .. }
            | Announcement::Done
            | Announcement::FailedForGood => false,
        }
    }

    /// True where no run that undoes what its job has done may settle it.
    #[must_use]
    pub fn bars_undoing(&self) -> bool {
        match decide_announcement(Some(&self.last)) {
            Announcement::Undecided => true,
            Announcement::PerformAgain { .. } => !self.key.is_undo(),
            Announcement::Announce { .. }
            | Announcement::Probe { .. }
            | Announcement::Done
            | Announcement::FailedForGood => false,
        }
    }

    /// The form in a record.
    #[must_use]
    pub fn to_ref(&self) -> EffectRef {
        EffectRef { key: self.key.clone(), attempt: self.last.attempt }
    }
}

impl Doubts {
    /// True where one of those listed is about something that was done, and not about its undoing.
    #[must_use]
    pub fn are_about_work(&self) -> bool {
        self.listed.iter().any(|doubt| !doubt.key.is_undo())
    }

    /// True where nothing is in doubt.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}
