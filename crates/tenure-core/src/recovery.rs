//! Why a run stopped, whether its child is known to be gone, and whether the job may be restarted.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Why a run ended without a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Interruption {
    /// The worker went away while the child was running.
    WorkerLost,
    /// Sight of the process was lost.
    LostContact,
    /// The child ran past its own limit, or was silent for too long.
    TimedOut {
        /// True where it was the idle timeout.
        idle: bool,
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The child's end was observed and was no success.
    Crashed {
        /// The exit code; none where a signal ended it or where it could not be started.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        exit_code: Option<i32>,
        /// The signal that ended it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        signal: Option<i32>,
        /// Why it could not be started.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        not_started: Option<String>,
    },
    /// A person stopped the fleet.
    GroundStop,
}

/// What is known of a child. A type of its own: a bool at the wrong call site would silently authorise a duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Child {
    /// Its whole group is known to be empty.
    Gone,
    /// It may still be running.
    Unknown,
}

/// How a child is known to be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoneProof {
    /// Its worker saw its end, and the group's.
    Observed,
    /// Its guardian saw the group empty.
    Guardian,
    /// Its term lapsed, on a worker that fences its children.
    TermLapsed,
    /// Its host came back and looked.
    HostReturned,
    /// A person vouches for it.
    Person,
    /// It was never started.
    NeverStarted,
}

/// Whether a job may be restarted without a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Yes, within its attempts.
    #[default]
    Automatic,
    /// A person decides each time.
    Manual,
    /// No.
    Never,
}

/// The recovery settings that a job is held to; frozen at its admission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryPolicy {
    /// Whether.
    pub policy: Policy,
    /// Restarts after a failure of the child.
    pub max_attempts: u32,
    /// Restarts of a healthy child that lost its worker.
    pub max_losses: u32,
    /// First pause, in milliseconds.
    pub backoff_first_ms: u64,
    /// Longest pause, in milliseconds.
    pub backoff_max_ms: u64,
    /// Exit codes that are a failure for good: no restart.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub final_exit_codes: Vec<i32>,
}

/// What a restart draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pays {
    /// An attempt and a hop.
    Attempt,
    /// A loss alone.
    Loss,
    /// Nothing: a person overrode, or the run never started.
    Nothing,
}

/// A restart that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Which attempt the next run is; the first restart is attempt 2.
    pub attempt: u32,
    /// What it draws on.
    pub pays: Pays,
    /// Not before; none: at once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_before: Option<Timestamp>,
}

/// Why a job may not be restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Denial {
    /// The interruption itself forbids it.
    #[error("the fleet was stopped by a person")]
    NotRetryable,
    /// The child may still be running.
    #[error("the child of the earlier run is not known to be gone")]
    ChildUnaccountedFor,
    /// The policy is `never`.
    #[error("its recovery policy is never")]
    PolicyForbids,
    /// The policy is `manual`.
    #[error("its recovery policy is manual, so a person decides")]
    NeedsAHuman,
    /// Nothing is left to draw on.
    #[error("all {max_attempts} restarts are used up")]
    OutOfAttempts {
        /// The number of restarts that it had.
        max_attempts: u32,
    },
}

/// The pause before restart number `restart` (from 1), without jitter: first, doubling, at most max.
#[must_use]
pub fn backoff(policy: &RecoveryPolicy, restart: u32) -> Duration {
    let doublings = restart.saturating_sub(1).min(63);
    let ms = policy.backoff_first_ms.saturating_mul(1 << doublings).min(policy.backoff_max_ms);
    Duration::from_millis(ms)
}
