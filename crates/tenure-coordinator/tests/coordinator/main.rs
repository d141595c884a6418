//! A coordinator against a real PostgreSQL, with a real gRPC client that plays the worker. Each file is one stage of a
//! job's life; `fleet` and `worker` are what all of them stand on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets a surprise has failed"
)]

mod fleet;
mod layovers;
mod waits;
mod worker;

mod steering;
mod submission;

mod handlers;
mod life;
mod limits;

mod overdue;

mod halts;

mod attach;
mod blobs;

mod resend;

mod effect;

mod sending;

mod answers;
mod changed;

mod cancel;

mod recovery;

mod reading;

mod outage;
mod plural;
mod pooler;
mod start;

mod credentials;
