//! Why a run is starting, and what it is told about the runs before it. A handover is composed from the journal each time,
//! so that repeated handovers do not multiply it, and it never promises to be complete: a run that was interrupted stops
//! in mid-sentence. Bookings take their place after the effects once they exist; a reader takes an absent field as nothing to
//! tell. Neighbours: `brief` puts it into words, `recovery` says why a run was interrupted.

mod compose;
mod effects;
mod gifts;
mod json;
mod price;
mod steers;

pub use steers::EarlierSteer;

pub use compose::History;
pub use effects::{EarlierEffect, EarlierState};
pub use gifts::EarlierGift;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    id::{JobId, Run, Seq, SessionId},
    job::State,
    layover::VoidedBooking,
    principal::Principal,
    record::{KeptValue, Phase},
    recovery::Interruption,
    wait::{AwaitedResult, WokenBy},
};

/// Why a run is starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// The first run.
    Dispatch,
    /// An earlier run was interrupted.
    Recovered {
        /// That run.
        previous: Run,
        /// What happened to it.
        interruption: Interruption,
        /// Which attempt this is, from 2.
        attempt: u32,
    },
    /// The job had come to an end, or was set aside, and a person had it go on.
    Continued {
        /// The last run before.
        previous: Run,
        /// Who.
        by: Principal,
        /// Why.
        why: String,
        /// Which attempt this is, from 2.
        attempt: u32,
    },
    /// The wait that the run before announced is over.
    Woken {
        /// That run, which ended on purpose.
        previous: Run,
        /// What it waited for, and what came.
        wait: WokenBy,
        /// Which attempt this is: as the run before.
        attempt: u32,
    },
    /// Work that another session set down is picked up.
    Resumed {
        /// That session.
        booked_by: SessionId,
        /// Its job.
        job: JobId,
        /// What it waits for.
        waiting_for: String,
        /// When it was set down.
        booked_at: Timestamp,
        /// How often it was looked for before.
        checks: u32,
    },
    /// A person redirected the job.
    Steered {
        /// The last run before; none: there was none.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        previous: Option<Run>,
        /// The seq of the record beside which the note lies. A handover tells the note itself, when it was left and by whom.
        steered: Seq,
        /// Which attempt this is, from 1: it uses none up.
        attempt: u32,
    },
    /// The run before was moved, because its worker leaves.
    Drained {
        /// That run.
        previous: Run,
        /// Which attempt this is, from 1: it uses none up.
        attempt: u32,
    },
    /// What the job has done is undone.
    Unwinding {
        /// What the job becomes once everything is undone: cancelled, or failed.
        instead_of: State,
        /// Which attempt at it this is, from 1.
        attempt: u32,
    },
}

impl Cause {
    /// Which attempt the run is, from 1.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        match self {
            Self::Dispatch | Self::Resumed { .. } => 1,
            Self::Recovered { attempt, .. }
            | Self::Continued { attempt, .. }
            | Self::Woken { attempt, .. }
            | Self::Steered { attempt, .. }
            | Self::Drained { attempt, .. }
            | Self::Unwinding { attempt, .. } => *attempt,
        }
    }

    /// What a run of this cause pays when it starts; attempts, losses and hops are paid when it is granted.
    #[must_use]
    pub const fn price(&self) -> Price {
        match self {
            Self::Dispatch
            | Self::Recovered { .. }
            | Self::Continued { .. }
            | Self::Woken { .. }
            | Self::Resumed { .. }
            | Self::Steered { .. } => Price { counts: true, checks_money: true },
            // The run itself, and nothing else: the money was asked about when the attempt began.
            Self::Drained { .. } => Price { counts: true, checks_money: false },
            Self::Unwinding { .. } => Price { counts: false, checks_money: false },
        }
    }

    /// The direction in which the run works.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        match self {
            Self::Dispatch
            | Self::Recovered { .. }
            | Self::Continued { .. }
            | Self::Woken { .. }
            | Self::Resumed { .. }
            | Self::Steered { .. }
            | Self::Drained { .. } => Phase::Forward,
            Self::Unwinding { .. } => Phase::Compensating,
        }
    }

    /// The run whose work the run goes on with.
    #[must_use]
    pub const fn previous(&self) -> Option<Run> {
        match self {
            Self::Dispatch | Self::Resumed { .. } | Self::Unwinding { .. } => None,
            Self::Steered { previous, .. } => *previous,
            Self::Recovered { previous, .. }
            | Self::Continued { previous, .. }
            | Self::Woken { previous, .. }
            | Self::Drained { previous, .. } => Some(*previous),
        }
    }
}

/// What the limits of a session ask of a run that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// True where it counts as a run of its session, and meets the run cap.
    pub counts: bool,
    /// True where it starts only while the session's budget is not spent.
    pub checks_money: bool,
}

/// What a run is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handover {
    /// The job.
    pub job: JobId,
    /// The run that is told.
    pub run: Run,
    /// Why it is starting.
    pub cause: Cause,
    /// The job's input.
    pub input: KeptValue,
    /// What earlier runs wrote down, oldest first.
    pub notes: Vec<EarlierNote>,
    /// Older notes that were left out because there were too many bytes of them.
    pub notes_left_out: usize,
    /// The effects that earlier runs announced, in the order of their announcements.
    pub effects: Vec<EarlierEffect>,
    /// Earlier effects that were left out because there were too many bytes of them.
    pub effects_left_out: usize,
    /// Work that earlier runs gave to agents, oldest first.
    pub gifts: Vec<EarlierGift>,
    /// Earlier gifts that were left out because there were too many.
    pub gifts_left_out: usize,
    /// What an earlier run had set down, and what came to nothing.
    pub voided: Option<VoidedBooking>,
    /// What came of the first of the jobs that the run before waited for.
    pub awaited: Vec<AwaitedResult>,
    /// What persons redirected the job with, oldest first; the last one is what the run starts for where its cause says so.
    pub steers: Vec<EarlierSteer>,
    /// Older ones that were left out because there were too many bytes of them.
    pub steers_left_out: usize,
    /// The session's deadline; none: no ceiling.
    pub deadline: Option<RemainingDeadline>,
}

/// A note of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierNote {
    /// The run that left it.
    pub run: Run,
    /// When.
    pub at: Timestamp,
    /// What it says. None: it was erased.
    pub text: Option<String>,
}

/// The session's deadline and what is left of it when the run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RemainingDeadline {
    /// The instant.
    pub at: Timestamp,
    /// Whole seconds that are left, rounded up.
    pub remaining_s: u64,
}

#[cfg(test)]
mod tests;
