//! A run's group as a PID namespace: `kernel` fencing.
//!
//! Owns the clone of PID 1 ([`super::init`]) and what the guardian knows of it. Promises that the group is empty
//! when init was reaped: the kernel lets PID 1 of a namespace end only after every other process in it is gone.
//! As root a PID namespace is enough; without that right a user namespace is made around it.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::libc::SIGCHLD;
use nix::poll::{PollTimeout, poll};
use nix::sched::{CloneFlags, clone};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getegid, geteuid};

use super::child::ChildStreams;
use super::descendants::find_children;
use super::group::Collected;
use super::init::{InitReport, ORDER_BEGIN, ORDER_TERMINATE, run_init};
use super::protocol::{ChildEnd, GuardSpec};
use super::reaping::{Reaped, reap_child};

/// PID 1 does little, but its child composes arguments and environment on the heap, not here.
const INIT_STACK_BYTES: usize = 512 * 1024;

/// The group.
#[derive(Debug)]
pub(super) struct Namespace {
    init: Pid,
    socket: UnixStream,
    unread: Vec<u8>,
    /// False once init's end closed: it would be readable for ever.
    open: bool,
    main_end: Option<ChildEnd>,
    reaped: bool,
}

impl Namespace {
    /// Clones PID 1, which waits for [`Self::fork_child`].
    pub(super) fn create(spec: &GuardSpec, streams: ChildStreams) -> Result<Self, String> {
        let (socket, theirs) = UnixStream::pair()
            .map_err(|error| format!("cannot make a socket to the namespace's init: {error}"))?;
        let mut given = Some((theirs, streams));
        let mut stack = vec![0; INIT_STACK_BYTES];
        let mut last_error = io::Error::from(ErrorKind::Unsupported);
        for flags in candidate_flags() {
            let run =
                Box::new(|| given.take().map_or(1, |(theirs, streams)| run_init(spec, theirs, streams)));
            // SAFETY: the guardian has one thread, so its copy may allocate; init's calls are shallow and its
            // stack is ample; the stack outlives the call, after which the copy has its own memory.
            #[expect(unsafe_code, reason = "a process in a new PID namespace is made by clone")]
            let cloned = unsafe { clone(run, &mut stack, flags, Some(SIGCHLD)) };
            match cloned.map_err(io::Error::from).and_then(|init| map_user(init, flags).map(|()| init)) {
                Ok(init) => {
                    return Ok(Self {
                        init,
                        socket,
                        unread: Vec::new(),
                        open: true,
                        main_end: None,
                        reaped: false,
                    });
                }
                Err(error) => last_error = error,
            }
        }
        Err(format!("cannot make a PID namespace: {last_error}"))
    }

    /// PID 1, as the guardian sees it.
    pub(super) fn init(&self) -> Pid {
        self.init
    }

    /// Lets init fork the child, and finds it. Blocks for the moment that takes.
    pub(super) fn fork_child(&mut self) -> Result<Pid, String> {
        let failed = |error: io::Error| format!("the namespace's init did not answer: {error}");
        self.socket.write_all(&[ORDER_BEGIN]).map_err(failed)?;
        let mut report = [0; InitReport::LENGTH_BYTES];
        self.socket.read_exact(&mut report).map_err(failed)?;
        self.socket.set_nonblocking(true).map_err(failed)?;
        match InitReport::decode(report) {
            Some(InitReport::Forked) => {}
            Some(InitReport::MainEnded(ChildEnd::NotStarted { reason })) => return Err(reason),
            other => return Err(format!("the namespace's init answered {other:?} before it forked")),
        }
        // It waits at its gate, so it is there, and it is the only one.
        let children = find_children(self.init.as_raw());
        let child = children.first().ok_or("the child cannot be found in /proc")?;
        Ok(Pid::from_raw(child.pid))
    }

    /// Ends a namespace in which nothing was started.
    pub(super) fn end(&mut self) {
        end_process(self.init);
        self.reaped = true;
    }

