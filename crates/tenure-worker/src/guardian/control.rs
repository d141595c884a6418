//! The guardian's end of the control socket, and its file descriptors.
//!
//! Owns descriptors 0 to 2 of the guardian: 0 is the socket, 1 and 2 belong to the child and are given away, so
//! that the worker sees them close when the group is empty. Writing never blocks: a frozen worker must not hold
//! up its guardian.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::fs::FileType;

use super::BootInstant;
use super::child::close_all_except;
use super::protocol::{FrameBuffer, FromGuardian, GuardSpec, ToGuardian, WorkerSpec, encode_frame};

/// The child's output, which the guardian only passes on.
#[derive(Debug)]
pub(super) struct OutputStreams {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// What is guarded.
#[derive(Debug)]
pub(super) enum FirstFrame {
    /// A child, which is yet to be started.
    Run(Box<GuardSpec>),
    /// The sender itself.
    Worker(WorkerSpec),
}

/// The socket to the worker.
#[derive(Debug)]
pub(super) struct Control {
    socket: UnixStream,
    frames: FrameBuffer,
    outbox: Vec<u8>,
    closed: bool,
    last_heard: BootInstant,
}

/// What asks a process to end.
const STOP_SIGNALS: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGQUIT];

/// The guardian outlives what stops its worker: it ends by the socket, or at the deadline.
///
/// The signals are also blocked, for the child's sake, which begins as a copy of the guardian: one that is only ignored is
/// lost, one that is blocked waits until the child is ready for it. So a child that is asked to end right after its start
/// does, and not only when its grace is over.
pub(super) fn settle_signals() -> io::Result<()> {
    for number in STOP_SIGNALS.into_iter().chain([Signal::SIGPIPE]) {
        // SAFETY: ignoring a signal installs no handler.
        #[expect(unsafe_code, reason = "nix marks every change of a disposition as unsafe")]
        unsafe {
            signal(number, SigHandler::SigIgn)?;
        }
    }
    // Inherited as ignored from whoever started the worker, it would have the kernel reap children unseen.
    // SAFETY: the default disposition installs no handler.
    #[expect(unsafe_code, reason = "nix marks every change of a disposition as unsafe")]
    unsafe {
        signal(Signal::SIGCHLD, SigHandler::SigDfl)?;
    }
    SigSet::from_iter(STOP_SIGNALS).thread_block()?;
    Ok(())
}

/// Whether descriptor 0 can be a worker's end.
pub(super) fn is_socket_given() -> bool {
    rustix::fs::fstat(io::stdin()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_socket())
}

impl Control {
    /// Moves the three descriptors out of the way and puts /dev/null in their place.
    pub(super) fn take_over_streams() -> io::Result<(Self, OutputStreams)> {
        close_all_except(&[]);
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let stdout = io::stdout().as_fd().try_clone_to_owned()?;
        let stderr = io::stderr().as_fd().try_clone_to_owned()?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        let control = Self {
            socket,
            frames: FrameBuffer::default(),
            outbox: Vec::new(),
            closed: false,
            last_heard: BootInstant::now(),
        };
        Ok((control, OutputStreams { stdout, stderr }))
    }

    /// The socket alone, in a process whose other descriptors are left as they are: it starts none.
    pub(super) fn take_over_socket() -> io::Result<Self> {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let null = File::options().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&null)?;
        Ok(Self {
            socket,
            frames: FrameBuffer::default(),
            outbox: Vec::new(),
            closed: false,
            last_heard: BootInstant::now(),
        })
    }

    /// Waits for the first frame. `None`: the worker was gone before it came, and nothing runs.
    pub(super) fn receive_first(&mut self) -> io::Result<Option<FirstFrame>> {
        self.socket.set_nonblocking(false)?;
        let mut bytes = [0; 64 * 1024];
        loop {
            match self.frames.next_frame::<ToGuardian>().map_err(io::Error::other)? {
                Some(ToGuardian::Spec(spec)) => {
                    break self.socket.set_nonblocking(true).map(|()| Some(FirstFrame::Run(spec)));
                }
                Some(ToGuardian::Worker(spec)) => {
                    break self.socket.set_nonblocking(true).map(|()| Some(FirstFrame::Worker(spec)));
                }
                Some(_) => return Err(io::Error::other("the first control frame must say what is guarded")),
                None => {}
            }
            match self.socket.read(&mut bytes) {
                Ok(0) => break Ok(None),
                Ok(length) => self.frames.push(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        }
    }

    /// What arrived since the last call.
    pub(super) fn receive(&mut self) -> Vec<ToGuardian> {
        let mut bytes = [0; 16 * 1024];
        while !self.closed {
            match self.socket.read(&mut bytes) {
                Ok(0) => self.closed = true,
                Ok(length) => self.frames.push(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.closed = true,
            }
        }
        let mut messages = Vec::new();
        loop {
            match self.frames.next_frame() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                // A worker that talks nonsense is no worker.
                Err(_) => {
                    self.closed = true;
                    break;
                }
            }
        }
        if !messages.is_empty() {
            self.last_heard = BootInstant::now();
        }
        messages
    }

    /// Sends as much as fits, and keeps the rest for [`Self::flush`].
    pub(super) fn send(&mut self, message: &FromGuardian) {
        if let Ok(frame) = encode_frame(message) {
            self.outbox.extend_from_slice(&frame);
        }
        self.flush();
    }

    /// Sends what was kept.
    pub(super) fn flush(&mut self) {
        while !self.outbox.is_empty() {
            match self.socket.write(&self.outbox) {
                Ok(length) => drop(self.outbox.drain(..length)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Full: the worker is frozen. Closed: reading will say so.
                Err(_) => break,
            }
        }
    }

    /// Whether the worker's end is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether something waits to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        !self.outbox.is_empty() && !self.closed
    }

    /// Another descriptor of the socket, to wait on.
    pub(super) fn clone_socket(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// How long nothing was heard of the worker.
    pub(super) fn silence(&self) -> Duration {
        BootInstant::now().since(self.last_heard)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
