//! What executes runs: the worker's own process and the processes beside it.
//!
//! Owns the guardian and the process runner. Contains no SQL; knows coordinators by their wire protocol alone.

pub mod guardian;
pub mod runner;
