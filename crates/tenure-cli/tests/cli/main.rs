//! The `tenure` program as it is typed, without a fleet behind it: what it takes, what it prints, what it ends with.
//! What needs a fleet is tested end to end elsewhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod program;

mod errors;
mod fleet_files;
mod help;
mod init;
