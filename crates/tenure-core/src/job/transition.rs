//! The one function from a state and an event to the next state or a refusal. Every match lists every state, so that a new
//! one cannot slip through.

use super::{Event, Outcome, State};
use crate::{
    reason::Reason,
    refusal::Refusal,
    verb::{self, Verb},
};

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
        Event::Unwinding => after_unwinding(state),
        Event::Concluded(outcome) => after_conclusion(state, outcome),
        Event::Asked(verb) => return after_verb(state, verb),
    };
    next.ok_or_else(|| {
        Refusal::new(Reason::Internal, format!("a job that is {state} cannot be {event}"))
            .with_detail("state", state)
    })
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

/// What stopped, waits or was set aside becomes ready only because a person had it go on; what wakes by itself is another event.
const fn after_readying(state: State) -> Option<State> {
    match state {
        State::Running
        | State::Suspended
        | State::Interrupted
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined => Some(State::Ready),
        State::Ready | State::Succeeded | State::Cancelled | State::Abandoned | State::Expired => None,
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

/// Whatever is not sealed can be undone, and what was ready for a run is ready for another.
const fn after_unwinding(state: State) -> Option<State> {
    match state {
        State::Ready
        | State::Running
        | State::Suspended
        | State::Interrupted
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined => Some(State::Ready),
        State::Succeeded | State::Cancelled | State::Abandoned | State::Expired => None,
    }
}

/// Which verdicts a state admits. Only a run can succeed, at once or once the doubts that kept it from that are answered;
/// only retention lets something expire; what waits can still meet
/// its deadline; a settlement can find an interrupted job out of attempts, or in doubt; a cancel can find a doubt, or what
/// it cannot undo, in whatever it is asked about; a steer meets the limit that stands; what was set aside is judged again
/// once the doubt is answered.
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
            Outcome::Exhausted
            | Outcome::Quarantined
            | Outcome::Cancelled
            | Outcome::Abandoned
            | Outcome::Expired => true,
            Outcome::Succeeded | Outcome::Failed | Outcome::Withheld => false,
        },
        State::Withheld => match outcome {
            Outcome::Quarantined | Outcome::Cancelled | Outcome::Abandoned => true,
            Outcome::Succeeded
            | Outcome::Failed
            | Outcome::Exhausted
            | Outcome::Withheld
            | Outcome::Expired => false,
        },
        State::Quarantined => match outcome {
            Outcome::Succeeded
            | Outcome::Failed
            | Outcome::Exhausted
            | Outcome::Quarantined
            | Outcome::Cancelled
            | Outcome::Abandoned => true,
            Outcome::Withheld | Outcome::Expired => false,
        },
        State::Succeeded | State::Cancelled | State::Abandoned | State::Expired => false,
    };
    if admitted { Some(outcome.state()) } else { None }
}

/// What a verb does to the state where nothing stands in its way and the table allows it: a cancel may
/// have to undo first. What a living run is asked for changes nothing until it has answered; what a person says about the world
/// changes no state by itself.
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
