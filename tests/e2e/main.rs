//! The whole, from outside: real processes on a real PostgreSQL, spoken to with the `tenure` program, killed, frozen and
//! tampered with. One file for each thing that must hold.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod fixture;

mod attention;
mod bad_input;
mod blobs;
mod chain;
mod chaos;
mod chaos_effects;
mod compose;
mod corpus;
mod credentials;
mod database;
mod draining;
mod effect_calls;
mod effects;
mod fencing;
mod handler_unwinding;
mod handover;
mod jobs;
mod mcp;
mod observability;
mod probes;
mod replay;
mod replicas;
mod secured;
mod sending;
mod steering;
mod unwinding;
mod verbs;
mod waits;
mod walls;
