//! Directories of runs whose worker was killed before it could remove them. A worker looks through its own at its start
//! and removes those that nobody can need any more: older than a day, so that whoever looks for the reason has time, and
//! of processes that are known to be gone. What it cannot tell stays. It concludes nothing about a job: a run's end is
//! reported by its guardian, with a secret that is never written down.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use tenure_core::limits;
use tracing::{info, warn};

use crate::guardian::{Presence, find_presence, read_identity};

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
        let is_old = now.duration_since(modified).is_ok_and(|age| age > limits::LEFTOVER_RUN_KEPT);
        if is_old && is_gone(&entry.path()) {
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
