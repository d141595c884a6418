//! A worker against a coordinator that the test plays: a real server that records what it gets and answers as it is told
//! to, and real children. One file for each stage of a run's life.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent;
mod coordinator;
mod effect_call;
mod fixture;

mod blocking;
mod effect_ends;
mod effects;
mod gifts;
mod grants;
mod handler_effects;
mod handlers;
mod life;
mod notes;
mod orders;
mod steps;
mod streams;
mod terms;
