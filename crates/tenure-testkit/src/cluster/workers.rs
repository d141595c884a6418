//! The workers of a cluster, with their guardians and the children beside them.
//!
//! Neighbours: `cluster`; `host` for workers on a host of their own; `processes` finds what belongs to a worker.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Cluster, pid_of, stop};
use crate::{
    host::Host,
    processes::{descendants_of, guardians_of, stop_tree},
};

/// How a worker is started.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    /// Where it looks for coordinators; none: at all that there are.
    endpoints: Option<String>,
    /// The network namespace in which it is started.
    namespace: Option<String>,
    /// A program of somebody's own; none: `tenure worker`.
    program: Option<PathBuf>,
    arguments: Vec<String>,
}

impl Cluster {
    /// Starts a worker that knows every coordinator; `arguments` are added to its command line, for example
    /// `["--slots", "2", "--ttl", "5s"]`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_worker(&mut self, name: &str, arguments: &[&str]) -> Result<()> {
        self.launch_worker(name, Launch::new(None, None, arguments))
    }

    /// Starts a worker that knows these endpoints alone, for example those of proxies.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_worker_at(&mut self, name: &str, endpoints: &str, arguments: &[&str]) -> Result<()> {
        self.launch_worker(name, Launch::new(Some(endpoints), None, arguments))
    }

    /// Starts a worker on a host of its own. The endpoints must be reachable from there: those of proxies that listen on
    /// [`Host::outside`].
    ///
    /// # Errors
    /// It does not start.
    pub fn start_worker_on(
        &mut self,
        host: &Host,
        name: &str,
        endpoints: &str,
        arguments: &[&str],
    ) -> Result<()> {
        self.launch_worker(name, Launch::new(Some(endpoints), Some(host), arguments))
    }

    /// Starts a worker with handlers: a program of one's own, which is called `PROGRAM NAME ENDPOINTS DATA_DIR ARGUMENTS…` and
    /// knows every coordinator.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_own_worker(&mut self, name: &str, program: &Path, arguments: &[&str]) -> Result<()> {
        let launch = Launch { program: Some(program.to_owned()), ..Launch::new(None, None, arguments) };
        self.launch_worker(name, launch)
    }

    /// Starts a worker again that was killed or stopped, as it was started before, with the same data directory.
    ///
    /// # Errors
    /// No worker had this name, or it does not start.
    pub fn restart_worker(&mut self, name: &str) -> Result<()> {
        let launch = self.launches.get(name).with_context(|| no_worker(name))?.clone();
        self.launch_worker(name, launch)
    }

    fn launch_worker(&mut self, name: &str, launch: Launch) -> Result<()> {
        let mut command = self.compose_worker(name, &launch);
        command.args(&launch.arguments).envs(&self.environment);
        if let Some(credential) = &self.credential {
            credential.give_worker(&mut command);
        }
        let worker = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.open_log(name)?)
            .spawn()
            .with_context(|| format!("starting worker {name}"))?;
        self.workers.insert(name.to_owned(), worker);
        self.launches.insert(name.to_owned(), launch);
        Ok(())
    }

    fn compose_worker(&self, name: &str, launch: &Launch) -> Command {
        let endpoints = launch.endpoints.clone().unwrap_or_else(|| self.endpoints());
        let data_dir = self.directory().join(name);
        if let Some(program) = &launch.program {
            let mut command = Command::new(program);
            command.args([name, &endpoints]).arg(data_dir);
            return command;
        }
        let mut command = match &launch.namespace {
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command
            .args(["worker", "--name", name, "--data-dir"])
            .arg(data_dir)
            .env("TENURE_ENDPOINT", endpoints);
        command
    }

    /// The names of the workers that were not killed or stopped.
    #[must_use]
    pub fn worker_names(&self) -> Vec<String> {
        self.workers.keys().cloned().collect()
    }

    /// The process id of a worker.
    ///
    /// # Errors
    /// No worker has this name.
    pub fn worker_pid(&self, name: &str) -> Result<Pid> {
        pid_of(self.workers.get(name).with_context(|| no_worker(name))?)
    }

    /// The process ids of the guardians beside a worker's children.
    ///
    /// # Errors
    /// No worker has this name, or `/proc` cannot be read.
    pub fn guardian_pids(&self, name: &str) -> Result<Vec<Pid>> {
        guardians_of(self.worker_pid(name)?)
    }

    /// Sends SIGKILL to a worker and to whoever is named beside it, one right after the other, and reaps the worker. A
    /// guardian whose run ended since it was named is gone already.
    ///
    /// # Errors
    /// No worker has this name, or a process may not be killed.
    pub fn kill_worker(&mut self, name: &str, beside: &[Pid]) -> Result<()> {
        let worker = self.worker_pid(name)?;
        for pid in beside.iter().copied().chain([worker]) {
            match kill(pid, Signal::SIGKILL) {
                Err(Errno::ESRCH) if pid != worker => {}
                killed => killed.with_context(|| format!("killing process {pid}"))?,
            }
        }
        if let Some(mut process) = self.workers.remove(name) {
            process.wait().context("waiting for a killed worker")?;
        }
        Ok(())
    }

    /// Asks a worker to drain, and waits until it has and ended.
    ///
    /// # Errors
    /// No worker has this name, or it does not end in a minute.
    pub async fn stop_worker(&mut self, name: &str) -> Result<()> {
        let mut process = self.workers.remove(name).with_context(|| no_worker(name))?;
        let stopped = stop(&mut process, name).await;
        if stopped.is_err() {
            end_tree(&mut process);
        }
        stopped
    }

    /// Sends SIGSTOP to a worker. Its guardians go on.
    ///
    /// # Errors
    /// No worker has this name, or it is gone.
    pub fn freeze_worker(&self, name: &str) -> Result<()> {
        Ok(kill(self.worker_pid(name)?, Signal::SIGSTOP)?)
    }

    /// Sends SIGCONT to a worker.
    ///
    /// # Errors
    /// No worker has this name, or it is gone.
    pub fn thaw_worker(&self, name: &str) -> Result<()> {
        Ok(kill(self.worker_pid(name)?, Signal::SIGCONT)?)
    }

    /// Sends SIGSTOP to a worker, its guardians, their children and everything below, as a host that is suspended whole
    /// would stop them, and returns whom.
    ///
    /// # Errors
    /// No worker has this name, or `/proc` cannot be read.
    pub fn freeze_tree(&self, name: &str) -> Result<Vec<Pid>> {
        stop_tree(self.worker_pid(name)?)
    }

    /// Sends SIGCONT to everybody whom [`Cluster::freeze_tree`] returned.
    pub fn thaw_tree(&self, tree: &[Pid]) {
        for pid in tree {
            // Whoever was killed meanwhile stays dead.
            let _ = kill(*pid, Signal::SIGCONT);
        }
    }

    pub(super) fn end_workers(&mut self) {
        self.workers.values_mut().for_each(end_tree);
    }
}

impl Launch {
    fn new(endpoints: Option<&str>, host: Option<&Host>, arguments: &[&str]) -> Self {
        Self {
            endpoints: endpoints.map(str::to_owned),
            namespace: host.map(|host| host.namespace().to_owned()),
            program: None,
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        }
    }
}

/// Kills a worker and everything below it; a guardian that is frozen cannot do it.
fn end_tree(worker: &mut Child) {
    let below = pid_of(worker).and_then(descendants_of).unwrap_or_default();
    // Whoever is gone already is what is wanted.
    let _ = worker.kill();
    let _ = worker.wait();
    for pid in below {
        let _ = kill(pid, Signal::SIGKILL);
    }
}

fn no_worker(name: &str) -> String {
    format!("no worker is called {name}")
}
