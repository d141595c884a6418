//! The `tenure` program as it is typed: what it takes, what it prints, what it ends with;
//! and `tenure dev` as the fleet behind it. How a fleet stands faults is tested end to end elsewhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod dev_fleet;
mod program;

mod errors;
mod fleet_files;
mod help;
mod init;
mod mcp;
mod serving;

mod dev;
mod readme;
mod verbs;
