//! The client against a real server that misbehaves on purpose: streams that break, answers that are lost, records that
//! come again or are left out. Whether the fleet itself is right is tested elsewhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod journal;
mod server;

mod calls;
mod effects;
mod output;
mod verification;
mod watching;
