//! The directory of one run: what the child is given, and what it leaves as its result.
//!
//! Owns the files' names, their modes and the order of making them. The directory has mode 0700 and belongs to the
//! run's user; the worker therefore reads nothing there that could be a link, a pipe or somebody else's file.
//! Does not decide when it is removed: the executor does, after the end is acknowledged.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, fchown};
use std::path::{Path, PathBuf};

use nix::libc::{ELOOP, O_NOFOLLOW, O_NONBLOCK};
use tenure_core::limits::{BLOB_CHUNK_MAX_BYTES, BLOB_MAX_BYTES};
use thiserror::Error;

use super::RunUser;

/// What a child reads whose agent has a payload, below its run's directory.
pub const PAYLOAD_FILE: &str = "payload";

/// The longest path of a unix socket on Linux, without its final zero.
pub const SOCKET_PATH_MAX_BYTES: usize = 107;

/// What a run is given.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunFiles<'a> {
    /// The raw input.
    pub input: &'a [u8],
    /// A file of the worker's own that becomes the input, instead of `input`; on the same file system.
    pub staged_input: Option<&'a Path>,
    /// The handover, as JSON.
    pub handover: &'a [u8],
    /// The handover for a prompt.
    pub brief: &'a str,
    /// What the child reads before the input, where it reads a payload.
    pub preamble: Option<&'a str>,
}

/// A run's directory, made and filled.
#[derive(Debug, Clone)]
pub struct RunDirectory {
    path: PathBuf,
    uid: Option<u32>,
}

/// Why a run's files could not be made or read.
#[derive(Debug, Error)]
pub enum RunDirectoryError {
    /// A file or the directory.
    #[error("cannot write {path:?} for the run")]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// What the host says.
        #[source]
        source: io::Error,
    },
    /// The path of a run's socket.
    #[error(
        "the socket path {path:?} has {length_bytes} bytes, and a socket allows {limit_bytes}: choose a shorter directory"
    )]
    SocketPathTooLong {
        /// Which.
        path: PathBuf,
        /// Its length.
        length_bytes: usize,
        /// What a socket allows.
        limit_bytes: usize,
    },
    /// The child wrote more than a result may have.
    #[error("the result has {length_bytes} bytes, and {limit_bytes} are allowed")]
    ResultTooLarge {
        /// At least so long.
        length_bytes: u64,
        /// What is allowed.
        limit_bytes: u64,
    },
    /// The child left something else than a file of its own.
    #[error("the result {path:?} is not a plain file of the run's user")]
    ResultNotAFile {
        /// Where.
        path: PathBuf,
    },
    /// It is there, and cannot be read.
    #[error("cannot read the result {path:?}")]
    ResultUnreadable {
        /// Where.
        path: PathBuf,
        /// What the host says.
        #[source]
        source: io::Error,
    },
}

impl RunDirectory {
    /// Makes the directory anew (one of an earlier run of that name is removed) and writes the files.
    pub fn create(
        path: PathBuf,
        files: &RunFiles<'_>,
        user: Option<&RunUser>,
    ) -> Result<Self, RunDirectoryError> {
        let unwritable = |source| RunDirectoryError::Unwritable { path: path.clone(), source };
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritable(error)),
            Ok(()) | Err(_) => {}
        }
        DirBuilder::new().mode(0o700).recursive(false).create(&path).map_err(unwritable)?;
        let directory = Self { path, uid: user.map(|user| user.uid) };
        match files.staged_input {
            Some(staged) => directory.take_file("input", staged, user)?,
            None => drop(directory.write_file("input", files.input, user)?),
        }
        directory.write_file("handover.json", files.handover, user)?;
        directory.write_file("brief.txt", files.brief.as_bytes(), user)?;
        if let Some(preamble) = files.preamble {
            directory.write_payload(preamble, user)?;
        }
        // Last, and by its path: what it is in belongs to the worker, and until here it does, too.
        if let Some(user) = user {
            chown(&directory.path, Some(user.uid), Some(user.gid))
                .map_err(|source| RunDirectoryError::Unwritable { path: directory.path.clone(), source })?;
        }
        Ok(directory)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `TENURE_INPUT`, `TENURE_HANDOVER`, `TENURE_BRIEF` and `TENURE_RESULT`.
    pub fn compose_variables(&self) -> BTreeMap<String, String> {
        [
            ("TENURE_INPUT", "input"),
            ("TENURE_HANDOVER", "handover.json"),
            ("TENURE_BRIEF", "brief.txt"),
            ("TENURE_RESULT", "result"),
        ]
        .map(|(name, file)| (name.to_owned(), self.path.join(file).to_string_lossy().into_owned()))
        .into()
    }

    /// What the child reads, and behind it the input, which may be large.
    fn write_payload(&self, preamble: &str, user: Option<&RunUser>) -> Result<(), RunDirectoryError> {
        let path = self.write_file(PAYLOAD_FILE, preamble.as_bytes(), user)?;
        let copied = File::options().append(true).open(&path).and_then(|mut payload| {
            let mut input = File::open(self.path.join("input"))?;
            io::copy(&mut input, &mut payload)
        });
        copied.map(drop).map_err(|source| RunDirectoryError::Unwritable { path, source })
    }

    /// Adds a file that the child may read.
    pub fn write_file(
        &self,
        name: &str,
        bytes: &[u8],
        user: Option<&RunUser>,
    ) -> Result<PathBuf, RunDirectoryError> {
        write_run_file(&self.path, name, bytes, user)
    }

    /// Makes a file of the worker's own one of the run's.
    fn take_file(&self, name: &str, staged: &Path, user: Option<&RunUser>) -> Result<(), RunDirectoryError> {
        let path = self.path.join(name);
        let taken = File::open(staged).and_then(|file| {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            user.map_or(Ok(()), |user| fchown(&file, Some(user.uid), Some(user.gid)))?;
            fs::rename(staged, &path)
        });
        taken.map_err(|source| RunDirectoryError::Unwritable { path, source })
    }

    /// Opens what the child left in `TENURE_RESULT`. `None`: nothing.
    pub fn open_result(&self) -> Result<Option<ResultFile>, RunDirectoryError> {
        open_result(&self.path.join("result"), self.uid)
    }

    /// Removes it with all that is in it.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(self.path)
    }
}

