//! From a fork to the agent's program: what a child process is before it is the agent.
//!
//! Promises the agent a session of its own, exactly the environment, directory, user and three descriptors that
//! were decided, default signal dispositions, and death with its parent. It starts nothing before its gate is
//! opened: by then it is in its cgroups and written down in the run directory.
//! Runs in a forked copy of the guardian, which is single-threaded, so that allocating is safe here.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{self, Gid, Uid};

use super::protocol::GuardSpec;
use crate::runner::RunUser;

/// Where programs are looked for when the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What the forked child holds.
#[derive(Debug)]
pub(super) struct ChildStreams {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// One byte: go. Closed: the guardian is gone.
    pub(super) gate: OwnedFd,
    /// Takes the reason where the program cannot be started; closes when it runs.
    pub(super) failure: OwnedFd,
}

impl ChildStreams {
    /// Their numbers, to be kept open across a fork.
    pub(super) fn numbers(&self) -> [RawFd; 4] {
        [&self.stdout, &self.stderr, &self.gate, &self.failure].map(AsRawFd::as_raw_fd)
    }
}

/// Becomes the agent's program. `parent` is what `getppid` must say, or the parent is already gone.
pub(super) fn become_program(spec: &GuardSpec, streams: ChildStreams, parent: i32) -> ! {
    close_all_except(&streams.numbers());
    let ChildStreams { stdout, stderr, gate, failure } = streams;
    let mut go = [0; 1];
    let opened = File::from(gate).read(&mut go);
    if matches!(opened, Ok(1)) {
        let Err(reason) = start_program(spec, [&stdout, &stderr], parent);
        // Where nobody reads it any more, nobody needs it.
        let _ = File::from(failure).write_all(reason.as_bytes());
    }
    std::process::exit(127)
}

fn start_program(spec: &GuardSpec, streams: [&OwnedFd; 2], parent: i32) -> Result<Infallible, String> {
    let [stdout, stderr] = streams;
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: Errno| format!("cannot {what}: {}", error.desc())
    };
    unistd::setsid().map_err(failed("open a session for the child"))?;
    unistd::dup2_stdout(stdout).map_err(failed("set the child's standard output"))?;
    unistd::dup2_stderr(stderr).map_err(failed("set the child's standard error"))?;
    reset_signals().map_err(failed("reset the child's signals"))?;
    if let Some(user) = &spec.user {
        give_output_to(user, [stdout, stderr]).map_err(failed("hand the output to the child's user"))?;
        switch_user(user).map_err(failed(&format!("become user {:?}", user.name)))?;
    }
    // After the change of user, which clears it; and the parent may have died before this line.
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(failed("tie the child to its guardian"))?;
    if unistd::getppid().as_raw() != parent {
        return Err("cannot start the child: its guardian is gone".to_owned());
    }
    set_stdin(spec.stdin.as_deref())?;
    let cwd = spec.cwd.as_path();
    unistd::chdir(cwd).map_err(failed(&format!("enter the directory {}", cwd.display())))?;
    execute(&spec.argv, &spec.env)
}

/// Opened by whom it is for: the directory may be that user's, who may have put a link there to what only the guardian's
/// user can read.
fn set_stdin(path: Option<&Path>) -> Result<(), String> {
    let path = path.unwrap_or(Path::new("/dev/null"));
    let failed = |error: io::Error| format!("cannot open the child's input {}: {error}", path.display());
    let input = File::open(path).map_err(failed)?;
    unistd::dup2_stdin(input).map_err(io::Error::from).map_err(failed)
}

/// So that the user may open `/dev/stdout` and `/dev/stderr`, which lead to these pipes.
fn give_output_to(user: &RunUser, pipes: [&OwnedFd; 2]) -> nix::Result<()> {
    pipes.into_iter().try_for_each(|pipe| unistd::fchown(pipe, Some(Uid::from_raw(user.uid)), None))
}

