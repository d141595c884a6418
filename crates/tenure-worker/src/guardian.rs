//! The guardian: a small process beside each child that ends it when its run may no longer go on.
//!
//! ```text
//!   worker ──control socket (fd 0)── guardian ──(init, PID 1 of a namespace)── child and its group
//! ```
//!
//! It owns the child's group: it starts the child, and it ends the whole group with SIGKILL when the worker's
//! end of the control socket closes, at the run's local deadline (so also when the worker is frozen), or when
//! told to. It says that a run ended only after it saw the group *empty*, and reports that to the coordinator
//! itself where the worker is gone or does not answer.
//!
//! It is single-threaded until the group is empty (it forks), writes nothing to the child's output, and logs
//! nothing: what went wrong travels over the control socket or is left in the run directory.
//!
//! It does not judge: whether the run is restarted is the coordinator's decision. Its neighbour is
//! [`crate::runner`], which starts it and holds the other end of its socket.
//!
//! What remains: a host suspended whole may on waking run a child for the moment until its guardian does, and a
//! child in uninterruptible sleep finishes the one system call it is in. Worker and guardian killed at once are
//! covered by [`Fencing::Kernel`] alone.

mod boot_clock;
mod child;
mod control;
pub(crate) mod descendants;
mod fencing;
mod group;
mod identity;
mod init;
mod lifecycle;
mod namespace;
mod process_group;
pub(crate) mod protocol;
mod reaping;
mod release;
mod report;
mod watch;
mod worker_watch;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

pub use boot_clock::BootInstant;
pub use fencing::{Fencing, detect_fencing};
pub(crate) use identity::write_private;
pub use identity::{
    IDENTITY_FILE, OUTCOME_FILE, Presence, ProcessMark, RunIdentity, find_presence, read_identity,
};
pub use protocol::{ReportIdentity, RunSecret};

use control::{Control, FirstFrame};
use protocol::{ChildEnd, EndCause, FromGuardian};
use watch::Watch;
use worker_watch::guard_worker;

/// What a command line that cannot be meant ends with.
const EXIT_USAGE: u8 = 2;

/// Runs the guardian on this process's file descriptors 0, 1 and 2. Called by the program before it parses any
/// argument, where the only one is `guard`, and before it starts any thread.
pub fn run_guardian() -> ExitCode {
    // A person at a terminal would wait for ever.
    if !control::is_socket_given() {
        return explain_guardian();
    }
    // A panic must not end up in the child's output.
    std::panic::set_hook(Box::new(|_| {}));
    match guard_run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The only argument of a program that is to be the guardian of a worker that it is itself.
pub(crate) const OWN_GUARDIAN_ARGUMENT: &str = "tenure-handler-guardian";
/// Whether this program becomes its own guardian where it is asked to.
static IS_OWN_GUARDIAN: AtomicBool = AtomicBool::new(false);

/// Becomes the guardian of a worker with handlers, where this program was started as that: call it first in `main` of a
/// program that starts such a worker, and the program needs no other beside it. In every other case it returns at once. Without
/// it the worker uses a `tenure` program, which has to be there.
///
/// ```no_run
/// #[tokio::main]
/// async fn main() {
///     tenure_worker::guardian::run_if_asked();
///     // … then `Worker::agent(…).start(…)`
/// }
/// ```
pub fn run_if_asked() {
    IS_OWN_GUARDIAN.store(true, Ordering::Relaxed);
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments != [OWN_GUARDIAN_ARGUMENT] {
        return;
    }
    // In a thread of its own: the caller may be inside a runtime, and the report needs one.
    let guarded = std::thread::spawn(|| {
        let mut control = Control::take_over_socket()?;
        match control.receive_first()? {
            Some(FirstFrame::Worker(spec)) => guard_worker(control, spec),
            Some(FirstFrame::Run(_)) => Err(std::io::Error::other("this guardian starts no child")),
            None => Ok(()),
        }
    });
    let ended_well = guarded.join().is_ok_and(|guarded| guarded.is_ok());
    std::process::exit(i32::from(!ended_well));
}

/// Whether [`run_if_asked`] was called.
pub(crate) fn is_own_guardian() -> bool {
    IS_OWN_GUARDIAN.load(Ordering::Relaxed)
}

/// Says who calls the guardian, to somebody who cannot have meant to.
pub fn explain_guardian() -> ExitCode {
    // Where this cannot be written, the exit code says it.
    let _ = writeln!(
        std::io::stderr(),
        "error: the guardian of a run is started by its worker, with a control socket as standard input\n\n\
         It takes no arguments, and there is nothing to call by hand: `tenure worker` starts one beside each child."
    );
    ExitCode::from(EXIT_USAGE)
}

/// One run from the first frame to the acknowledged end.
fn guard_run() -> std::io::Result<()> {
    control::settle_signals()?;
    let (mut control, streams) = Control::take_over_streams()?;
    let spec = match control.receive_first()? {
        Some(FirstFrame::Run(spec)) => spec,
        Some(FirstFrame::Worker(spec)) => return guard_worker(control, spec),
        None => return Ok(()),
    };
    let (end, cause, deadline) = match Watch::start(control, &spec, streams) {
        Ok(mut watch) => {
            watch.open_gate(&spec);
            let (end, cause) = watch.run_until_empty()?;
            let deadline = watch.deadline();
            control = watch.into_control();
            (end, cause, deadline)
        }
        Err((returned, reason)) => {
            control = returned;
            (ChildEnd::NotStarted { reason }, EndCause::Itself, spec.deadline)
        }
    };
    control.send(&FromGuardian::Ended { end: end.clone(), cause: cause.clone() });
    release::await_release(control, &spec, &end, &cause, deadline)
}
