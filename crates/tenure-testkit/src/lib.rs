//! What tests of Tenure, and of work on Tenure, stand on.
//!
//! Owns [`TestDatabase`], a fresh and migrated database for one test; [`crash_points`], every crash that could have happened
//! to a job, with [`assert_resumed_honestly`]; [`FaultyStore`], in which an append fails, is lost, or is fenced; [`Cluster`],
//! a whole fleet as processes, [`Host`], a host of its own for some of them, [`Proxy`], which delays, loses and cuts what goes
//! between them, [`Peer`], a client without manners, [`Ledger`], an outside service that counts what was really done,
//! [`Collector`], which receives telemetry, [`Witnesses`] and the checkers that ask them, and [`wait_for`]. Nothing here is
//! needed at run time, and nothing replaces the real thing.
//!
//! Neighbours: `tenure-postgres` runs the servers, `tenure-store` owns the schema. What follows here is the README, whose
//! program, over `tenure_client`, `tenure_coordinator` and `tenure_worker`, is run as a test.
#![doc = include_str!("../README.md")]

mod checker;
mod cluster;
mod collector;
mod crash_point;
mod database;
mod heartbeat;
mod history;
mod host;
mod ledger;
mod peer;
mod processes;
mod programs;
mod proxy;
mod recovery;
mod store_fault;
mod template;
mod wait;

pub use checker::{
    Answer, Concern, Finding, Submitted, Witnesses, check_chains, check_children, check_conclusions,
    check_deadlines, check_effects, check_leases, check_limits, check_liveness, check_notes, check_ownership,
    check_prices, check_submissions, count_in_doubt,
};
pub use cluster::{Cluster, Crash};
pub use collector::{Collector, ReceivedSpan};
pub use crash_point::{
    CrashPoint, EffectAtPoint, RebuiltJob, assert_resumed_honestly, crash_points, list_dishonesties,
};
pub use database::TestDatabase;
pub use heartbeat::{Beats, HEARTBEAT_SCRIPT, Heartbeats};
pub use history::{RunHistory, read_histories, read_history};
pub use host::{Break, Host};
pub use ledger::{Behaviour, Entry, Ledger, LedgerClient, LedgerError, Posted, read_entries};
pub use nix::unistd::Pid;
pub use peer::{Answered, Call, PREFACE, Peer, announce_message, frame_message, read_to_close, throw_bytes};
pub use processes::{descendants_of, guardian_of, guardians_of};
pub use programs::find_program;
pub use proxy::{Proxy, Treatment, Way};
pub use recovery::{Fault, Recoveries, Spread, measure_recoveries, now_ns};
pub use store_fault::{FaultyStore, Injected, Occasion, StoreFault};
pub use wait::wait_for;
