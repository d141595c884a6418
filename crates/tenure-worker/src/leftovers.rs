//! Directories and sockets of runs whose worker was killed before it could remove them. A worker looks through its own at its start
//! and removes those that nobody can need any more: older than a day, so that whoever looks for the reason has time, and
//! of processes that are known to be gone. What it cannot tell stays. It concludes nothing about a job: a run's end is
//! reported by its guardian, with a secret that is never written down.

use std::{
    fs, io,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
};
use tenure_core::limits;
use tracing::{info, warn};

use crate::guardian::{Presence, find_presence, read_identity};

/// Removes the sockets at which nobody listens any more. Returns how many that were.
pub(crate) fn remove_dead_sockets(sockets: &Path) -> usize {
    let found = match find_dead_sockets(sockets, SystemTime::now()) {
        Ok(found) => found,
        Err(error) => {
            warn!(%error, path = %sockets.display(), "the sockets of earlier runs could not be listed");
            return 0;
        }
    };
    found.iter().filter(|path| fs::remove_file(path).is_ok()).count()
}

/// Old ones alone: one that another worker has just made is not listened at for a moment.
fn find_dead_sockets(sockets: &Path, now: SystemTime) -> io::Result<Vec<PathBuf>> {
    let mut dead = Vec::new();
    for entry in fs::read_dir(sockets)? {
        let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        if metadata.file_type().is_socket() && is_old(metadata.modified()?, now) && is_dead(&path) {
            dead.push(path);
        }
    }
    Ok(dead)
}

/// Asks without waiting: one that is listened at may have no room for another connection.
fn is_dead(socket: &Path) -> bool {
    let refused = SocketAddrUnix::new(socket).and_then(|address| {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let asking = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok(connect(asking, &address) == Err(Errno::CONNREFUSED))
    });
    refused.unwrap_or(false)
}

fn is_old(modified: SystemTime, now: SystemTime) -> bool {
    now.duration_since(modified).is_ok_and(|age| age > limits::LEFTOVER_RUN_KEPT)
}

/// Removes what nobody can need any more. Returns how many directories that were.
pub(crate) fn remove_leftovers(runs: &Path) -> usize {
    let leftovers = match find_leftovers(runs, SystemTime::now()) {
        Ok(leftovers) => leftovers,
        Err(error) => {
            warn!(%error, path = %runs.display(), "the directories of earlier runs could not be listed");
            return 0;
        }
    };
    let removed = leftovers.iter().filter(|path| remove_leftover(path)).count();
    if removed > 0 {
        info!(removed, "directories of runs that a killed worker left behind were removed");
    }
    removed
}

fn remove_leftover(path: &Path) -> bool {
    let removed = fs::remove_dir_all(path);
    if let Err(error) = &removed {
        warn!(%error, path = %path.display(), "the directory of an earlier run could not be removed");
    }
    removed.is_ok()
}

fn find_leftovers(runs: &Path, now: SystemTime) -> io::Result<Vec<PathBuf>> {
    let mut leftovers = Vec::new();
    for entry in fs::read_dir(runs)? {
        let entry = entry?;
        let modified = entry.metadata()?.modified()?;
        if is_old(modified, now) && is_gone(&entry.path()) {
            leftovers.push(entry.path());
        }
    }
    Ok(leftovers)
}

/// A run that left no identity never had a child.
fn is_gone(run: &Path) -> bool {
    match read_identity(run) {
        Ok(identity) => find_presence(&identity) == Presence::Gone,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::guardian::IDENTITY_FILE;

    fn make_run(runs: &Path, name: &str, is_old: bool) -> PathBuf {
        let path = runs.join(name);
        fs::create_dir(&path).unwrap();
        if is_old {
            age(&path);
        }
        path
    }

    fn age(path: &Path) {
        let then = SystemTime::now() - limits::LEFTOVER_RUN_KEPT * 2;
        File::open(path).unwrap().set_modified(then).unwrap();
    }

    #[test]
    fn a_socket_goes_once_it_is_old_and_nobody_listens() {
        let sockets = tempfile::tempdir().unwrap();
        let path = |name: &str| sockets.path().join(name);
        let bind = |name: &str| std::os::unix::net::UnixListener::bind(path(name)).unwrap();
        let _live = bind("live");
        for name in ["dead", "fresh"] {
            drop(bind(name));
        }
        fs::write(path("file"), "no socket").unwrap();
        let later = SystemTime::now() + limits::LEFTOVER_RUN_KEPT * 2;
        assert_eq!(find_dead_sockets(sockets.path(), later).unwrap().len(), 2, "both of the dead ones");
        assert_eq!(remove_dead_sockets(sockets.path()), 0, "younger than a day");
        let then = nix::sys::time::TimeSpec::new(1, 0);
        nix::sys::stat::utimensat(
            nix::fcntl::AT_FDCWD,
            &path("dead"),
            &then,
            &then,
            nix::sys::stat::UtimensatFlags::NoFollowSymlink,
        )
        .unwrap();
        assert_eq!(remove_dead_sockets(sockets.path()), 1);
        assert!(!path("dead").exists() && path("live").exists() && path("fresh").exists());
    }

    #[test]
    fn only_old_directories_of_processes_that_are_gone_are_removed() {
        let runs = tempfile::tempdir().unwrap();
        let fresh = make_run(runs.path(), "fresh", false);
        let old = make_run(runs.path(), "old", true);
        let unreadable = make_run(runs.path(), "unreadable", false);
        fs::write(unreadable.join(IDENTITY_FILE), "no identity").unwrap();
        age(&unreadable);
        assert_eq!(remove_leftovers(runs.path()), 1);
        assert!(fresh.exists(), "younger than a day");
        assert!(!old.exists());
        assert!(unreadable.exists(), "nobody knows whose it is");
    }
}
