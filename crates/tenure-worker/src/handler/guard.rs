//! The worker's end of its guardian: a process beside a worker with handlers that ends it where a handler has not stopped by
//! its run's local deadline, and reports what it held once it is gone. Each ends with the other: where the guardian is gone or
//! does not answer, nobody could end this process any more, and it ends itself.
//! Neighbours: `guardian::worker_watch` is the other end, `executor` says what is held.

use std::{
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    os::unix::net::UnixStream as StdSocket,
    path::PathBuf,
    process::Stdio,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tenure_core::limits::{GUARDIAN_MISSED_PINGS_MAX, GUARDIAN_PING_INTERVAL, GUARDIAN_SPEC_TIMEOUT};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    process::{Child, Command},
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval, timeout},
};
use tracing::error;

use crate::{
    guardian::{
        BootInstant, OWN_GUARDIAN_ARGUMENT, is_own_guardian,
        protocol::{
            FrameBuffer, FromGuardian, HeldName, HeldRun, HeldWord, ToGuardian, WorkerSpec, encode_frame,
        },
    },
    options::WorkerOptions,
    runner::GuardCommand,
};

/// A guardian that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The kernel lets nobody inside a PID namespace end its first process.
    #[error(
        "this process is PID 1 of its PID namespace, and its guardian could not end it: start it under an init (`docker run \
         --init`, `shareProcessNamespace: true` of a Kubernetes pod)"
    )]
    FirstProcess,
    /// There is no program for it.
    #[error(
        "a worker with handlers needs a guardian: call `tenure_worker::guardian::run_if_asked()` first in `main`, or name a \
         `tenure` program in its options"
    )]
    NoProgram,
    /// The program could not be started.
    #[error("the guardian {program:?} cannot be started")]
    NotStarted {
        /// Which.
        program: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The program was started and did not become a guardian.
    #[error("the program {program:?} did not become a guardian")]
    NotWatching {
        /// Which.
        program: PathBuf,
        /// What was seen of it.
        #[source]
        source: io::Error,
    },
}

/// A word to the guardian, and who waits for it to be written.
#[derive(Debug)]
struct Word {
    message: ToGuardian,
    written: Option<oneshot::Sender<()>>,
}

/// The guardian of this worker.
#[derive(Debug)]
pub(crate) struct HandlerGuard {
    words: mpsc::UnboundedSender<Word>,
}

impl HandlerGuard {
    /// Starts one, and waits until it watches. Blocks for a moment. Call it inside a runtime.
    pub(crate) fn start(options: &WorkerOptions) -> Result<Self, GuardError> {
        ensure_endable(Pid::this())?;
        let command = choose_program(options)?;
        let program = command.program.clone();
        let started = spawn_guardian(&command);
        let (guardian, socket) =
            started.map_err(|source| GuardError::NotStarted { program: program.clone(), source })?;
        let (socket, frames) =
            await_watching(socket).map_err(|source| GuardError::NotWatching { program, source })?;
        let (words, said) = mpsc::unbounded_channel();
        tokio::spawn(Link { guardian, socket, frames, unanswered: 0 }.keep(said));
        Ok(Self { words })
    }

    /// Says that a run's handler is about to be called. False: there is no guardian any more, and this process is about to end.
    pub(crate) async fn begin(&self, run: HeldRun) -> bool {
        let (written, waiting) = oneshot::channel();
        let message = ToGuardian::Held(HeldWord::Begin(Box::new(run)));
        let said = self.words.send(Word { message, written: Some(written) });
        said.is_ok() && waiting.await.is_ok()
    }

    /// Says that a run's local deadline moved.
    pub(crate) fn move_deadline(&self, run: &HeldName, at: BootInstant) {
        self.say(HeldWord::Deadline { run: run.clone(), at });
    }

    /// Says that a run's handler has stopped.
    pub(crate) fn note_stopped(&self, run: &HeldName) {
        self.say(HeldWord::Stopped { run: run.clone() });
    }

    /// Says that there is nothing left to report about a run.
    pub(crate) fn release(&self, run: &HeldName) {
        self.say(HeldWord::Released { run: run.clone() });
    }

    fn say(&self, word: HeldWord) {
        // An error says that the guardian is gone, and this process with it.
        let _ = self.words.send(Word { message: ToGuardian::Held(word), written: None });
    }
}

/// Neither its guardian nor the process itself could end it where it is the first of its namespace.
fn ensure_endable(pid: Pid) -> Result<(), GuardError> {
    if pid.as_raw() == 1 { Err(GuardError::FirstProcess) } else { Ok(()) }
}

