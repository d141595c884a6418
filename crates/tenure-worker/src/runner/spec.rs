//! The plain types in which an executor says what to run, and hears how it ended.
//!
//! Owns no behaviour beyond their composition. The executor maps an agent's declaration to them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::{Redactor, ResourceLimits, RunUser};
use crate::guardian::{BootInstant, ReportIdentity};

/// How a guardian is started: a program that calls [`crate::guardian::run_guardian`] when its first argument is
/// `guard`.
#[derive(Debug, Clone)]
pub struct GuardCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Default for GuardCommand {
    /// This very program, also where its file was replaced since it was started.
    fn default() -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), arguments: vec![OsString::from("guard")] }
    }
}

/// What a child runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessCommand {
    /// A program, looked up in the child's own PATH, and its arguments.
    Argv(Vec<String>),
    /// A text for `/bin/sh -eu`.
    Script(String),
}

/// What a child reads from standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProcessStdin {
    /// Nothing.
    #[default]
    None,
    /// A file from its beginning, opened with the rights of the child's user.
    File(PathBuf),
}

/// One child process.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// Names the run on this host, as `JOB-EPOCH`; unique among live runs. `[A-Za-z0-9._-]`.
    pub run_name: String,
    /// What to run.
    pub command: ProcessCommand,
    /// The environment, exact and whole: [`super::compose_environment`].
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// What it reads.
    pub stdin: ProcessStdin,
    /// Whom it runs as. Absent: as the worker does.
    pub user: Option<RunUser>,
    /// What it may use.
    pub limits: ResourceLimits,
    /// The run directory, for a script's file, the identity and an unreported outcome.
    pub run_directory: PathBuf,
    /// Between SIGTERM and SIGKILL.
    pub stop_grace: Duration,
    /// How long it may take.
    pub timeout: Duration,
    /// How long it may give neither output nor a note. Absent: for ever.
    pub idle_timeout: Option<Duration>,
    /// Output beyond this is dropped, and the child goes on.
    pub output_limit_bytes: u64,
    /// Takes secrets out of the output.
    pub redactor: Redactor,
}

/// What ties a run to its worker's term.
#[derive(Debug, Clone)]
pub struct GuardLink {
    /// The term's local deadline; moved by [`super::ProcessHandle::move_deadline`].
    pub deadline: BootInstant,
    /// SIGTERM comes so long before it.
    pub margin: Duration,
    /// To whom the guardian reports where the worker cannot. Absent: nobody.
    pub report: Option<ReportIdentity>,
}

/// Why the executor ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// A cancel, a drain, a steer: afterwards no exit code is a verdict.
    Asked,
    /// The term is lost: nobody may act for this run any longer.
    ContactLost,
}

/// How a run ended, once its whole group was empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, with this code. Also after an asked stop: the executor knows that it asked.
    ExitCode(i32),
    /// By a signal.
    Signal(i32),
    /// It ran past its own timeout, whatever it exited with then.
    OwnTimeout {
        /// The limit.
        limit: Duration,
    },
    /// It was silent past its idle timeout, whatever it exited with then.
    IdleTimeout {
        /// The limit.
        limit: Duration,
    },
    /// It never ran.
    NotStarted {
        /// Why, for a person.
        reason: String,
    },
    /// The local deadline was reached, or its guardian died, and it was ended.
    ContactLost,
}

/// The end, and what is to be said about the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutcome {
    /// How it ended.
    pub end: ProcessEnd,
    /// Output was dropped.
    pub output_truncated: bool,
}
