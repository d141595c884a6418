//! The table of verbs and states, cell by cell. Every match lists every state, so that a new one cannot slip through.

use super::Verb;
use crate::job::State;

/// One cell of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Yes.
    Yes,
    /// Yes, once the child of its last run is known to be gone.
    OnceChildGone,
    /// Yes, and the same limit is met again.
    MeetsSameLimit,
    /// Where its wait expired.
    WhereWaitExpired,
    /// Yes, unless a step was compensated.
    UnlessCompensated,
    /// Yes, beside a raise of the limit.
    BesideRaise,
    /// Yes, after the halt was lifted.
    AfterLift,
    /// Yes; the child is ended first.
    EndsChildFirst,
    /// No.
    No,
    /// The verb has no meaning there.
    Meaningless,
    /// It is over.
    Over,
}

impl Permission {
    /// True where the state does not stand against it. What the cell asks for besides is asked by the verb's plan.
    #[must_use]
    pub const fn is_granted(self) -> bool {
        match self {
            Self::Yes
            | Self::OnceChildGone
            | Self::MeetsSameLimit
            | Self::WhereWaitExpired
            | Self::UnlessCompensated
            | Self::BesideRaise
            | Self::AfterLift
            | Self::EndsChildFirst => true,
            Self::No | Self::Meaningless | Self::Over => false,
        }
    }
}

/// Whether a verb is allowed in a state.
#[must_use]
pub const fn allowed(state: State, verb: Verb) -> Permission {
    match verb {
        Verb::Cancel => allow_cancel(state),
        Verb::Steer => allow_steer(state),
        Verb::Recover => allow_recover(state),
        Verb::Resume => allow_resume(state),
        Verb::ConfirmGone => allow_confirm_gone(state),
        Verb::Reconcile | Verb::Reopen => allow_in_quarantine(state),
        Verb::Abandon => allow_abandon(state),
    }
}

const fn allow_cancel(state: State) -> Permission {
    match state {
        State::Ready
        | State::Running
        | State::Suspended
        | State::Failed
        | State::Exhausted
        | State::Withheld => Permission::Yes,
        State::Interrupted => Permission::OnceChildGone,
        State::Quarantined => Permission::No,
        State::Succeeded | State::Cancelled | State::Abandoned | State::Expired => Permission::Over,
    }
}

const fn allow_steer(state: State) -> Permission {
    match state {
        State::Ready | State::Running | State::Suspended | State::Failed => Permission::Yes,
        State::Interrupted => Permission::OnceChildGone,
        State::Exhausted => Permission::MeetsSameLimit,
        State::Withheld
        | State::Quarantined
        | State::Succeeded
        | State::Cancelled
        | State::Abandoned
        | State::Expired => Permission::No,
    }
}

const fn allow_recover(state: State) -> Permission {
    match state {
        State::Interrupted => Permission::OnceChildGone,
        State::Ready
        | State::Running
        | State::Suspended
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined
        | State::Succeeded
        | State::Cancelled
        | State::Abandoned
        | State::Expired => Permission::Meaningless,
    }
}

const fn allow_resume(state: State) -> Permission {
    match state {
        State::Suspended => Permission::WhereWaitExpired,
        State::Failed => Permission::UnlessCompensated,
        State::Exhausted => Permission::BesideRaise,
        State::Withheld => Permission::AfterLift,
        State::Ready
        | State::Running
        | State::Interrupted
        | State::Quarantined
        | State::Succeeded
        | State::Cancelled
        | State::Abandoned
        | State::Expired => Permission::Meaningless,
    }
}

const fn allow_confirm_gone(state: State) -> Permission {
    match state {
        State::Interrupted | State::Quarantined => Permission::Yes,
        State::Ready
        | State::Running
        | State::Suspended
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Succeeded
        | State::Cancelled
        | State::Abandoned
        | State::Expired => Permission::Meaningless,
    }
}

const fn allow_in_quarantine(state: State) -> Permission {
    match state {
        State::Quarantined => Permission::Yes,
        State::Ready
        | State::Running
        | State::Suspended
        | State::Interrupted
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Succeeded
        | State::Cancelled
        | State::Abandoned
        | State::Expired => Permission::Meaningless,
    }
}

const fn allow_abandon(state: State) -> Permission {
    match state {
        State::Running => Permission::EndsChildFirst,
        State::Ready
        | State::Suspended
        | State::Interrupted
        | State::Failed
        | State::Exhausted
        | State::Withheld
        | State::Quarantined => Permission::Yes,
        State::Succeeded | State::Cancelled | State::Abandoned | State::Expired => Permission::Over,
    }
}
