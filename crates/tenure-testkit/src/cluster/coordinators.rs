//! The coordinators of a cluster. Each keeps its address when it is started again, so that workers and proxies find it.
//!
//! Neighbours: `cluster`.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::Deserialize;

use super::{Cluster, PATIENCE, POLL, pid_of, stop};

/// What a coordinator logs for each late write that it refused.
const FENCED_LINE: &str = "a late report is fenced";

/// A coordinator: its process while it has one, and where it serves.
pub(super) struct Coordinator {
    process: Option<Child>,
    arguments: Vec<String>,
    database_url: String,
    places: Option<Places>,
}

/// What a coordinator prints when it is ready.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Places {
    listen: SocketAddr,
    http: SocketAddr,
}

impl Cluster {
    /// Starts a coordinator and waits until it is ready.
    ///
    /// # Errors
    /// It does not start, or does not become ready in a minute.
    pub async fn start_coordinator(&mut self, name: &str) -> Result<()> {
        let url = self.postgres.url("postgres");
        self.start_coordinator_with(name, &url, &[]).await
    }

    /// Starts a coordinator that reaches its database at this address, with further arguments, and waits until it is ready.
    ///
    /// # Errors
    /// It does not start, or does not become ready in a minute.
    pub async fn start_coordinator_with(
        &mut self,
        name: &str,
        database_url: &str,
        arguments: &[&str],
    ) -> Result<()> {
        let coordinator = Coordinator {
            process: None,
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            database_url: database_url.to_owned(),
            places: None,
        };
        self.coordinators.insert(name.to_owned(), coordinator);
        self.restart_coordinator(name).await
    }

    /// Starts a coordinator again that was killed or stopped, where it was, and waits until it is ready.
    ///
    /// # Errors
    /// No coordinator has this name, it does not start, or does not become ready in a minute.
    pub async fn restart_coordinator(&mut self, name: &str) -> Result<()> {
        let said = self.said_path(name);
        let (listen, http) = match self.find_coordinator(name)?.places {
            Some(places) => (places.listen.to_string(), places.http.to_string()),
            None => ("127.0.0.1:0".to_owned(), "127.0.0.1:0".to_owned()),
        };
        let log = self.open_log(name)?;
        let answers = fs::File::create(&said).with_context(|| format!("making {}", said.display()))?;
        let coordinator = self.coordinators.get_mut(name).context("no such coordinator")?;
        let mut command = Command::new(&self.program);
        command
            .args(["coordinator", "--json", "--database-url", &coordinator.database_url])
            .args(["--listen", &listen, "--http", &http])
            .args(&coordinator.arguments)
            .envs(&self.environment);
        if let Some(credential) = &self.credential {
            credential.give_coordinator(&mut command);
        }
        let process = command
            .stdin(Stdio::null())
            .stdout(answers)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting coordinator {name}"))?;
        coordinator.process = Some(process);
        self.wait_until_ready(name).await
    }