fn switch_user(user: &RunUser) -> nix::Result<()> {
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    unistd::setgroups(&groups)?;
    unistd::setgid(Gid::from_raw(user.gid))?;
    unistd::setuid(Uid::from_raw(user.uid))
}

/// Dispositions to default and nothing blocked, also where the worker's own parent ignored something. By system call,
/// because the C library refuses to touch the two signals that it keeps for itself.
fn reset_signals() -> nix::Result<()> {
    // The kernel's `struct sigaction`, all zero: SIG_DFL, no flags, no restorer, an empty mask.
    let default = [0_u64; 4];
    for number in 1..=64 {
        // SAFETY: the kernel reads the structure, which is large enough; KILL and STOP are refused, which is fine.
        #[expect(unsafe_code, reason = "no library resets all signals")]
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, number, default.as_ptr(), std::ptr::null::<u64>(), 8_usize);
        }
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

fn execute(argv: &[String], env: &[(String, String)]) -> Result<Infallible, String> {
    let program = argv.first().filter(|program| !program.is_empty()).ok_or("the command is empty")?;
    let to_c = |text: &str| CString::new(text).map_err(|_| format!("{text:?} contains a NUL byte"));
    let arguments = argv.iter().map(|argument| to_c(argument)).collect::<Result<Vec<_>, _>>()?;
    let variables =
        env.iter().map(|(name, value)| to_c(&format!("{name}={value}"))).collect::<Result<Vec<_>, _>>()?;
    if program.contains('/') {
        let Err(error) = unistd::execve(&to_c(program)?, &arguments, &variables);
        return Err(describe_failure(program, error));
    }
    let path = env.iter().find(|(name, _)| name == "PATH").map_or(DEFAULT_PATH, |(_, value)| value.as_str());
    let mut denied = None;
    for directory in path.split(':').filter(|directory| !directory.is_empty()) {
        let candidate = format!("{directory}/{program}");
        let Err(error) = unistd::execve(&to_c(&candidate)?, &arguments, &variables);
        match error {
            Errno::ENOENT | Errno::ENOTDIR if !Path::new(&candidate).exists() => {}
            // A directory that this user may not search, or a file that nobody may execute: the next may do.
            Errno::EACCES => denied = denied.or_else(|| Some(describe_failure(&candidate, error))),
            _ => return Err(describe_failure(&candidate, error)),
        }
    }
    Err(denied.unwrap_or_else(|| format!("cannot start {program:?}: not found (ENOENT) in PATH {path}")))
}

fn describe_failure(program: &str, error: Errno) -> String {
    let hint = match error {
        Errno::ENOENT if Path::new(program).exists() => "; the file exists, so its interpreter does not",
        Errno::ENOEXEC => "; a script needs a first line like #!/bin/sh",
        _ => "",
    };
    format!("cannot start {program:?}: {} ({error:?}){hint}", error.desc())
}

/// Closes every descriptor from 3 on but those. For a forked copy whose owners never run again, and for the
/// start of a process that owns none yet.
pub(super) fn close_all_except(kept: &[RawFd]) {
    let mut kept: Vec<u32> = kept.iter().filter_map(|&number| u32::try_from(number).ok()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for number in kept {
        if number > first {
            close_range(first, number - 1);
        }
        first = first.max(number + 1);
    }
    close_range(first, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: no owner of one of these descriptors runs again in this process.
    #[expect(unsafe_code, reason = "close_range has no safe wrapper in our libraries")]
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result != 0 {
        close_one_by_one(first, last);
    }
}

/// For kernels before 5.9, and for sandboxes that refuse the call.
fn close_one_by_one(first: u32, last: u32) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| (first..=last).contains(number)) {
        let Ok(number) = RawFd::try_from(number) else { continue };
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "descriptors without an owner are closed by number")]
        unsafe {
            libc::close(number);
        }
    }
}
