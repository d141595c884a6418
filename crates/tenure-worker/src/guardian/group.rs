//! The group of one run, whichever way it is fenced.
//!
//! Owns the order of a start: cgroups, fork, identity in the run directory, and only then the gate that lets the
//! child become its program; so a host that comes back finds written down whatever may still run. Whether the gate is
//! opened is not decided here but in [`super::watch`], which knows the deadline and hears the worker.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use super::Fencing;
use super::child::ChildStreams;
use super::control::OutputStreams;
use super::identity::{ProcessMark, RunIdentity, mark_process, write_identity};
use super::namespace::Namespace;
use super::process_group::ProcessGroup;
use super::protocol::{ChildEnd, GuardSpec};
use crate::runner::RunCgroup;

/// What is known of a group.
#[derive(Debug, Clone)]
pub(super) struct Collected {
    /// How the child ended, once it did.
    pub(super) main_end: Option<ChildEnd>,
    /// Nobody of the group is left.
    pub(super) empty: bool,
}

#[derive(Debug)]
enum Kind {
    Namespace(Namespace),
    Processes(ProcessGroup),
}

/// A started group.
#[derive(Debug)]
pub(super) struct Group {
    kind: Kind,
    cgroup: RunCgroup,
    identity: RunIdentity,
    /// Until the gate was opened or refused.
    opener: Option<File>,
    failure: Option<File>,
    reason: String,
}

/// What became of the start.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartNews {
    /// Not decided yet, or told before.
    None,
    /// The program runs.
    Started,
    /// It does not.
    Failed(String),
}

impl Group {
    /// Starts the child, which waits at its gate.
    pub(super) fn start(spec: &GuardSpec, output: OutputStreams) -> Result<Self, String> {
        let (gate, opener) = make_pipe()?;
        let (failure, failed) = make_pipe()?;
        let streams = ChildStreams { stdout: output.stdout, stderr: output.stderr, gate, failure: failed };
        let cgroup = RunCgroup::create(&spec.run_name, &spec.limits)
            .map_err(|error| format!("cannot limit the child: {error}"))?;
        let started = match spec.fencing {
            Fencing::Kernel => start_namespace(spec, streams, &cgroup),
            Fencing::Guardian => start_processes(spec, streams, &cgroup),
        };
        let (kind, main, init) = match started {
            Ok(started) => started,
            Err(reason) => {
                cgroup.remove();
                return Err(reason);
            }
        };
        let identity = RunIdentity::of_run(main, init);
        // The run's secret is in this memory, and the child, which has not run yet, may have the same user.
        let _ = nix::sys::prctl::set_dumpable(false);
        Ok(Self {
            kind,
            cgroup,
            identity,
            opener: Some(File::from(opener)),
            failure: Some(File::from(failure)),
            reason: String::new(),
        })
    }

    /// Writes down who is going to run. It may take long: the disk decides.
    pub(super) fn write_down(&mut self, spec: &GuardSpec) -> Result<(), String> {
        write_identity(&spec.run_directory, &self.identity)
            .map_err(|error| {
                format!("cannot write the run's identity into {:?}: {error}", spec.run_directory)
            })
            .and_then(|()| self.watch_failure())
    }

    /// Lets the child become its program.
    pub(super) fn open_gate(&mut self) -> Result<(), String> {
        match self.opener.take() {
            Some(mut opener) => {
                opener.write_all(b"g").map_err(|error| format!("cannot open the child's gate: {error}"))
            }
            None => Ok(()),
        }
    }

    /// The child never becomes its program: it sees its gate close, and nothing that it says counts as a start.
    pub(super) fn refuse_gate(&mut self) {
        self.opener = None;
        self.failure = None;
    }

    fn watch_failure(&mut self) -> Result<(), String> {
        let Some(failure) = &self.failure else { return Ok(()) };
        nix::fcntl::fcntl(failure, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map(|_| ())
            .map_err(|error| format!("cannot watch the child's start: {}", error.desc()))
    }

    /// The child.
    pub(super) fn main(&self) -> ProcessMark {
        self.identity.child
    }

    /// PID 1 of its namespace.
    pub(super) fn init(&self) -> Option<ProcessMark> {
        self.identity.init
    }

    /// SIGTERM to the group.
    pub(super) fn terminate(&mut self) {
        match &mut self.kind {
            Kind::Namespace(namespace) => namespace.terminate(),
            Kind::Processes(processes) => processes.terminate(),
        }
    }

    /// SIGKILL to the group. To be repeated until it is empty.
    pub(super) fn kill(&self) {
        self.cgroup.kill_all();
        match &self.kind {
            Kind::Namespace(namespace) => namespace.kill(),
            Kind::Processes(processes) => processes.kill(),
        }
    }

    /// What happened since the last call.
    pub(super) fn collect(&mut self) -> Collected {
        match &mut self.kind {
            Kind::Namespace(namespace) => namespace.collect(),
            Kind::Processes(processes) => processes.collect(),
        }
    }

    /// Whether the program was started, told once.
    pub(super) fn start_news(&mut self) -> StartNews {
        let Some(failure) = &mut self.failure else {
            return StartNews::None;
        };
        let mut bytes = [0; 4096];
        loop {
            match failure.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => self.reason.push_str(&String::from_utf8_lossy(&bytes[..length])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return StartNews::None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.failure = None;
        if self.reason.is_empty() {
            StartNews::Started
        } else {
            StartNews::Failed(std::mem::take(&mut self.reason))
        }
    }

    /// What becomes readable when there is news, beside SIGCHLD.
    pub(super) fn readable(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let init = match &self.kind {
            Kind::Namespace(namespace) => namespace.readable(),
            Kind::Processes(_) => None,
        };
        self.failure.as_ref().map(AsFd::as_fd).into_iter().chain(init)
    }

    /// After the group is empty: its cgroups.
    pub(super) fn dismantle(&self) {
        self.cgroup.remove();
    }
}

type StartedKind = (Kind, ProcessMark, Option<ProcessMark>);

fn start_namespace(
    spec: &GuardSpec,
    streams: ChildStreams,
    cgroup: &RunCgroup,
) -> Result<StartedKind, String> {
    let mut namespace = Namespace::create(spec, streams)?;
    let init = mark_process(namespace.init().as_raw());
    let started = cgroup
        .add_process(init.pid)
        .map_err(|error| format!("cannot limit the child: {error}"))
        .and_then(|()| namespace.fork_child());
    match started {
        Ok(main) => Ok((Kind::Namespace(namespace), mark_process(main.as_raw()), Some(init))),
        Err(reason) => {
            namespace.end();
            Err(reason)
        }
    }
}

fn start_processes(
    spec: &GuardSpec,
    streams: ChildStreams,
    cgroup: &RunCgroup,
) -> Result<StartedKind, String> {
    let processes = ProcessGroup::create(spec, streams)?;
    let main = mark_process(processes.main().as_raw());
    match cgroup.add_process(main.pid) {
        Ok(()) => Ok((Kind::Processes(processes), main, None)),
        Err(error) => {
            processes.end();
            Err(format!("cannot limit the child: {error}"))
        }
    }
}

fn make_pipe() -> Result<(OwnedFd, OwnedFd), String> {
    pipe2(OFlag::O_CLOEXEC).map_err(|error| format!("cannot make a pipe: {}", error.desc()))
}
