//! A fleet as real processes: a private PostgreSQL, coordinators, workers and the guardians beside their children. They
//! can be killed, frozen, thawed, stopped and started again, reached through proxies, and put on hosts of their own. It is
//! spoken to as a user would, with the `tenure` program.
//!
//! It judges nothing: whoever uses it looks into the database and the world itself. Everything it started ends with it,
//! also when a test panics; two clusters at once share nothing. It has no part in the work: what a cluster does not do, a
//! user's fleet would not do either.
//!
//! Neighbours: `coordinators`, `workers` and `database` start and harm one kind of part each; `credential` is with what they call; `jobs` asks
//! about jobs; `processes` looks at the system; `tenure-postgres` runs the server.

mod coordinators;
mod credential;
mod database;
mod jobs;
mod workers;

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::{Child, Command},
    str::FromStr as _,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::unistd::Pid;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tempfile::TempDir;
use tenure_postgres::{Options, Server, Stop};

use self::{coordinators::Coordinator, credential::Credential, workers::Launch};

pub use self::database::Crash;

/// How long a process may take to become ready, or to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked at meanwhile.
const POLL: Duration = Duration::from_millis(20);

/// Connections with which tests look into the database. Few: they count against the server's limit too.
const WATCHING_CONNECTIONS: u32 = 4;

/// What these connections call themselves.
const WATCHING_NAME: &str = "tenure-testkit";

/// The processes, and a pool for looking into their database.
pub struct Cluster {
    program: PathBuf,
    coordinators: BTreeMap<String, Coordinator>,
    workers: BTreeMap<String, Child>,
    /// How each worker was started, also of those that are dead.
    launches: BTreeMap<String, Launch>,
    /// Variables of every coordinator and worker that is started from now on.
    environment: BTreeMap<String, String>,
    /// With which everybody calls; none: no credential is wanted.
    credential: Option<Credential>,
    /// For reading alone, where a test does not mean to tamper.
    pub database: PgPool,
    /// The server, to be killed and started again.
    pub postgres: Server,
    directory: TempDir,
}

impl Cluster {
    /// Starts a PostgreSQL server of its own, migrates it, and starts one coordinator, `c1`, that is ready.
    ///
    /// # Errors
    /// A process does not start, or does not become ready; the error says which and shows its log.
    pub async fn start(program: impl Into<PathBuf>) -> Result<Self> {
        let mut cluster = Self::start_database(program, Options::default()).await?;
        cluster.start_coordinator("c1").await?;
        Ok(cluster)
    }

    /// The same with credentials: every call needs one, and the cluster's own verbs and workers have one.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_guarded(program: impl Into<PathBuf>) -> Result<Self> {
        let mut cluster = Self::start_database(program, Options::default()).await?;
        cluster.require_tokens()?;
        cluster.start_coordinator("c1").await?;
        Ok(cluster)
    }

    /// Starts a PostgreSQL server with these options and migrates it, and nothing else.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub async fn start_database(program: impl Into<PathBuf>, options: Options) -> Result<Self> {
        let program = program.into();
        ensure!(program.exists(), "{} is not there; build it first", program.display());
        let directory = tempfile::Builder::new().prefix("tenure-").tempdir().context("making a directory")?;
        let postgres = tokio::task::spawn_blocking(|| Server::start(options)).await??;
        let url = postgres.url("postgres");
        run(Command::new(&program).args(["migrate", "--database-url", &url]))?;
        let watching = PgConnectOptions::from_str(&url)?.application_name(WATCHING_NAME);
        let database = PgPoolOptions::new()
            .max_connections(WATCHING_CONNECTIONS)
            .connect_with(watching)
            .await
            .context("connecting to the database")?;
        Ok(Self {
            program,
            coordinators: BTreeMap::new(),
            workers: BTreeMap::new(),
            launches: BTreeMap::new(),
            environment: BTreeMap::new(),
            credential: None,
            database,
            postgres,
            directory,
        })
    }

    /// Gives every coordinator and worker that is started from now on this variable.
    pub fn set_environment(&mut self, name: &str, value: impl Into<String>) {
        self.environment.insert(name.to_owned(), value.into());
    }

    /// A directory of the cluster's own, removed with it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The `tenure` program with these arguments, knowing the coordinators.
    #[must_use]
    pub fn tenure(&self, arguments: &[&str]) -> Command {
        self.tenure_at(&self.endpoints(), arguments)
    }

    /// The `tenure` program with these arguments, knowing these endpoints alone.
    #[must_use]
    pub fn tenure_at(&self, endpoints: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("TENURE_ENDPOINT", endpoints);
        if let Some(credential) = &self.credential {
            credential.give_client(&mut command);
        }
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

    /// Copies the logs of everything to where they outlive the cluster, and names the place.
    ///
    /// # Errors
    /// A log cannot be copied.
    pub fn keep_logs(&self, place: &Path) -> Result<()> {
        fs::create_dir_all(place).with_context(|| format!("making {}", place.display()))?;
        for entry in fs::read_dir(self.directory.path()).context("listing the logs")? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                fs::copy(&path, place.join(path.file_name().unwrap_or_default()))
                    .with_context(|| format!("copying {}", path.display()))?;
            }
        }
        fs::copy(self.postgres.log_path(), place.join("postgres.log")).context("copying PostgreSQL's log")?;
        Ok(())
    }

    /// A log that is added to when its process is started again.
    fn open_log(&self, name: &str) -> Result<fs::File> {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.log_path(name))
            .with_context(|| format!("opening the log of {name}"))
    }

    fn read_log(&self, name: &str) -> String {
        fs::read_to_string(self.log_path(name)).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end_workers();
        self.end_coordinators();
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

fn pid_of(process: &Child) -> Result<Pid> {
    Ok(Pid::from_raw(i32::try_from(process.id())?))
}

/// Asks a process to end and waits until it has.
async fn stop(process: &mut Child, name: &str) -> Result<()> {
    nix::sys::signal::kill(pid_of(process)?, nix::sys::signal::Signal::SIGTERM)
        .with_context(|| format!("asking {name} to end"))?;
    let until = tokio::time::Instant::now() + PATIENCE;
    while process.try_wait().with_context(|| format!("waiting for {name}"))?.is_none() {
        ensure!(tokio::time::Instant::now() < until, "{name} did not end within {PATIENCE:?}");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}