/// This very program where it becomes its own guardian, otherwise the one that was named, otherwise a `tenure` on the PATH.
fn choose_program(options: &WorkerOptions) -> Result<GuardCommand, GuardError> {
    if is_own_guardian() {
        return Ok(GuardCommand { arguments: vec![OWN_GUARDIAN_ARGUMENT.into()], ..GuardCommand::default() });
    }
    let own = std::env::current_exe().ok();
    let named = Some(options.program.clone()).filter(|program| own.as_ref() != Some(program));
    let program = named.or_else(find_tenure).ok_or(GuardError::NoProgram)?;
    Ok(GuardCommand { program, arguments: vec!["guard".into()] })
}

fn find_tenure() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join("tenure")).find(|program| program.is_file())
}

fn spawn_guardian(command: &GuardCommand) -> io::Result<(Child, StdSocket)> {
    let (ours, theirs) = StdSocket::pair()?;
    let guardian = Command::new(&command.program)
        .args(&command.arguments)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What stops the worker from a terminal does not stop its guardian before it.
        .process_group(0)
        .spawn()?;
    Ok((guardian, ours))
}

/// Says whom to guard, and waits for the answer.
fn await_watching(mut socket: StdSocket) -> io::Result<(UnixStream, FrameBuffer)> {
    let spec = WorkerSpec { pid: Pid::this().as_raw() };
    socket.write_all(&encode_frame(&ToGuardian::Worker(spec)).map_err(io::Error::other)?)?;
    socket.set_read_timeout(Some(GUARDIAN_SPEC_TIMEOUT))?;
    let mut frames = FrameBuffer::default();
    let mut bytes = [0; 1024];
    loop {
        if let Some(FromGuardian::Watching) = frames.next_frame().map_err(io::Error::other)? {
            socket.set_nonblocking(true)?;
            return Ok((UnixStream::from_std(socket)?, frames));
        }
        match socket.read(&mut bytes)? {
            0 => return Err(io::Error::other("it ended before it answered")),
            length => frames.push(&bytes[..length]),
        }
    }
}

/// The connection, in a task of its own.
#[derive(Debug)]
struct Link {
    guardian: Child,
    socket: UnixStream,
    frames: FrameBuffer,
    /// Questions that have no answer yet.
    unanswered: u32,
}

impl Link {
    /// Speaks until nobody has anything to say any more; then closing the socket lets the guardian go.
    async fn keep(mut self, mut said: mpsc::UnboundedReceiver<Word>) {
        let mut beat = interval(GUARDIAN_PING_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut bytes = [0; 1024];
        loop {
            let held = tokio::select! {
                word = said.recv() => match word {
                    Some(word) => self.say(word).await,
                    None => return,
                },
                read = self.socket.read(&mut bytes) => match read {
                    Ok(length) if length > 0 => self.hear(&bytes[..length]),
                    Ok(_) | Err(_) => false,
                },
                _ = beat.tick() => self.ask().await,
                _ = self.guardian.wait() => false,
            };
            if !held {
                error!(
                    "the guardian of this worker is gone or does not answer: the process ends, because nobody could end it"
                );
                // An error leaves nothing else to try.
                let _ = kill(Pid::this(), Signal::SIGKILL);
            }
        }
    }

    async fn say(&mut self, word: Word) -> bool {
        let Ok(frame) = encode_frame(&word.message) else { return false };
        let is_written = write_bounded(&mut self.socket, &frame).await;
        if let Some(written) = word.written.filter(|_| is_written) {
            // Whoever waited may have been dropped.
            let _ = written.send(());
        }
        is_written
    }

    fn hear(&mut self, bytes: &[u8]) -> bool {
        self.frames.push(bytes);
        loop {
            match self.frames.next_frame::<FromGuardian>() {
                Ok(Some(_)) => self.unanswered = 0,
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    async fn ask(&mut self) -> bool {
        self.unanswered += 1;
        let message = ToGuardian::Ping { number: u64::from(self.unanswered) };
        self.unanswered <= GUARDIAN_MISSED_PINGS_MAX && self.say(Word { message, written: None }).await
    }
}

/// A guardian that does not read is as good as gone: whoever waits for a run to be guarded would wait for ever.
async fn write_bounded(socket: &mut UnixStream, frame: &[u8]) -> bool {
    let within = GUARDIAN_PING_INTERVAL * GUARDIAN_MISSED_PINGS_MAX;
    matches!(timeout(within, socket.write_all(frame)).await, Ok(Ok(())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_guardian_that_reads_nothing_is_not_waited_for() {
        let (mut ours, _theirs) = UnixStream::pair().unwrap();
        assert!(write_bounded(&mut ours, b"a word").await);
        let frame = vec![0; 16 * 1024 * 1024];
        assert!(!write_bounded(&mut ours, &frame).await, "nobody reads so much");
    }

    #[test]
    fn the_first_process_of_a_namespace_cannot_be_ended_by_a_guardian() {
        let refused = ensure_endable(Pid::from_raw(1)).unwrap_err();
        assert!(refused.to_string().contains("docker run --init"), "{refused}");
        assert!(ensure_endable(Pid::this()).is_ok());
    }
}
