//! A private PostgreSQL server, from its first start to its last stop.
//!
//! Owns the sequence: open the directory, start, wait until it accepts, stop or kill, start again.
//! Promises that a value of [`Server`] that was returned by [`Server::start`] accepts connections, and
//! that dropping it stops the process. A start is repeated for a while when the directory is still
//! held by a process that is ending: after a kill, or after the death of an earlier parent.
//! Deliberately does not restart a server that ended by itself. Neighbours: `directory`, `process`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::directory::{Directory, SUPERUSER};
use crate::options::DEFAULT_SETTINGS;
use crate::process::{Postmaster, Readiness};
use crate::{Binaries, Error, Options};

/// How long a start is repeated while another process still holds the directory.
const START_RETRY: Duration = Duration::from_secs(10);

/// How long a server may take to accept connections; recovery after a crash counts.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a fast stop may take before it becomes an immediate one, and that one a kill.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// The port that names the socket where no TCP port was asked for.
const SOCKET_PORT: u16 = 5432;

/// How much of the log goes into an error, in lines.
const LOG_TAIL_LINES: usize = 6;

/// A log larger than this is emptied at the next start, in bytes.
const LOG_LIMIT_BYTES: u64 = 16 * 1024 * 1024;

/// How to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Roll back what is open, write a checkpoint, end.
    Fast,
    /// End at once; the next start recovers from the log.
    Immediate,
}

/// A server that this process is the parent of.
#[derive(Debug)]
pub struct Server {
    // Stopped in `drop`, before the directories below are removed.
    postmaster: Option<Postmaster>,
    directory: Directory,
    tcp_port: Option<u16>,
    settings: Vec<(String, String)>,
    temporary: Option<TempDir>,
}