/// Writes the text of a script agent, and gives its path.
pub(super) fn write_script(
    directory: &Path,
    text: &str,
    user: Option<&RunUser>,
) -> Result<String, RunDirectoryError> {
    // One of an earlier process of the same run may be there.
    let _ = fs::remove_file(directory.join("script"));
    let path = write_run_file(directory, "script", text.as_bytes(), user)?;
    Ok(path.to_string_lossy().into_owned())
}

/// Writes a new file of mode 0600, never through something that is already there, and gives it to the run's user. What is
/// given is the file that was written, whatever its name leads to by then: the directory may be that user's already.
fn write_run_file(
    directory: &Path,
    name: &str,
    bytes: &[u8],
    user: Option<&RunUser>,
) -> Result<PathBuf, RunDirectoryError> {
    let path = directory.join(name);
    let written =
        File::options().write(true).create_new(true).mode(0o600).open(&path).and_then(|mut file| {
            file.write_all(bytes)?;
            user.map_or(Ok(()), |user| fchown(&file, Some(user.uid), Some(user.gid)))
        });
    match written {
        Ok(()) => Ok(path),
        Err(source) => Err(RunDirectoryError::Unwritable { path, source }),
    }
}

/// A result that is to be read, which may grow while it is.
#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
    file: File,
}

impl ResultFile {
    /// Reads it in pieces, and hands each on. Refuses it once it is too large.
    pub fn read_pieces(
        mut self,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), RunDirectoryError> {
        let unreadable = |source| RunDirectoryError::ResultUnreadable { path: self.path.clone(), source };
        let mut piece = vec![0; BLOB_CHUNK_MAX_BYTES];
        let mut read_bytes = 0_u64;
        loop {
            let length = self.file.read(&mut piece).map_err(unreadable)?;
            if length == 0 {
                return Ok(());
            }
            read_bytes += length as u64;
            if read_bytes > BLOB_MAX_BYTES {
                let length_bytes =
                    self.file.metadata().map_or(read_bytes, |found| found.len().max(read_bytes));
                return Err(RunDirectoryError::ResultTooLarge { length_bytes, limit_bytes: BLOB_MAX_BYTES });
            }
            take(&piece[..length]).map_err(unreadable)?;
        }
    }
}

/// Opens a result without following a link or waiting for a pipe. `uid`: whose file it must be, where the worker is another
/// user than the child.
pub fn open_result(path: &Path, uid: Option<u32>) -> Result<Option<ResultFile>, RunDirectoryError> {
    let unreadable = |source| RunDirectoryError::ResultUnreadable { path: path.to_owned(), source };
    let not_a_file = || RunDirectoryError::ResultNotAFile { path: path.to_owned() };
    let file = match File::options().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // What O_NOFOLLOW says to a link.
        Err(error) if error.raw_os_error() == Some(ELOOP) => return Err(not_a_file()),
        Err(error) => return Err(unreadable(error)),
    };
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() || uid.is_some_and(|uid| metadata.uid() != uid) {
        return Err(not_a_file());
    }
    Ok(Some(ResultFile { path: path.to_owned(), file }))
}