    async fn wait_until_ready(&mut self, name: &str) -> Result<()> {
        let said = self.said_path(name);
        let until = Instant::now() + PATIENCE;
        loop {
            let text = fs::read_to_string(&said).unwrap_or_default();
            let line = text.split_once('\n').map(|(line, _)| line);
            if let Some(places) = line.and_then(|line| serde_json::from_str::<Places>(line).ok()) {
                self.coordinators.get_mut(name).context("no such coordinator")?.places = Some(places);
                if self.tenure_at(&self.endpoint(name)?, &["ping", "--ready"]).output()?.status.success() {
                    return Ok(());
                }
            }
            let coordinator = self.coordinators.get_mut(name).context("no such coordinator")?;
            let ended = coordinator.process.as_mut().map(Child::try_wait).transpose()?.flatten();
            let log = || self.read_log(name);
            ensure!(ended.is_none(), "coordinator {name} ended with {ended:?}:\n{}", log());
            ensure!(Instant::now() < until, "coordinator {name} did not become ready:\n{}", log());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Where a coordinator serves gRPC, also while it is dead.
    ///
    /// # Errors
    /// No coordinator has this name.
    pub fn coordinator_address(&self, name: &str) -> Result<SocketAddr> {
        let coordinator = self.find_coordinator(name)?;
        Ok(coordinator.places.with_context(|| format!("coordinator {name} was never ready"))?.listen)
    }

    /// Where a coordinator serves `/livez` and `/readyz`, also while it is dead.
    ///
    /// # Errors
    /// No coordinator has this name.
    pub fn coordinator_probes(&self, name: &str) -> Result<SocketAddr> {
        let coordinator = self.find_coordinator(name)?;
        Ok(coordinator.places.with_context(|| format!("coordinator {name} was never ready"))?.http)
    }

    /// The endpoint of one coordinator.
    ///
    /// # Errors
    /// No coordinator has this name.
    pub fn endpoint(&self, name: &str) -> Result<String> {
        Ok(format!("http://{}", self.coordinator_address(name)?))
    }

    /// The endpoints of the coordinators that were not killed or stopped, separated by commas, as `TENURE_ENDPOINT` takes them.
    #[must_use]
    pub fn endpoints(&self) -> String {
        let endpoints: Vec<String> = self
            .coordinators
            .values()
            .filter(|coordinator| coordinator.process.is_some())
            .filter_map(|coordinator| Some(format!("http://{}", coordinator.places?.listen)))
            .collect();
        endpoints.join(",")
    }

    /// The process id of a coordinator.
    ///
    /// # Errors
    /// No coordinator has this name, or it is dead.
    pub fn coordinator_pid(&self, name: &str) -> Result<Pid> {
        let process = self.find_coordinator(name)?.process.as_ref();
        pid_of(process.with_context(|| format!("coordinator {name} is dead"))?)
    }

    /// How many late writes the coordinators refused, by their logs: a refusal leaves nothing in the database.
    ///
    /// # Errors
    /// A log cannot be read.
    pub fn count_fenced_writes(&self) -> Result<usize> {
        let mut count = 0;
        for name in self.coordinators.keys() {
            let path = self.log_path(name);
            let log = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            count += log.lines().filter(|line| line.contains(FENCED_LINE)).count();
        }
        Ok(count)
    }

    /// Sends SIGKILL to a coordinator and reaps it.
    ///
    /// # Errors
    /// No coordinator has this name, or it is dead.
    pub fn kill_coordinator(&mut self, name: &str) -> Result<()> {
        let mut process = self.take_coordinator(name)?;
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Asks a coordinator to end, and waits until it has drained its streams and ended.
    ///
    /// # Errors
    /// No coordinator has this name, it is dead, or does not end in a minute.
    pub async fn stop_coordinator(&mut self, name: &str) -> Result<()> {
        let mut process = self.take_coordinator(name)?;
        let stopped = stop(&mut process, name).await;
        if stopped.is_err() {
            process.kill()?;
            process.wait()?;
        }
        stopped
    }

    /// Sends SIGSTOP to a coordinator.
    ///
    /// # Errors
    /// No coordinator has this name, or it is dead.
    pub fn freeze_coordinator(&self, name: &str) -> Result<()> {
        Ok(kill(self.coordinator_pid(name)?, Signal::SIGSTOP)?)
    }

    /// Sends SIGCONT to a coordinator.
    ///
    /// # Errors
    /// No coordinator has this name, or it is dead.
    pub fn thaw_coordinator(&self, name: &str) -> Result<()> {
        Ok(kill(self.coordinator_pid(name)?, Signal::SIGCONT)?)
    }

    pub(super) fn end_coordinators(&mut self) {
        for process in self.coordinators.values_mut().filter_map(|coordinator| coordinator.process.as_mut()) {
            // A process that is gone already is what is wanted.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn take_coordinator(&mut self, name: &str) -> Result<Child> {
        let coordinator = self.coordinators.get_mut(name).with_context(|| no_coordinator(name))?;
        coordinator.process.take().with_context(|| format!("coordinator {name} is dead"))
    }

    fn find_coordinator(&self, name: &str) -> Result<&Coordinator> {
        self.coordinators.get(name).with_context(|| no_coordinator(name))
    }

    /// Where its standard output goes.
    fn said_path(&self, name: &str) -> PathBuf {
        self.directory().join(format!("{name}.said"))
    }
}

fn no_coordinator(name: &str) -> String {
    format!("no coordinator is called {name}")
}
