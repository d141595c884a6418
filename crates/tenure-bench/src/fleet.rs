//! The processes that are measured: a private PostgreSQL and one `tenure coordinator`, each a process of its own.
//!
//! Owns the server's settings: `synchronous_commit` is on and `pg_stat_statements` is loaded; everything else is as
//! PostgreSQL and the launcher leave it (`max_connections` 60). Three databases stand on it: `tenure` for the fleet,
//! `bare` for the floor, and `postgres`, from which the counters are read, so that reading them is not counted.
//! Everything that was started ends with the value. Neighbours: `meter`, `floor`, `worker`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;
use tenure_client::Client;
use tenure_postgres::{Options, Server};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Child,
};
use tonic::transport::{Channel, Endpoint};

/// The agent that is submitted to.
pub(crate) const AGENT: &str = "nothing";
/// Its fleet file. The stand-in worker never runs the command.
const FLEET: &str = "schema = 1\n[agents.nothing]\ncommand = [\"true\"]\n";

/// A fleet without workers. Fields end in this order: the coordinator before its database.
pub(crate) struct Fleet {
    coordinator: Child,
    endpoint: String,
    postgres: Server,
    directory: TempDir,
}

/// What a coordinator says once it is ready.
#[derive(Deserialize)]
struct Ready {
    listen: String,
}

impl Fleet {
    /// Starts everything below `parent`, and declares the agent. With `planning` the server also takes the time of plans.
    ///
    /// # Errors
    /// A process does not start.
    pub(crate) async fn start(program: &Path, parent: &Path, planning: bool) -> Result<Self> {
        ensure!(program.exists(), "{} is not there; build it first", program.display());
        let directory = tempfile::Builder::new().prefix("tenure-bench-").tempdir_in(parent)?;
        let postgres = start_server(directory.path().join("postgres"), planning).await?;
        prepare_databases(&postgres).await?;
        let url = postgres.url("tenure");
        run(Command::new(program).args(["migrate", "--database-url", &url]))?;
        let (coordinator, endpoint) = start_coordinator(program, &url, directory.path()).await?;
        let fleet_file = directory.path().join("fleet.toml");
        fs::write(&fleet_file, FLEET)?;
        run(Command::new(program).arg("apply").arg(&fleet_file).env("TENURE_ENDPOINT", &endpoint))?;
        Ok(Self { coordinator, endpoint, postgres, directory })
    }

    /// A directory on the disk that the database is on.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A client, with a connection of its own.
    ///
    /// # Errors
    /// The address is none.
    pub(crate) fn client(&self) -> Result<Client> {
        Ok(Client::connect(&[&self.endpoint])?)
    }

    /// A connection for a worker.
    ///
    /// # Errors
    /// The coordinator does not accept.
    pub(crate) async fn connect_worker(&self) -> Result<Channel> {
        Ok(Endpoint::from_shared(self.endpoint.clone())?.tcp_nodelay(true).connect().await?)
    }

    /// A connection to one of the databases.
    ///
    /// # Errors
    /// The server does not accept.
    pub(crate) async fn connect_database(&self, name: &str) -> Result<PgConnection> {
        let connected = PgConnection::connect(&self.postgres.url(name)).await;
        connected.with_context(|| format!("connecting to the database {name}"))
    }

    /// The coordinator's process, while it lives.
    pub(crate) fn coordinator_pid(&self) -> Result<u32> {
        self.coordinator.id().context("the coordinator has ended")
    }

    /// The server's first process.
    pub(crate) fn postmaster_pid(&self) -> Result<u32> {
        self.postgres.pid().context("the database has ended")
    }
}

async fn start_server(directory: PathBuf, planning: bool) -> Result<Server> {
    let options = Options::in_directory(directory)
        .with_setting("synchronous_commit", "on")
        .with_setting("shared_preload_libraries", "pg_stat_statements")
        .with_setting("pg_stat_statements.track_planning", if planning { "on" } else { "off" });
    Ok(tokio::task::spawn_blocking(|| Server::start(options)).await??)
}

async fn prepare_databases(postgres: &Server) -> Result<()> {
    let mut connection = PgConnection::connect(&postgres.url("postgres")).await?;
    for statement in ["CREATE EXTENSION pg_stat_statements", "CREATE DATABASE tenure", "CREATE DATABASE bare"]
    {
        sqlx::query(statement).execute(&mut connection).await.with_context(|| statement.to_owned())?;
    }
    Ok(())
}

async fn start_coordinator(program: &Path, url: &str, directory: &Path) -> Result<(Child, String)> {
    let log = directory.join("coordinator.log");
    let mut coordinator = tokio::process::Command::new(program)
        .args(["--json", "coordinator", "--database-url", url])
        .args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(&log)?)
        .kill_on_drop(true)
        .spawn()
        .context("starting the coordinator")?;
    let stdout = coordinator.stdout.take().context("the coordinator has no output")?;
    let line = BufReader::new(stdout).lines().next_line().await?;
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let line = line.with_context(|| format!("the coordinator did not become ready:\n{}", said()))?;
    let ready: Ready = serde_json::from_str(&line).with_context(|| format!("reading {line:?}"))?;
    Ok((coordinator, format!("http://{}", ready.listen)))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
    Ok(())
}