    /// SIGTERM to everything in the namespace.
    pub(super) fn terminate(&mut self) {
        // One byte in an empty socket; where init is gone, it is said by `collect`.
        let _ = self.socket.write_all(&[ORDER_TERMINATE]);
    }

    /// SIGKILL to PID 1, by which the kernel ends the rest.
    pub(super) fn kill(&self) {
        if !self.reaped {
            let _ = kill(self.init, Signal::SIGKILL);
        }
    }

    /// What becomes readable when init says something.
    pub(super) fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.open.then(|| self.socket.as_fd())
    }

    /// What happened since the last call.
    pub(super) fn collect(&mut self) -> Collected {
        if !self.reaped {
            self.reaped = reap_child(self.init.as_raw()) != Reaped::None;
        }
        // After the reaping: then everything that init said is in the socket.
        self.read_reports();
        Collected { main_end: self.main_end.clone(), empty: self.reaped }
    }

    fn read_reports(&mut self) {
        let mut bytes = [0; 64];
        while self.open {
            match self.socket.read(&mut bytes) {
                Ok(0) => self.open = false,
                Ok(length) => self.unread.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.open = false,
            }
        }
        while let Some(report) = self.unread.first_chunk().copied() {
            self.unread.drain(..InitReport::LENGTH_BYTES);
            if let Some(InitReport::MainEnded(end)) = InitReport::decode(report) {
                self.main_end = Some(end);
            }
        }
    }
}

/// Best first: without a mount namespace the child keeps the old /proc.
fn candidate_flags() -> [CloneFlags; 3] {
    let plain = CloneFlags::CLONE_NEWPID;
    let mounts = plain | CloneFlags::CLONE_NEWNS;
    if geteuid().is_root() {
        [mounts, plain, mounts | CloneFlags::CLONE_NEWUSER]
    } else {
        [mounts | CloneFlags::CLONE_NEWUSER, plain | CloneFlags::CLONE_NEWUSER, mounts]
    }
}

/// Maps users and groups into the user namespace of `init`, where it has one: for root all, so that a child may
/// still be another user; otherwise, and where that is refused, the worker's own and nobody else. One that cannot be
/// mapped is ended.
fn map_user(init: Pid, flags: CloneFlags) -> io::Result<()> {
    if !flags.contains(CloneFlags::CLONE_NEWUSER) {
        return Ok(());
    }
    let write = |file: &str, text: String| fs::write(format!("/proc/{init}/{file}"), text);
    let everybody = || format!("0 0 {}", u32::MAX);
    if geteuid().is_root()
        && write("uid_map", everybody()).and_then(|()| write("gid_map", everybody())).is_ok()
    {
        return Ok(());
    }
    let (user, group) = (geteuid(), getegid());
    let mapped = write("setgroups", "deny".to_owned())
        .and_then(|()| write("uid_map", format!("{user} {user} 1")))
        .and_then(|()| write("gid_map", format!("{group} {group} 1")));
    if mapped.is_err() {
        end_process(init);
    }
    mapped
}

/// SIGKILL to a child of this process, and its reaping.
pub(super) fn end_process(process: Pid) {
    let _ = kill(process, Signal::SIGKILL);
    while waitpid(process, None) == Err(Errno::EINTR) {}
}

/// Whether a PID namespace can be made here, tried with a process that does nothing.
pub(super) fn try_namespace() -> bool {
    candidate_flags().into_iter().any(|flags| {
        let mut stack = vec![0; 64 * 1024];
        // It waits to be ended, and ends by itself where its maker does not live so long.
        let wait = Box::new(|| poll(&mut [], PollTimeout::from(5_000_u16)).map_or(1, |_| 0));
        // SAFETY: the copy makes one system call and allocates nothing, so it is safe beside other threads.
        #[expect(unsafe_code, reason = "a process in a new PID namespace is made by clone")]
        let cloned = unsafe { clone(wait, &mut stack, flags, Some(SIGCHLD)) };
        let Ok(process) = cloned else {
            return false;
        };
        if map_user(process, flags).is_err() {
            return false;
        }
        end_process(process);
        true
    })
}
