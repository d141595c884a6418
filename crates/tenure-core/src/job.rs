//! The states of a job and what may become of them: one function, `apply`, from a state and an event to the next state or
//! a refusal. Every planner goes through it, for live writes and for replay alike. It looks at the state alone; what else
//! has to be true (the child gone, the deadline not reached) is asked by the planners in `settlement` and `verb`.

mod next_commands;

pub use next_commands::next_commands;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    reason::Reason,
    refusal::Refusal,
    verb::{self, Verb},
};

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
        let own = [Self::Claimed, Self::Interrupted, Self::Readied, Self::Suspended, Self::Woken];
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
            Self::Concluded(outcome) => write!(f, "concluded {}", outcome.state()),
            Self::Asked(verb) => f.write_str(verb.name()),
        }
    }
}

/// The state of a job after an event.
///
/// # Errors
/// The event cannot happen in that state; the refusal names both.
pub fn apply(state: State, event: Event) -> Result<State, Refusal> {
    let next = match event {
        Event::Claimed => after_claim(state),
        Event::Interrupted => after_interruption(state),
        Event::Readied => after_readying(state),
        Event::Suspended => after_suspension(state),
        Event::Woken => after_wake(state),
        Event::Concluded(outcome) => after_conclusion(state, outcome),
        Event::Asked(verb) => return after_verb(state, verb),
    };
    next.ok_or_else(|| {
        Refusal::new(impossible(state), format!("a job that is {state} cannot be {event}"))
            .with_detail("state", state)
    })
}

const fn impossible(state: State) -> Reason {
    if state.is_sealed() { Reason::Sealed } else { Reason::Internal }
}

const fn after_claim(state: State) -> Option<State> {
    match state {
        State::Ready => Some(State::Running),
        State::Running
        | State::Suspended
        | State::Interrupted
        | State::Succeeded
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined
        | State::Cancelled
        | State::Abandoned
        | State::Expired => None,
    }
}

/// An interrupted job that is judged again and denied again stays what it is.
const fn after_interruption(state: State) -> Option<State> {
    match state {
        State::Running | State::Interrupted => Some(State::Interrupted),
        State::Ready
        | State::Suspended
        | State::Succeeded
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined
        | State::Cancelled
        | State::Abandoned
        | State::Expired => None,
    }
}

const fn after_readying(state: State) -> Option<State> {
    match state {
        State::Running | State::Interrupted => Some(State::Ready),
        State::Ready
        | State::Suspended
        | State::Succeeded
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined
        | State::Cancelled
        | State::Abandoned
        | State::Expired => None,
    }
}

const fn after_suspension(state: State) -> Option<State> {
    match state {
        State::Running => Some(State::Suspended),
        State::Ready
        | State::Suspended
        | State::Interrupted
        | State::Succeeded
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined
        | State::Cancelled
        | State::Abandoned
        | State::Expired => None,
    }
}

const fn after_wake(state: State) -> Option<State> {
    match state {
        State::Suspended => Some(State::Ready),
        State::Ready
        | State::Running
        | State::Interrupted
        | State::Succeeded
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined
        | State::Cancelled
        | State::Abandoned
        | State::Expired => None,
    }
}

/// Which verdicts a state admits. Only a run can succeed; only retention lets something expire; what waits can still meet
/// its deadline; a settlement can find an interrupted job out of attempts, or in doubt.
const fn after_conclusion(state: State, outcome: Outcome) -> Option<State> {
    let admitted = match state {
        State::Running => match outcome {
            Outcome::Succeeded
            | Outcome::Failed
            | Outcome::Exhausted
            | Outcome::Withheld
            | Outcome::Quarantined
            | Outcome::Cancelled
            | Outcome::Abandoned => true,
            Outcome::Expired => false,
        },
        State::Interrupted => match outcome {
            Outcome::Failed
            | Outcome::Exhausted
            | Outcome::Quarantined
            | Outcome::Cancelled
            | Outcome::Abandoned => true,
            Outcome::Succeeded | Outcome::Withheld | Outcome::Expired => false,
        },
        State::Ready | State::Suspended => match outcome {
            Outcome::Exhausted | Outcome::Quarantined | Outcome::Cancelled | Outcome::Abandoned => true,
            Outcome::Succeeded | Outcome::Failed | Outcome::Withheld | Outcome::Expired => false,
        },
        State::Failed | State::Exhausted => match outcome {
            Outcome::Cancelled | Outcome::Abandoned | Outcome::Expired => true,
            Outcome::Succeeded
            | Outcome::Failed
            | Outcome::Exhausted
            | Outcome::Withheld
            | Outcome::Quarantined => false,
        },
        State::Withheld => match outcome {
            Outcome::Cancelled | Outcome::Abandoned => true,
            Outcome::Succeeded
            | Outcome::Failed
            | Outcome::Exhausted
            | Outcome::Withheld
            | Outcome::Quarantined
            | Outcome::Expired => false,
        },
        State::Quarantined => match outcome {
            Outcome::Quarantined | Outcome::Abandoned => true,
            Outcome::Succeeded
            | Outcome::Failed
            | Outcome::Exhausted
            | Outcome::Withheld
            | Outcome::Cancelled
            | Outcome::Expired => false,
        },
        State::Succeeded | State::Cancelled | State::Abandoned | State::Expired => false,
    };
    if admitted { Some(outcome.state()) } else { None }
}

/// What a verb does to the state at once, where the table allows it. What a living run is asked for changes nothing until
/// it has answered; what a person says about the world changes no state by itself.
fn after_verb(state: State, verb: Verb) -> Result<State, Refusal> {
    let permission = verb::allowed(state, verb);
    if !permission.is_granted() {
        return Err(verb::refuse_verb(state, verb, permission));
    }
    let asked_of_the_run = state == State::Running;
    Ok(match verb {
        Verb::Cancel if asked_of_the_run => state,
        Verb::Cancel => State::Cancelled,
        Verb::Abandon if asked_of_the_run => state,
        Verb::Abandon => State::Abandoned,
        Verb::Steer if asked_of_the_run => state,
        Verb::Steer | Verb::Recover | Verb::Resume | Verb::Reopen => State::Ready,
        Verb::ConfirmGone | Verb::Reconcile => state,
    })
}

#[cfg(test)]
mod tests;
