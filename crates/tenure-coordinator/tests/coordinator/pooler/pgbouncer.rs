//! A PgBouncer for one test: a process that shares out few connections by the transaction.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    str::FromStr as _,
};

use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tenure_testkit::{TestDatabase, wait_for};
use tokio::net::TcpStream;

use crate::fleet::PATIENCE;

/// Connections to the database that all clients share.
pub(super) const CONNECTIONS: u32 = 2;
/// The first release that knows prepared statements in this mode.
const OLDEST: (u32, u32) = (1, 21);
/// Who runs it where nobody says and we are root.
const NOBODY: (u32, u32) = (65_534, 65_534);

/// The program of a release that can do it, or why there is none.
pub(super) fn find_program() -> Result<PathBuf, String> {
    let program =
        std::env::var_os("TENURE_PGBOUNCER").map_or_else(|| PathBuf::from("pgbouncer"), PathBuf::from);
    let output = Command::new(&program)
        .arg("--version")
        .output()
        .map_err(|error| format!("no PgBouncer at {}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().nth(1).unwrap_or_default();
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(program),
        _ => Err(format!("PgBouncer {version} is older than {}.{}", OLDEST.0, OLDEST.1)),
    }
}

/// Runs until it is dropped.
pub(super) struct PgBouncer {
    process: Child,
    _directory: TempDir,
}

impl PgBouncer {
    /// Starts one before a database; returns the database's address through it.
    pub(super) async fn start(program: &Path, database: &TestDatabase) -> (Self, String) {
        let server = PgConnectOptions::from_str(database.url()).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let configuration = write_files(directory.path(), &server, port);
        let mut command = Command::new(program);
        command.arg(configuration).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            // It refuses to run as root; whoever owns the server's socket may use it.
            let owner = server.get_socket().map(|socket| fs::metadata(socket).unwrap());
            let (user, group) = owner.map_or(NOBODY, |owner| (owner.uid(), owner.gid()));
            command.uid(user).gid(group);
        }
        let pooler = Self { process: command.spawn().unwrap(), _directory: directory };
        wait_for("PgBouncer to listen", PATIENCE, async || {
            TcpStream::connect(("127.0.0.1", port)).await.map(drop)
        })
        .await;
        (pooler, format!("postgres://{}@127.0.0.1:{port}/{}", server.get_username(), database.name()))
    }
}

fn write_files(directory: &Path, server: &PgConnectOptions, port: u16) -> PathBuf {
    let (users, configuration) = (directory.join("users"), directory.join("pgbouncer.ini"));
    fs::write(&users, format!("\"{}\" \"\"\n", server.get_username())).unwrap();
    let host =
        server.get_socket().map_or_else(|| server.get_host().to_owned(), |path| path.display().to_string());
    let text = format!(
        "[databases]\n* = host={host} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\n\
         default_pool_size = {CONNECTIONS}\nmax_prepared_statements = 200\n",
        server.get_port(),
        users.display()
    );
    fs::write(&configuration, text).unwrap();
    configuration
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        // One that is gone already is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
