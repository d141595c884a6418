//! What executes runs: the worker's own process and the processes beside it. It keeps the worker registered and attached,
//! carries out what it is granted, and reports until it is acknowledged. It contains no SQL and no database credential;
//! it knows coordinators by their wire protocol alone, and decides nothing about a job beyond ending a child.
//! Neighbours: `tenure-coordinator` at the other end of the stream, `tenure-cli`, whose binary it runs in.

pub mod guardian;
pub mod handler;
pub mod runner;

mod wait;
mod worker;

mod context;
mod layover;
mod leftovers;
mod metrics;
mod options;
mod places;

mod attachment;
mod blobs;
mod credential;
mod drain;
mod endpoints;
mod grant;
mod held_runs;
mod local_deadline;
mod term;

mod effect;
mod executor;
mod gifts;
mod journal;
mod outbox;
mod run_calls;
mod run_key;
mod run_socket;

#[cfg(test)]
mod factory;

pub use attachment::RegistrationRefused;
pub use credential::{TokenSource, WorkerCredential};
pub use endpoints::InvalidEndpoint;
pub use options::{InvalidOption, WorkerOptions};
pub use places::PlacesError;
pub use worker::{RunningWorker, ServeError, StartError, Worker, conceal_process};
