//! Why a run stopped, whether its child is known to be gone, and whether the job may be restarted.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{Digest, JobId};

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
        /// What its handler returned as its error, or panicked with.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        error: Option<String>,
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
    /// True where a failure is undone before the job is called failed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub unwind_on_failure: bool,
}

/// What a restart draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pays {
    /// An attempt and a hop.
    Attempt,
    /// A loss alone.
    Loss,
    /// A hop alone: a person redirected the job.
    Hop,
    /// The run itself and nothing else: it is the same attempt, which was moved.
    Run,
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

impl Interruption {
    /// True where a restart can help.
    #[must_use]
    pub const fn retryable(&self) -> bool {
        match self {
            Self::WorkerLost | Self::LostContact | Self::TimedOut { .. } | Self::Crashed { .. } => true,
            Self::GroundStop => false,
        }
    }

    /// True where the kind itself does not prove that the child ended.
    #[must_use]
    pub const fn may_still_be_running(&self) -> bool {
        match self {
            Self::WorkerLost | Self::LostContact => true,
            Self::TimedOut { .. } | Self::Crashed { .. } | Self::GroundStop => false,
        }
    }

    /// What happened to the run, as the end of a sentence about it.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::WorkerLost => "the worker went away while it was running".to_owned(),
            Self::LostContact => "sight of the process was lost".to_owned(),
            Self::TimedOut { idle: false, limit_ms } => {
                format!("it ran past its own limit of {}", seconds(*limit_ms))
            }
            Self::TimedOut { idle: true, limit_ms } => {
                format!("it ran past its own limit of {} without any output or note", seconds(*limit_ms))
            }
            Self::Crashed { not_started: Some(reason), .. } => format!("it could not be started: {reason}"),
            Self::Crashed { error: Some(error), .. } => format!("its handler failed: {error}"),
            Self::Crashed { exit_code: Some(code), .. } => format!("it exited with code {code}"),
            Self::Crashed { signal: Some(signal), .. } => {
                format!("it exited abnormally, ended by signal {signal}")
            }
            Self::Crashed { exit_code: None, signal: None, not_started: None, error: None } => {
                "it exited abnormally".to_owned()
            }
            Self::GroundStop => "the fleet was stopped by a person".to_owned(),
        }
    }

    /// The word, as stored.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::WorkerLost => "worker_lost",
            Self::LostContact => "lost_contact",
            Self::TimedOut { .. } => "timed_out",
            Self::Crashed { .. } => "crashed",
            Self::GroundStop => "ground_stop",
        }
    }

    /// The reason of a failure where nothing is left to draw on: a stable word.
    #[must_use]
    pub const fn failure_reason(&self) -> &'static str {
        match self {
            Self::WorkerLost | Self::LostContact => "lost",
            Self::TimedOut { .. } | Self::Crashed { .. } | Self::GroundStop => "execution",
        }
    }
}

fn seconds(limit_ms: u64) -> String {
    match (limit_ms / 1000, limit_ms % 1000) {
        (0, ms) => format!("{ms} ms"),
        (s, 0) => format!("{s} s"),
        (s, ms) => format!("{s}.{ms:03} s"),
    }
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
    #[error("its restarts are used up ({max_attempts})")]
    OutOfAttempts {
        /// The number of restarts that it had.
        max_attempts: u32,
    },
}

impl Denial {
    /// The denial as a stable word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::NotRetryable => "not_retryable",
            Self::ChildUnaccountedFor => "child_unaccounted_for",
            Self::PolicyForbids => "policy_forbids",
            Self::NeedsAHuman => "needs_a_human",
            Self::OutOfAttempts { .. } => "out_of_attempts",
        }
    }
}

/// Whether a job may be restarted without a person, asked in exactly this order. For a child that was healthy when its
/// worker was lost, the caller passes losses in place of attempts.
///
/// # Errors
/// The first thing that stands against it.
pub fn authorize_recovery(
    policy: Policy,
    interruption: &Interruption,
    child: Child,
    attempts_so_far: u32,
    max_attempts: u32,
) -> Result<(), Denial> {
    if !interruption.retryable() {
        return Err(Denial::NotRetryable);
    }
    // A kind may prove the child's end by itself (`may_still_be_running`), but where its worker is out of sight the child is
    // unknown whatever the kind, and the caller says so.
    if child == Child::Unknown {
        return Err(Denial::ChildUnaccountedFor);
    }
    match policy {
        Policy::Never => return Err(Denial::PolicyForbids),
        Policy::Manual => return Err(Denial::NeedsAHuman),
        Policy::Automatic => {}
    }
    if attempts_so_far >= max_attempts {
        return Err(Denial::OutOfAttempts { max_attempts });
    }
    Ok(())
}

/// Restarts that innocents may have. Where attempts are disabled, innocents are not restarted either.
#[must_use]
pub const fn losses_allowed(policy: &RecoveryPolicy) -> u32 {
    if policy.max_attempts == 0 { 0 } else { policy.max_losses }
}

/// Which pause comes before a restart, given how many of its kind were granted before: none where it is immediate. The
/// first restart after a lost worker is; after a failure of the child there is always a pause.
#[must_use]
pub const fn pause_number(interruption: &Interruption, granted: u32) -> Option<u32> {
    match interruption {
        Interruption::WorkerLost | Interruption::LostContact if granted == 0 => None,
        Interruption::WorkerLost | Interruption::LostContact => Some(granted),
        Interruption::TimedOut { .. } | Interruption::Crashed { .. } | Interruption::GroundStop => {
            Some(granted.saturating_add(1))
        }
    }
}

/// Pause number `number` (from 1), without jitter: first, doubling, at most max.
#[must_use]
pub fn backoff(policy: &RecoveryPolicy, number: u32) -> Duration {
    let doublings = number.saturating_sub(1).min(63);
    let ms = policy.backoff_first_ms.saturating_mul(1 << doublings).min(policy.backoff_max_ms);
    Duration::from_millis(ms)
}

/// The pause, shortened by up to half: deterministic in the job and its attempt, so that whoever decides again decides the
/// same, and spread over jobs that were interrupted together.
#[must_use]
pub fn jitter(pause: Duration, job: JobId, attempt: u32) -> Duration {
    let [a, b, ..] = Digest::of_both(job.0.as_bytes(), &attempt.to_be_bytes()).0;
    let share = u32::from(u16::from_be_bytes([a, b]));
    pause / 2 + pause.saturating_mul(share) / (2 * u32::from(u16::MAX))
}

#[cfg(test)]
mod tests;
