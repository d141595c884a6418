//! Handlers: agents written as functions in this process. A program that embeds a worker names each with its version, and
//! the fleet file declares `[agents.NAME] handler = "VERSION"`; a job for it is offered to workers that hold exactly that
//! version. What a handler may say about itself, it says through its [`RunContext`].
//!
//! Promises that a handler is called once for a run and never beside another one of its job, that its error or panic ends
//! its run and never the worker, and that a step or effect which is recorded is read back and not performed again. It
//! cannot promise that a handler which holds its thread stops when it is asked to: where it has not by the local deadline, the
//! whole process is ended by its guardian, with all its runs; renewals no longer count for one that was asked to end and dropped.
//! Tasks and threads that a handler spawned are neither awaited nor ended: await them, or keep what must not happen twice inside an
//! effect with an idempotency key. What a handler starts as a process of its own is guarded by nobody; an agent with a command is
//! for that. Dropping a [`RunningWorker`](crate::RunningWorker) while a handler acts leaves the process until the local deadline
//! to end; shut it down. The session's deadline is asked before each step and effect, by the worker's estimate of the
//! database's time.
//! Neighbours: `executor` calls handlers and judges how they end, `run_socket` and `effect` do what they ask for.

mod ask;
mod compensation;
mod context;
mod definition;
mod effect;
mod error;
mod gift;
mod group;
mod guard;
mod replay;
mod step;
mod told;

pub use jiff::Timestamp;
pub use tenure_core::{
    admission::Spend,
    effect::{Disposition, EffectRecovery},
    handler::HandlerVersion,
    handover::{Cause, EarlierEffect, EarlierGift, EarlierNote, EarlierState},
    id::{Epoch, JobId, Run, SessionId},
    money::Micros,
    reason::Reason,
    refusal::Refusal,
};
pub use tokio_util::sync::CancellationToken;

pub use crate::gifts::GivenJob;
pub use ask::Ending;
pub(crate) use ask::EndingAsk;
pub use compensation::UndoCall;
pub(crate) use compensation::{Compensations, undo_all};
pub use context::RunContext;
pub(crate) use definition::{Handler, Handlers};
pub use definition::{HandlerWorker, InvalidHandler};
pub use effect::{Effect, EffectCall, EffectError, Probe};
pub use error::HandlerError;
pub(crate) use error::{ToldError, bound_words};
pub use gift::Gift;
pub use group::{Group, GroupError};
pub use guard::GuardError;
pub(crate) use guard::HandlerGuard;
use replay::Replay;
pub use replay::ReplayError;
pub use step::StepError;
pub(crate) use step::Steps;
pub use tenure_core::replay::{Divergence as ReplayDivergence, Report as ReplayReport};
pub(crate) use told::EarlierRuns;
