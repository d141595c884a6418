//! The states of a job and what may become of them: one function, `apply`, from a state and an event to the next state or
//! a refusal. Every planner goes through it, for live writes and for replay alike. It looks at the state alone; what else
//! has to be true (the child gone, the deadline not reached) is asked by the planners in `settlement` and `verb`.

mod next_commands;
mod transition;

pub use next_commands::{answer_commands, next_commands};
pub use transition::apply;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::verb::Verb;

/// Where a job stands. An unknown stored state is refused, never guessed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for a worker.
    Ready,
    /// A run holds its lease.
    Running,
    /// Waits for an instant, an event or a decision.
    Suspended,
    /// Its run ended without a verdict, and it may not be restarted on the fleet's own authority.
    Interrupted,
    /// Sealed with success.
    Succeeded,
    /// Failed, and may be resumed.
    Failed,
    /// A limit refused.
    Exhausted,
    /// A principal's halt paused it.
    Withheld,
    /// Something is in doubt.
    Quarantined,
    /// Sealed by a cancel.
    Cancelled,
    /// Sealed by a person.
    Abandoned,
    /// Sealed by retention.
    Expired,
}

impl State {
    /// All states, in the order of the table of verbs.
    pub const ALL: &'static [Self] = &[
        Self::Ready,
        Self::Running,
        Self::Suspended,
        Self::Interrupted,
        Self::Failed,
        Self::Exhausted,
        Self::Withheld,
        Self::Quarantined,
        Self::Succeeded,
        Self::Cancelled,
        Self::Abandoned,
        Self::Expired,
    ];

    /// The state as stored and shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Interrupted => "interrupted",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Exhausted => "exhausted",
            Self::Withheld => "withheld",
            Self::Quarantined => "quarantined",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
            Self::Expired => "expired",
        }
    }

    /// The state of this name. An unknown one is refused, never guessed at.
    ///
    /// # Errors
    /// There is no such state.
    pub fn parse(given: &str) -> Result<Self, UnknownState> {
        Self::ALL
            .iter()
            .copied()
            .find(|state| state.name() == given)
            .ok_or_else(|| UnknownState { given: given.to_owned() })
    }

    /// True where the journal takes no more records.
    #[must_use]
    pub const fn is_sealed(self) -> bool {
        match self {
            Self::Succeeded | Self::Cancelled | Self::Abandoned | Self::Expired => true,
            Self::Ready
            | Self::Running
            | Self::Suspended
            | Self::Interrupted
            | Self::Failed
            | Self::Exhausted
            | Self::Withheld
            | Self::Quarantined => false,
        }
    }

    /// True where the job goes on by itself, or somebody is asked about it.
    #[must_use]
    pub const fn is_unfinished(self) -> bool {
        match self {
            Self::Ready
            | Self::Running
            | Self::Suspended
            | Self::Interrupted
            | Self::Exhausted
            | Self::Withheld
            | Self::Quarantined => true,
            Self::Failed | Self::Succeeded | Self::Cancelled | Self::Abandoned | Self::Expired => false,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A stored state that this release does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no state of a job that this release knows")]
pub struct UnknownState {
    /// What was read.
    pub given: String,
}

/// What happens to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A worker claimed it: a run begins.
    Claimed,
    /// Its run ended without a verdict, and it may not be restarted on the fleet's own authority.
    Interrupted,
    /// A restart was granted, or a run never started or was handed over: it waits for a worker again.
    Readied,
    /// Its run announced a wait.
    Suspended,
    /// What it waited for is there.
    Woken,
    /// What it has done is to be undone: it waits for a worker that does.
    Unwinding,
    /// A verdict.
    Concluded(Outcome),
    /// Somebody asked for something.
    Asked(Verb),
}

/// The states in which a job can be concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Success.
    Succeeded,
    /// Failure; leaves the job open.
    Failed,
    /// A limit refused; leaves the job open.
    Exhausted,
    /// A principal's halt paused it; leaves the job open.
    Withheld,
    /// Something is in doubt; leaves the job open.
    Quarantined,
    /// Cancelled.
    Cancelled,
    /// Given up by a person.
    Abandoned,
    /// Sealed by retention.
    Expired,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: &'static [Self] = &[
        Self::Succeeded,
        Self::Failed,
        Self::Exhausted,
        Self::Withheld,
        Self::Quarantined,
        Self::Cancelled,
        Self::Abandoned,
        Self::Expired,
    ];

    /// The state that a job concluded so is in.
    #[must_use]
    pub const fn state(self) -> State {
        match self {
            Self::Succeeded => State::Succeeded,
            Self::Failed => State::Failed,
            Self::Exhausted => State::Exhausted,
            Self::Withheld => State::Withheld,
            Self::Quarantined => State::Quarantined,
            Self::Cancelled => State::Cancelled,
            Self::Abandoned => State::Abandoned,
            Self::Expired => State::Expired,
        }
    }
}

impl Event {
    /// All events.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let own =
            [Self::Claimed, Self::Interrupted, Self::Readied, Self::Suspended, Self::Woken, Self::Unwinding];
        let concluded = Outcome::ALL.iter().copied().map(Self::Concluded);
        let asked = Verb::ALL.iter().copied().map(Self::Asked);
        own.into_iter().chain(concluded).chain(asked).collect()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed => f.write_str("claimed"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Readied => f.write_str("readied"),
            Self::Suspended => f.write_str("suspended"),
            Self::Woken => f.write_str("woken"),
            Self::Unwinding => f.write_str("unwinding"),
            Self::Concluded(outcome) => write!(f, "concluded {}", outcome.state()),
            Self::Asked(verb) => f.write_str(verb.name()),
        }
    }
}

#[cfg(test)]
mod tests;
