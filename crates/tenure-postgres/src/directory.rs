//! The directory of a private server: `data`, `socket`, `password`, `postgres.log`.
//!
//! Owns its layout and its initialisation. Promises that `data` appears complete or not at all (it is
//! built as `data.new` and renamed), and that the socket's path fits into the 107 bytes that the
//! kernel grants. Does not start anything that lasts. Neighbours: `account`, `binaries`, `process`.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::account::Account;
use crate::{Binaries, Error, SearchPlaces};

/// The longest path of a unix socket, in bytes.
const SOCKET_PATH_LIMIT_BYTES: usize = 107;

/// The longest file name that PostgreSQL puts into the socket directory, in bytes.
const SOCKET_NAME_BYTES: usize = "/.s.PGSQL.65535".len();

/// The name of the superuser.
pub(crate) const SUPERUSER: &str = "postgres";

/// An initialised directory, ready to start a server in.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    socket: PathBuf,
    pub(crate) account: Account,
    pub(crate) binaries: Binaries,
    /// Removed with the server: a socket directory elsewhere, because the own path is too long.
    _short_socket: Option<TempDir>,
}

impl Directory {
    /// Opens `root`, and initialises it if it is new.
    pub(crate) fn open(root: &Path, places: &SearchPlaces) -> Result<Self, Error> {
        let account = Account::choose()?;
        let written_by = read_major(&root.join("data"))?;
        let binaries = match written_by {
            Some(major) => Binaries::find_major(places, major, &root.join("data"))?,
            None => Binaries::find(places)?,
        };
        account.create_private(root)?;
        let root = root.canonicalize().map_err(Error::io("resolve", root))?;
        let (socket, short_socket) = choose_socket(&root)?;
        account.create_private(&socket)?;
        let directory = Self { root, socket, account, binaries, _short_socket: short_socket };
        if written_by.is_none() {
            directory.initialise()?;
        }
        Ok(directory)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("postgres.log")
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The superuser's password, which only connections over TCP need.
    pub(crate) fn read_password(&self) -> Result<String, Error> {
        let path = self.root.join("password");
        let text = fs::read_to_string(&path).map_err(Error::io("read", path))?;
        Ok(text.trim().to_owned())
    }

    fn initialise(&self) -> Result<(), Error> {
        let fresh = self.root.join("data.new");
        if fresh.exists() {
            fs::remove_dir_all(&fresh).map_err(Error::io("remove", &fresh))?;
        }
        let password = self.write_password()?;
        let mut command = self.build_command("initdb");
        command
            .args(["--no-sync", "--encoding=UTF8", "--locale=C"])
            .args(["--auth-local=trust", "--auth-host=scram-sha-256"])
            .arg(format!("--username={SUPERUSER}"))
            .arg("--pwfile")
            .arg(password)
            .arg("--pgdata")
            .arg(&fresh);
        let output = command.output().map_err(Error::io("run", self.binaries.program("initdb")))?;
        if !output.status.success() {
            let printed = [output.stdout, output.stderr].concat();
            return Err(Error::Initialise {
                directory: self.data(),
                output: String::from_utf8_lossy(&printed).trim().replace('\n', "; "),
            });
        }
        fs::rename(&fresh, self.data()).map_err(Error::io("rename", &fresh))
    }

    fn write_password(&self) -> Result<PathBuf, Error> {
        let path = self.root.join("password");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .map_err(Error::io("create", &path))?;
        writeln!(file, "{:032x}", rand::random::<u128>()).map_err(Error::io("write", &path))?;
        self.account.give(&path)?;
        Ok(path)
    }

    /// A command for one of the binaries: as the account, in a directory that it may enter, and
    /// without the caller's own settings for PostgreSQL clients.
    pub(crate) fn build_command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.program(program));
        for (name, _) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C").current_dir(&self.root);
        self.account.apply(&mut command);
        command
    }
}

/// The major version that wrote `data`; `None` if there is none yet.
fn read_major(data: &Path) -> Result<Option<u32>, Error> {
    let path = data.join("PG_VERSION");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().parse().ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// `root/socket`, or, where clients could not use that, a directory of our own in a short place: a
/// path may be too long for the kernel, and libpq takes one with a comma for a list.
fn choose_socket(root: &Path) -> Result<(PathBuf, Option<TempDir>), Error> {
    let socket = root.join("socket");
    let path = socket.as_os_str().as_bytes();
    if path.len() + SOCKET_NAME_BYTES <= SOCKET_PATH_LIMIT_BYTES && !path.contains(&b',') {
        return Ok((socket, None));
    }
    let short = tempfile::Builder::new()
        .prefix("tenure-pg-")
        .tempdir_in("/tmp")
        .map_err(Error::io("create a directory in", "/tmp"))?;
    Ok((short.path().to_owned(), Some(short)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_moves_to_a_short_place_when_its_path_would_not_serve() {
        let fits = Path::new("/").join("d".repeat(84));
        let (socket, short) = choose_socket(&fits).unwrap();
        assert!(socket.starts_with(&fits) && short.is_none());
        let too_long = Path::new("/").join("d".repeat(85));
        let (socket, short) = choose_socket(&too_long).unwrap();
        assert_eq!(socket, short.unwrap().path());
        let (socket, short) = choose_socket(Path::new("/a,b")).unwrap();
        assert_eq!(socket, short.unwrap().path());
    }
}
