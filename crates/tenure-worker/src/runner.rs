//! The process runner: one child process per run, guarded, limited, and read.
//!
//! Owns what an executor needs to run a command: the run directory, the exact environment, the user, the limits, the
//! redacted output, the timeouts, and the guardian that outlives this worker. Promises that a run's end is told
//! only when its *whole group* is empty and what it wrote was read. It judges nothing: which exit code is final,
//! and what follows an end, is decided elsewhere.
//!
//! ```text
//!   executor ──ProcessSpec──> start_process ──> supervisor task ──control socket──> guardian ──> child
//!      ^─────── output chunks ─────────────── capture task <──────── stdout, stderr ───────────────┘
//! ```
//!
//! Neighbour: [`crate::guardian`], the other end of the control socket.

mod capture;
mod cgroup;
mod environment;
mod orphans;
mod output_limit;
mod process;
mod redaction;
mod run_directory;
mod spec;
mod supervisor;
mod user;

pub use capture::{ActivityHold, OutputChunk, OutputStream};
pub(crate) use cgroup::RunCgroup;
pub use cgroup::{LimitSupport, ResourceLimits, find_limit_support};
pub use environment::{EnvironmentError, EnvironmentPlan, compose_environment};
pub use process::{ProcessHandle, RunningProcess};
pub(crate) use redaction::REDACTION_MARK;
pub use redaction::{RedactionStream, Redactor};
pub use run_directory::{
    PAYLOAD_FILE, ResultFile, RunDirectory, RunDirectoryError, RunFiles, SOCKET_PATH_MAX_BYTES,
    ensure_socket_path, open_result,
};
pub use spec::{
    GuardCommand, GuardLink, ProcessCommand, ProcessEnd, ProcessOutcome, ProcessSpec, ProcessStdin, StopCause,
};
pub use user::{RunUser, UserError, resolve_user};

use crate::guardian::Fencing;

/// Starts guarded processes. One per worker; cheap to clone.
#[derive(Debug, Clone)]
pub struct ProcessRunner {
    guard: GuardCommand,
    fencing: Fencing,
    support: LimitSupport,
}

impl ProcessRunner {
    /// A runner that fences in the way that the worker registered with. Makes this process a subreaper, so that what
    /// a killed guardian leaves behind comes here and is ended here, and removes the empty cgroups of runs that lost
    /// worker and guardian at once.
    pub fn new(guard: GuardCommand, fencing: Fencing) -> Self {
        if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
            tracing::warn!(%error, "the worker cannot become a subreaper: what a killed guardian leaves behind may stay");
        }
        cgroup::remove_stale_cgroups();
        Self { guard, fencing, support: find_limit_support() }
    }

    /// How it fences.
    pub fn fencing(&self) -> Fencing {
        self.fencing
    }

    /// Starts a guardian, which starts the child. Whatever prevents the start is an end of the process
    /// ([`ProcessEnd::NotStarted`]), so that there is one way to hear of it. Call it inside a tokio runtime.
    pub fn start_process(&self, spec: ProcessSpec, link: GuardLink) -> RunningProcess {
        spec.limits.warn_if_unsupported(self.support);
        process::start_process(&self.guard, self.fencing, spec, link)
    }
}
