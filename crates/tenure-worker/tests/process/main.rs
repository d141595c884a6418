//! The process runner and its guardian on real processes: started, flooded, left behind, killed and frozen.
//!
//! Each test waits for conditions. "Nobody is left" is looked up in /proc, by the path that the children bear in
//! their arguments, not concluded from time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails loudly")]

mod coordinator;
mod ending;
mod fencing;
mod gate;
mod limits;
mod output;
mod raw_guardian;
mod reporting;
mod scene;
mod starting;