/// Refuses a path that no socket can have, before anything is started.
pub fn ensure_socket_path(path: &Path) -> Result<(), RunDirectoryError> {
    let length_bytes = path.as_os_str().len();
    if length_bytes <= SOCKET_PATH_MAX_BYTES {
        return Ok(());
    }
    let path = path.to_owned();
    Err(RunDirectoryError::SocketPathTooLong { path, length_bytes, limit_bytes: SOCKET_PATH_MAX_BYTES })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(files: &RunFiles<'_>) -> (tempfile::TempDir, RunDirectory) {
        let parent = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(parent.path().join("run"), files, None).unwrap();
        (parent, directory)
    }

    #[test]
    fn a_payload_is_what_is_told_and_then_the_input_however_it_came() {
        let parent = tempfile::tempdir().unwrap();
        let large = vec![b'x'; 1_000_000];
        let staged = parent.path().join("staged");
        fs::write(&staged, &large).unwrap();
        let preamble = Some("who you are\n");
        for (files, input) in [
            (RunFiles { input: b"in", preamble, ..RunFiles::default() }, &b"in"[..]),
            (RunFiles { staged_input: Some(&staged), preamble, ..RunFiles::default() }, &large),
        ] {
            let (_parent, directory) = make(&files);
            let payload = directory.path().join(PAYLOAD_FILE);
            assert!(fs::read(&payload).unwrap() == [b"who you are\n", input].concat());
            assert_eq!(fs::metadata(&payload).unwrap().mode() & 0o777, 0o600);
        }
        let (_parent, directory) = make(&RunFiles { input: b"in", ..RunFiles::default() });
        assert!(!directory.path().join(PAYLOAD_FILE).exists());
    }

    #[test]
    fn a_run_finds_its_files_and_nobody_else_may_look() {
        let files =
            RunFiles { input: b"in", staged_input: None, handover: b"{}", brief: "brief", preamble: None };
        let (_parent, directory) = make(&files);
        let variables = directory.compose_variables();
        assert_eq!(fs::read(&variables["TENURE_INPUT"]).unwrap(), b"in");
        assert_eq!(fs::read(&variables["TENURE_HANDOVER"]).unwrap(), b"{}");
        assert_eq!(fs::read(&variables["TENURE_BRIEF"]).unwrap(), b"brief");
        assert!(!Path::new(&variables["TENURE_RESULT"]).exists());
        assert_eq!(fs::metadata(directory.path()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&variables["TENURE_INPUT"]).unwrap().mode() & 0o777, 0o600);
    }

    fn read(directory: &RunDirectory) -> Result<Option<usize>, RunDirectoryError> {
        let mut length = 0;
        let Some(result) = directory.open_result()? else { return Ok(None) };
        result.read_pieces(|piece| {
            length += piece.len();
            Ok(())
        })?;
        Ok(Some(length))
    }

    #[test]
    fn an_absent_result_is_none_and_a_large_one_names_both_sizes() {
        let (_parent, directory) = make(&RunFiles::default());
        assert_eq!(read(&directory).unwrap(), None);
        let size = usize::try_from(BLOB_MAX_BYTES).unwrap();
        fs::write(directory.path().join("result"), vec![b'x'; size]).unwrap();
        assert_eq!(read(&directory).unwrap(), Some(size));
        fs::write(directory.path().join("result"), vec![b'x'; size + 7]).unwrap();
        let message = read(&directory).unwrap_err().to_string();
        assert_eq!(message, "the result has 67108871 bytes, and 67108864 are allowed");
    }

    #[test]
    fn a_staged_input_becomes_a_file_of_the_run() {
        let parent = tempfile::tempdir().unwrap();
        let staged = parent.path().join("staged");
        fs::write(&staged, "large").unwrap();
        let files = RunFiles { staged_input: Some(&staged), ..RunFiles::default() };
        let directory = RunDirectory::create(parent.path().join("run"), &files, None).unwrap();
        let input = directory.path().join("input");
        assert_eq!(fs::read(&input).unwrap(), b"large");
        assert_eq!(fs::metadata(&input).unwrap().mode() & 0o777, 0o600);
        assert!(!staged.exists());
    }

    #[test]
    fn a_result_that_is_a_link_or_a_pipe_is_refused() {
        let (_parent, directory) = make(&RunFiles { input: b"in", ..RunFiles::default() });
        let result = directory.path().join("result");
        std::os::unix::fs::symlink(directory.path().join("input"), &result).unwrap();
        assert!(matches!(directory.open_result(), Err(RunDirectoryError::ResultNotAFile { .. })));
        fs::remove_file(&result).unwrap();
        nix::unistd::mkfifo(&result, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(matches!(directory.open_result(), Err(RunDirectoryError::ResultNotAFile { .. })));
    }

    #[test]
    fn a_result_of_somebody_else_is_refused() {
        let (_parent, directory) = make(&RunFiles::default());
        let result = directory.path().join("result");
        fs::write(&result, "x").unwrap();
        let stranger = fs::metadata(&result).unwrap().uid() + 1;
        assert!(matches!(
            open_result(&result, Some(stranger)),
            Err(RunDirectoryError::ResultNotAFile { .. })
        ));
    }

    #[test]
    fn a_socket_path_is_bounded_before_it_is_used() {
        let fits = PathBuf::from("/".repeat(SOCKET_PATH_MAX_BYTES));
        ensure_socket_path(&fits).unwrap();
        let message = ensure_socket_path(&fits.join("x")).unwrap_err().to_string();
        assert!(message.contains("108 bytes") && message.contains("107"), "{message}");
    }
}
