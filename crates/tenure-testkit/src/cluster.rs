//! A fleet as real processes: a private PostgreSQL, coordinators, workers and the guardians beside their children. They
//! can be killed, frozen, thawed and started again. It is spoken to as a user would, with the `tenure` program.
//!
//! It judges nothing: whoever uses it looks into the database and the world itself. Everything it started ends with it.
//! Neighbours: `tenure-postgres` runs the server; `processes` finds the guardians.

use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sqlx::PgPool;
use tempfile::TempDir;
use tenure_postgres::{Options, Server, Stop};

use crate::processes::guardians_of;

/// How long a coordinator may take to become ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// The processes, and a pool for looking into their database.
pub struct Cluster {
    program: PathBuf,
    coordinators: BTreeMap<String, Coordinator>,
    workers: BTreeMap<String, Child>,
    /// For reading alone, where a test does not mean to tamper.
    pub database: PgPool,
    /// The server, to be killed and started again.
    pub postgres: Server,
    directory: TempDir,
}

struct Coordinator {
    process: Child,
    endpoint: String,
}

impl Cluster {
    /// Starts a PostgreSQL server of its own, migrates it, and starts one coordinator, `c1`, that is ready.
    ///
    /// # Errors
    /// A process does not start, or does not become ready; the error says which and shows its log.
    pub async fn start(program: impl Into<PathBuf>) -> Result<Self> {
        let program = program.into();
        ensure!(program.exists(), "{} is not there; build it first", program.display());
        let directory = tempfile::Builder::new().prefix("tenure-").tempdir().context("making a directory")?;
        let postgres = tokio::task::spawn_blocking(|| Server::start(Options::default())).await??;
        let url = postgres.url("postgres");
        run(Command::new(&program).args(["migrate", "--database-url", &url]))?;
        let database = PgPool::connect(&url).await.context("connecting to the database")?;
        let mut cluster = Self {
            program,
            coordinators: BTreeMap::new(),
            workers: BTreeMap::new(),
            database,
            postgres,
            directory,
        };
        cluster.start_coordinator("c1").await?;
        Ok(cluster)
    }

    /// A directory of the cluster's own, removed with it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Starts a coordinator and waits until it is ready.
    ///
    /// # Errors
    /// It does not start, or does not become ready in a minute.
    pub async fn start_coordinator(&mut self, name: &str) -> Result<()> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let endpoint = format!("http://127.0.0.1:{port}");
        let process = Command::new(&self.program)
            .args(["coordinator", "--database-url", &self.postgres.url("postgres")])
            .args(["--listen", &format!("127.0.0.1:{port}"), "--http", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.create_log(name)?)
            .spawn()
            .with_context(|| format!("starting coordinator {name}"))?;
        self.coordinators.insert(name.to_owned(), Coordinator { process, endpoint });
        self.wait_until_ready(name).await
    }

    async fn wait_until_ready(&mut self, name: &str) -> Result<()> {
        let until = Instant::now() + READY_WITHIN;
        loop {
            let coordinator = self.coordinators.get_mut(name).context("no such coordinator")?;
            let mut ping = Command::new(&self.program);
            ping.args(["ping", "--ready"]).env("TENURE_ENDPOINT", &coordinator.endpoint);
            if ping.output()?.status.success() {
                return Ok(());
            }
            let ended = coordinator.process.try_wait()?;
            let log = || fs::read_to_string(self.log_path(name)).unwrap_or_default();
            ensure!(ended.is_none(), "coordinator {name} ended with {ended:?}:\n{}", log());
            ensure!(Instant::now() < until, "coordinator {name} did not become ready:\n{}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts a worker; `arguments` are added to its command line, for example `["--slots", "2", "--ttl", "5s"]`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_worker(&mut self, name: &str, arguments: &[&str]) -> Result<()> {
        let worker = self
            .tenure(&["worker", "--name", name, "--data-dir"])
            .arg(self.directory.path().join(name))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.create_log(name)?)
            .spawn()
            .with_context(|| format!("starting worker {name}"))?;
        self.workers.insert(name.to_owned(), worker);
        Ok(())
    }

    /// The process id of a worker.
    ///
    /// # Errors
    /// No worker has this name.
    pub fn worker_pid(&self, name: &str) -> Result<Pid> {
        let worker = self.workers.get(name).with_context(|| format!("no worker is called {name}"))?;
        Ok(Pid::from_raw(i32::try_from(worker.id())?))
    }

    /// The process ids of the guardians beside a worker's children.
    ///
    /// # Errors
    /// No worker has this name, or `/proc` cannot be read.
    pub fn guardian_pids(&self, name: &str) -> Result<Vec<Pid>> {
        guardians_of(self.worker_pid(name)?)
    }

    /// Sends SIGKILL to a worker and to whoever is named beside it, one right after the other, and reaps the worker.
    ///
    /// # Errors
    /// No worker has this name, or a process was gone before.
    pub fn kill_worker(&mut self, name: &str, beside: &[Pid]) -> Result<()> {
        let worker = self.worker_pid(name)?;
        for pid in beside.iter().copied().chain([worker]) {
            kill(pid, Signal::SIGKILL).with_context(|| format!("killing process {pid}"))?;
        }
        if let Some(mut process) = self.workers.remove(name) {
            process.wait().context("waiting for a killed worker")?;
        }
        Ok(())
    }

    /// Sends SIGSTOP to a worker.
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

    /// Sends SIGKILL to a coordinator and reaps it.
    ///
    /// # Errors
    /// No coordinator has this name.
    pub fn kill_coordinator(&mut self, name: &str) -> Result<()> {
        let mut coordinator =
            self.coordinators.remove(name).with_context(|| format!("no coordinator is called {name}"))?;
        coordinator.process.kill()?;
        coordinator.process.wait()?;
        Ok(())
    }

    /// The endpoints of the coordinators, separated by commas, as `TENURE_ENDPOINT` takes them.
    #[must_use]
    pub fn endpoints(&self) -> String {
        let endpoints: Vec<&str> = self.coordinators.values().map(|c| c.endpoint.as_str()).collect();
        endpoints.join(",")
    }

    /// The `tenure` program with these arguments, knowing the coordinators.
    #[must_use]
    pub fn tenure(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("TENURE_ENDPOINT", self.endpoints());
        command
    }

    /// Runs `tenure` with these arguments to a successful end, and returns what it printed.
    ///
    /// # Errors
    /// It does not exit with 0; the error shows its standard error.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        run(&mut self.tenure(arguments))
    }

    /// The log of a coordinator or worker.
    #[must_use]
    pub fn log_path(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.log"))
    }

    fn create_log(&self, name: &str) -> Result<fs::File> {
        fs::File::create(self.log_path(name)).with_context(|| format!("creating the log of {name}"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let coordinators = self.coordinators.values_mut().map(|c| &mut c.process);
        for process in self.workers.values_mut().chain(coordinators) {
            // A process that is gone already is what is wanted.
            let _ = process.kill();
            let _ = process.wait();
        }
        self.postgres.stop(Stop::Immediate);
    }
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("reading what it printed")
}
