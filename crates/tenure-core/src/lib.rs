//! What Tenure decides, as pure functions: it does no I/O, is not async, reads no clock and draws no randomness. Whoever
//! calls it passes the present instant, the facts and the random bytes, and carries out what comes back.
//! Neighbours: `tenure-store` remembers, `tenure-coordinator` and `tenure-worker` act, `tenure-proto` translates.

pub mod credential;
pub mod id;
pub mod layover;
pub mod limits;
pub mod money;
pub mod principal;
pub mod reason;
pub mod refusal;
pub mod replay;
pub mod run_ref;

pub mod chain;
pub mod effect;
pub mod job;
pub mod record;
pub mod step;
pub mod verify;
pub mod wait;

pub mod admission;
pub mod attention;
pub mod canonical;
pub mod deadline;
pub mod declaration;
pub mod fleet;
pub mod halt;

pub mod brief;
pub mod erasure;
pub mod explain;
pub mod handler;
pub mod handover;
pub mod joining;
pub mod memory;
pub mod payload;
pub mod plan;
pub mod recovery;
pub mod routing;
pub mod sending;
pub mod settlement;
pub mod term;
pub mod trace;
pub mod unwinding;
pub mod verb;

#[cfg(test)]
mod factory;
