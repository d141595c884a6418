//! Where a worker keeps the files of its runs: a directory for their directories, and one with a short path for their
//! sockets, because the path of a socket may have 107 bytes. Where the data directory lies too deep for that, the sockets
//! are in a directory of their own among the host's temporary files, gone with the worker.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{options::WorkerOptions, runner::SOCKET_PATH_MAX_BYTES};

/// The most that the name of a socket adds to its directory: twelve digits, a dash, an epoch, and the slash before them.
const SOCKET_NAME_MAX_BYTES: usize = 34;
/// Others may pass through and list nothing: the child of another user reaches what is its own by its whole path.
const DIRECTORY_MODE: u32 = 0o711;

/// A directory that cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("the worker cannot make its directory {path:?}")]
pub struct PlacesError {
    /// Where.
    pub path: PathBuf,
    #[source]
    source: io::Error,
}

/// The directories of one worker.
#[derive(Debug)]
pub(crate) struct Places {
    runs: PathBuf,
    sockets: PathBuf,
    /// Removed when this is dropped.
    _temporary: Option<TempDir>,
}

impl Places {
    /// Makes what is missing.
    pub(crate) fn make(options: &WorkerOptions) -> Result<Self, PlacesError> {
        let data = std::path::absolute(&options.data_dir)
            .map_err(|source| PlacesError { path: options.data_dir.clone(), source })?;
        let (runs, sockets) = (data.join("runs"), data.join("s"));
        make_directory(&runs)?;
        if sockets.as_os_str().len() + SOCKET_NAME_MAX_BYTES <= SOCKET_PATH_MAX_BYTES {
            make_directory(&sockets)?;
            return Ok(Self { runs, sockets, _temporary: None });
        }
        let temporary = make_temporary()?;
        Ok(Self { runs, sockets: temporary.path().to_owned(), _temporary: Some(temporary) })
    }

    /// Where the directories of the runs are.
    pub(crate) fn runs(&self) -> &Path {
        &self.runs
    }

    /// Where the sockets of the runs are.
    pub(crate) fn sockets(&self) -> &Path {
        &self.sockets
    }
}

fn make_directory(path: &Path) -> Result<(), PlacesError> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
        .map_err(|source| PlacesError { path: path.to_owned(), source })
}

fn make_temporary() -> Result<TempDir, PlacesError> {
    tempfile::Builder::new()
        .prefix("tenure-")
        .permissions(std::fs::Permissions::from_mode(DIRECTORY_MODE))
        .tempdir()
        .map_err(|source| PlacesError { path: std::env::temp_dir(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(data_dir: PathBuf) -> WorkerOptions {
        WorkerOptions::new("w1", vec!["127.0.0.1:7420".to_owned()], data_dir)
    }

    #[test]
    fn sockets_lie_beside_the_runs_where_their_path_is_short_enough() {
        let data = tempfile::tempdir().unwrap();
        let places = Places::make(&options(data.path().join("d"))).unwrap();
        assert_eq!(places.sockets(), data.path().join("d/s"));
        assert!(places.runs().is_dir() && places.sockets().is_dir());
    }

    #[test]
    fn a_deep_data_directory_has_its_sockets_elsewhere() {
        let data = tempfile::tempdir().unwrap();
        let places = Places::make(&options(data.path().join("x".repeat(90)))).unwrap();
        assert!(places.sockets().as_os_str().len() + SOCKET_NAME_MAX_BYTES <= SOCKET_PATH_MAX_BYTES);
        let sockets = places.sockets().to_owned();
        drop(places);
        assert!(!sockets.exists(), "gone with the worker");
    }
}
