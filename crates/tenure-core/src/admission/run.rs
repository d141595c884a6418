//! Whether a run may begin.

use jiff::Timestamp;

use crate::{
    deadline::{Deadline, DeadlineReached},
    halt::StandingHalt,
    money::Micros,
};

/// Everything that is asked before a run. What is none is not limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAdmission {
    /// The broadest halt that matches.
    pub halt: Option<StandingHalt>,
    /// The session's deadline.
    pub deadline: Deadline,
    /// The database's time.
    pub now: Timestamp,
    /// Hops that the run before had, where this run pays one.
    pub hops_left: Option<u32>,
    /// Money of the session: spent and allowed, in micro-units.
    pub budget_micros: Option<Amount>,
    /// Runs of the session: had and allowed.
    pub runs: Option<Amount>,
    /// Money of the tenant over 24 hours: spent and allowed, in micro-units.
    pub reserve_micros: Option<Amount>,
    /// The tenant's quota.
    pub quota: Option<Quota>,
    /// Runs at the same time: under way and allowed.
    pub concurrency: Option<Amount>,
}

impl RunAdmission {
    /// What is asked of every run; the caller adds what else limits it.
    #[must_use]
    pub const fn at(now: Timestamp, deadline: Deadline) -> Self {
        Self {
            halt: None,
            deadline,
            now,
            hops_left: None,
            budget_micros: None,
            runs: None,
            reserve_micros: None,
            quota: None,
            concurrency: None,
        }
    }
}

/// What was used of a limit, and the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// What was used.
    pub used: u64,
    /// What is allowed.
    pub limit: u64,
}

impl Amount {
    pub(crate) const fn is_used_up(&self) -> bool {
        self.used >= self.limit
    }
}

/// What a quota has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Settled in its period.
    pub settled: u64,
    /// Reserved by what is under way.
    pub reserved: u64,
    /// Wanted now.
    pub requested: u64,
    /// Allowed in its period.
    pub limit: u64,
}

impl Quota {
    const fn is_exceeded(&self) -> bool {
        self.settled.saturating_add(self.reserved).saturating_add(self.requested) > self.limit
    }
}

/// Why a run may not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunRefusal {
    /// A halt stands.
    #[error("halt {} of {} stands: {}", .0.id, .0.scope, .0.why)]
    Halted(StandingHalt),
    /// The deadline.
    #[error(transparent)]
    DeadlineReached(DeadlineReached),
    /// No hop is left.
    #[error("no hop is left for another run ({hops_left} left)")]
    HopsExhausted {
        /// What the run before had.
        hops_left: u32,
    },
    /// The budget is spent.
    #[error("the session's budget is spent: {} of {}", Micros(.0.used), Micros(.0.limit))]
    BudgetSpent(Amount),
    /// The session has had its runs.
    #[error("the session has had its runs: {} of {}", .0.used, .0.limit)]
    RunCapReached(Amount),
    /// The tenant's reserve is spent.
    #[error("the tenant's reserve of 24 hours is spent: {} of {}", Micros(.0.used), Micros(.0.limit))]
    ReserveSpent(Amount),
    /// The tenant's quota does not cover it.
    #[error(
        "the tenant's quota does not cover it: {} settled, {} reserved, {} requested of {}",
        .0.settled, .0.reserved, .0.requested, .0.limit
    )]
    QuotaSpent(Quota),
    /// As many runs as may be are under way.
    #[error("as many runs as may be are under way: {} of {}", .0.used, .0.limit)]
    ConcurrencyReached(Amount),
}

impl RunRefusal {
    /// The limit that ends a job as exhausted, as a stable word. None: nothing is used up, and the job waits.
    #[must_use]
    pub const fn limit(&self) -> Option<&'static str> {
        match self {
            Self::DeadlineReached(_) => Some("deadline"),
            Self::HopsExhausted { .. } => Some("hops"),
            Self::BudgetSpent(_) => Some("budget"),
            Self::RunCapReached(_) => Some("runs"),
            Self::ReserveSpent(_) => Some("reserve"),
            Self::QuotaSpent(_) => Some("quota"),
            Self::Halted(_) | Self::ConcurrencyReached(_) => None,
        }
    }
}

/// Whether a run may begin.
///
/// # Errors
/// The first limit, in the order of the module's header, that stands against it.
pub fn admit_run(run: &RunAdmission) -> Result<(), RunRefusal> {
    if let Some(halt) = &run.halt {
        return Err(RunRefusal::Halted(halt.clone()));
    }
    run.deadline.admit(run.now).map_err(RunRefusal::DeadlineReached)?;
    if let Some(hops_left @ 0..=1) = run.hops_left {
        return Err(RunRefusal::HopsExhausted { hops_left });
    }
    refuse_used_up(run.budget_micros, RunRefusal::BudgetSpent)?;
    refuse_used_up(run.runs, RunRefusal::RunCapReached)?;
    refuse_used_up(run.reserve_micros, RunRefusal::ReserveSpent)?;
    if let Some(quota) = run.quota.filter(Quota::is_exceeded) {
        return Err(RunRefusal::QuotaSpent(quota));
    }
    refuse_used_up(run.concurrency, RunRefusal::ConcurrencyReached)
}

fn refuse_used_up(amount: Option<Amount>, refusal: fn(Amount) -> RunRefusal) -> Result<(), RunRefusal> {
    amount.filter(Amount::is_used_up).map_or(Ok(()), |amount| Err(refusal(amount)))
}
