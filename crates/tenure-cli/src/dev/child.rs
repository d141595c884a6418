//! The child processes of `tenure dev`: this very program under another verb. Each is gone when its parent is, however that
//! ends, is in a process group of its own, so that Ctrl-C reaches only the parent, who stops them in order, and writes to a
//! log of its own.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tenure_core::{reason::Reason, refusal::Refusal};
use tokio::process::{Child, ChildStdout, Command};

use crate::{
    coordinator::EXPOSURE_VARIABLES, credential::CredentialArgs, failure::Failure,
    parent_death::bind_to_parent,
};

/// A part of the fleet.
pub(super) struct Part {
    /// For people: `coordinator`, or the name of a worker.
    pub(super) name: String,
    log: PathBuf,
    process: Child,
}

impl Part {
    /// Starts `tenure` with these arguments.
    pub(super) fn start(
        name: &str,
        log: PathBuf,
        configure: impl FnOnce(&mut Command),
    ) -> Result<Self, Failure> {
        let refuse = |error: io::Error| {
            Failure::caused(Refusal::new(Reason::Internal, format!("starting the {name}")), &error)
        };
        let mut command = Command::new(std::env::current_exe().map_err(refuse)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        command.stderr(File::options().create(true).append(true).open(&log).map_err(refuse)?);
        // A part of a fleet of one's own needs no credential, whatever other fleets want.
        for variable in CredentialArgs::VARIABLES.iter().chain(&EXPOSURE_VARIABLES) {
            command.env_remove(variable);
        }
        bind_to_parent(&mut command);
        configure(&mut command);
        let process = command.spawn().map_err(refuse)?;
        Ok(Self { name: name.to_owned(), log, process })
    }

    /// What it prints.
    pub(super) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.process.stdout.take()
    }

    /// Waits for its end.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Asks it to stop; one that is gone has stopped.
    pub(super) fn ask_to_stop(&self) {
        let pid = self.process.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid {
            let _gone = kill_process(pid, Signal::TERM);
        }
    }

    /// The failure that its unasked end is.
    pub(super) fn failure(&self, ended: &io::Result<ExitStatus>) -> Failure {
        let how = match ended {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let message = format!("the {} ended by itself ({how}): {}", self.name, last_line(&self.log));
        Refusal::new(Reason::Internal, message).with_next(format!("less {}", self.log.display())).into()
    }
}

/// The last thing that a log says.
fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("its log is empty").to_owned()
}