impl Server {
    /// Initialises the directory if it is new, starts the server, and waits until it accepts.
    ///
    /// # Errors
    /// Every variant of [`Error`]; nothing is left running.
    pub fn start(options: Options) -> Result<Self, Error> {
        let (root, temporary) = match options.directory {
            Some(directory) => (directory, None),
            None => {
                let temporary = create_temporary()?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let mut server = Self {
            postmaster: None,
            directory: Directory::open(&root, &options.places)?,
            tcp_port: options.tcp_port,
            settings: options.settings,
            temporary,
        };
        server.start_again()?;
        Ok(server)
    }

    /// Starts the server again after [`Server::stop`], [`Server::kill9`] or its own end. Does
    /// nothing while it runs.
    ///
    /// # Errors
    /// [`Error::Start`], with the end of the log.
    pub fn start_again(&mut self) -> Result<(), Error> {
        if self.is_running() {
            return Ok(());
        }
        let end = Instant::now() + START_RETRY;
        loop {
            match self.try_start() {
                Ok(()) => return Ok(()),
                Err(_) if self.is_directory_held() && Instant::now() < end => {
                    thread::sleep(Duration::from_millis(50));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Stops the server and waits for its end. Does nothing if it has ended.
    pub fn stop(&mut self, how: Stop) {
        let Some(mut postmaster) = self.postmaster.take() else {
            return;
        };
        let stopped = match how {
            Stop::Fast => postmaster.signal_and_wait(Signal::SIGINT, STOP_TIMEOUT),
            Stop::Immediate => false,
        };
        if !stopped && !postmaster.signal_and_wait(Signal::SIGQUIT, STOP_TIMEOUT) {
            tracing::warn!(pid = postmaster.pid(), "PostgreSQL did not stop and is killed");
            postmaster.kill();
        }
    }

    /// `kill -9` of the postmaster and of every process that it forked; returns when they are gone.
    pub fn kill9(&mut self) {
        if let Some(mut postmaster) = self.postmaster.take() {
            postmaster.kill();
        }
    }

    /// Whether the process is there.
    pub fn is_running(&mut self) -> bool {
        let data = self.directory.data();
        self.postmaster
            .as_mut()
            .is_some_and(|postmaster| !matches!(postmaster.check_readiness(&data), Ok(Readiness::Ended(_))))
    }

    /// The postmaster's process id, while one was started.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.postmaster.as_ref().map(Postmaster::pid)
    }

    /// The address of `database` over the unix socket, for sqlx and libpq alike.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!(
            "postgresql://{SUPERUSER}@localhost:{}/{}?host={}",
            self.port(),
            encode(database.as_bytes()),
            encode(self.directory.socket().as_os_str().as_bytes()),
        )
    }

    /// The address of `database` over TCP, password included; `None` where no port was asked for.
    ///
    /// # Errors
    /// [`Error::Io`] if the password's file cannot be read.
    pub fn tcp_url(&self, database: &str) -> Result<Option<String>, Error> {
        let Some(port) = self.tcp_port else {
            return Ok(None);
        };
        let password = self.directory.read_password()?;
        let database = encode(database.as_bytes());
        Ok(Some(format!("postgresql://{SUPERUSER}:{password}@127.0.0.1:{port}/{database}")))
    }

    /// The binaries it runs, for `psql` and the like.
    #[must_use]
    pub fn binaries(&self) -> &Binaries {
        &self.directory.binaries
    }

    /// The data directory.
    #[must_use]
    pub fn data_directory(&self) -> PathBuf {
        self.directory.data()
    }

    /// Its log.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.directory.log()
    }

    fn port(&self) -> u16 {
        self.tcp_port.unwrap_or(SOCKET_PORT)
    }

    fn try_start(&mut self) -> Result<(), Error> {
        let data = self.directory.data();
        let mut postmaster = Postmaster::spawn(self.build_command()?)?;
        let end = Instant::now() + READY_TIMEOUT;
        loop {
            let what = match postmaster.check_readiness(&data)? {
                Readiness::Ready => {
                    self.postmaster = Some(postmaster);
                    return Ok(());
                }
                Readiness::Starting if Instant::now() < end => {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
                Readiness::Starting => {
                    postmaster.kill();
                    format!("not ready after {READY_TIMEOUT:?}")
                }
                Readiness::Ended(status) => format!("it ended with {status}"),
            };
            return Err(Error::Start {
                directory: data,
                what,
                log_tail: read_log_tail(&self.directory.log()),
            });
        }
    }

    fn build_command(&self) -> Result<Command, Error> {
        let mut command = self.directory.build_command("postgres");
        command.arg("-D").arg(self.directory.data());
        for (name, value) in DEFAULT_SETTINGS {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let listen = self.tcp_port.map_or("", |_| "127.0.0.1");
        command
            .arg("-c")
            .arg(format!("listen_addresses={listen}"))
            .arg("-c")
            .arg(format!("port={}", self.port()))
            .arg("-c")
            .arg("unix_socket_permissions=0700")
            .arg("-c")
            .arg(prefix_path("unix_socket_directories=", self.directory.socket()));
        let log = open_log(&self.directory.log())?;
        let copy = log.try_clone().map_err(Error::io("open", self.directory.log()))?;
        // A group of its own: Ctrl-C in a terminal is for the program, which then stops the server.
        command.stdin(Stdio::null()).stdout(copy).stderr(log).process_group(0);
        Ok(command)
    }

    /// Whether another postmaster's lock file or shared memory was in the way of the last start.
    fn is_directory_held(&self) -> bool {
        let tail = read_log_tail(&self.directory.log());
        self.directory.data().join("postmaster.pid").exists()
            && (tail.contains("lock file") || tail.contains("pre-existing shared memory"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What is about to be removed needs no checkpoint.
        let how = if self.temporary.is_some() { Stop::Immediate } else { Stop::Fast };
        self.stop(how);
    }
}

fn create_temporary() -> Result<TempDir, Error> {
    let parent = std::env::temp_dir();
    tempfile::Builder::new()
        .prefix("tenure-pg-")
        .tempdir_in(&parent)
        .map_err(Error::io("create a directory in", parent))
}

fn open_log(path: &Path) -> Result<fs::File, Error> {
    let too_large = fs::metadata(path).is_ok_and(|metadata| metadata.len() > LOG_LIMIT_BYTES);
    let mut options = fs::OpenOptions::new();
    options.create(true);
    if too_large {
        options.write(true).truncate(true);
    } else {
        options.append(true);
    }
    options.open(path).map_err(Error::io("open", path))
}

fn read_log_tail(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("; ")
}

fn prefix_path(prefix: &str, path: &Path) -> OsString {
    let mut setting = OsString::from(prefix);
    setting.push(path);
    setting
}

/// Percent-encodes everything that is not plainly allowed in a URL's path and query alike.
fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
            encoded.push(char::from(*byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}
