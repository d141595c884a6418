//! Children that do not outlive this program, however it ends: the kernel ends them. It binds the child that is started and not
//! what that starts; and the signal follows the thread that starts it, so that has to live as long as this program.
//! Neighbours: `dev` binds its servers so, `effect` the command that nobody else speaks for.

use std::io;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::process::Command;

/// Has the kernel kill the child when this program ends.
#[expect(unsafe_code, reason = "pre_exec is the only way to run prctl in the child")]
pub(crate) fn bind_to_parent(command: &mut Command) {
    let parent = getpid();
    // SAFETY: between fork and exec only prctl and getppid run, which are async-signal-safe, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // A parent that ended before the line above is no longer the parent, and no signal will ever come.
            if getppid() == Some(parent) {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()))
            }
        });
    }
}
