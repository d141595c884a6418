//! Starts processes that must not outlive this one.
//!
//! Owns one thread that lives as long as the process. Linux sends the parent-death signal when the
//! *thread* that forked the child ends, not the process; a thread of a pool may end at any time, so
//! all children are forked here. Promises that a child started here gets SIGINT (for PostgreSQL: roll
//! back, write a checkpoint, stop) when this process ends, even by SIGKILL. Elsewhere than on Linux
//! the child is only stopped by those who remember to. Neighbours: `process`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{OnceLock, mpsc};
use std::thread;

type Request = (Command, mpsc::Sender<io::Result<Child>>);

/// Spawns `command` so that it is told to stop when this process ends.
pub(crate) fn spawn_bound(mut command: Command) -> io::Result<Child> {
    bind_to_parent(&mut command);
    let (answer, answered) = mpsc::channel();
    let gone = |_| io::Error::other("the thread that starts processes is gone");
    requests()?.send((command, answer)).map_err(|error| gone(error.to_string()))?;
    answered.recv().map_err(|error| gone(error.to_string()))?
}

fn requests() -> io::Result<&'static mpsc::Sender<Request>> {
    static REQUESTS: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    if REQUESTS.get().is_none() {
        let (sender, receiver) = mpsc::channel::<Request>();
        thread::Builder::new().name("postgres-spawner".to_owned()).spawn(move || serve(&receiver))?;
        // A second caller that was faster wins; the loser's thread ends with its sender, idle.
        let _ = REQUESTS.set(sender);
    }
    REQUESTS.get().ok_or_else(|| io::Error::other("no thread starts processes"))
}

fn serve(requests: &mpsc::Receiver<Request>) {
    for (mut command, answer) in requests {
        // Whoever asked may have stopped waiting only by panicking; the child then ends with us.
        let _ = answer.send(command.spawn());
    }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "pre_exec is the only way to run prctl in the child")]
fn bind_to_parent(command: &mut Command) {
    use nix::sys::{prctl, signal::Signal};
    let parent = nix::unistd::getpid();
    // SAFETY: between fork and exec only prctl and getppid run, which are async-signal-safe, and
    // nothing is allocated: the error is built from a raw code.
    unsafe {
        command.pre_exec(move || {
            prctl::set_pdeathsig(Signal::SIGINT)?;
            // The parent may have ended before the line above; then no signal will ever come.
            if nix::unistd::getppid() == parent {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(nix::errno::Errno::ESRCH as i32))
            }
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn bind_to_parent(_command: &mut Command) {}
