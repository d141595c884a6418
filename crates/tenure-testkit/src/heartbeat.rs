//! Heartbeat files: what the children of agents write themselves, so that it can be told afterwards when each was alive. One
//! file for each run, one line for each beat: the wall clock of the host in nanoseconds.
//!
//! Promises that a beat comes from a process that left the session of its child, which is the one that a careless end
//! leaves behind. Does not compare clocks of different hosts: everything that beats here runs on one kernel.
//! Neighbours: `history` holds the beats beside the journal.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use uuid::Uuid;

/// What an agent's script begins with, so that its runs beat. It wants the variable `HEARTBEATS`, the directory; `HEARTBEAT_S`
/// is how many seconds pass between two beats, 0.05 where it is not set: a beat costs two processes.
pub const HEARTBEAT_SCRIPT: &str = r#"
beats="$HEARTBEATS/$TENURE_JOB.$TENURE_RUN"
date +%s%N >> "$beats"
setsid sh -c 'while :; do date +%s%N >> "$1"; sleep "${HEARTBEAT_S:-0.05}"; done' beats "$beats" &
"#;

/// When the child of one run was alive, in nanoseconds of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beats {
    /// The first beat.
    pub first_ns: u64,
    /// The last.
    pub last_ns: u64,
}

/// A directory of heartbeat files.
#[derive(Debug, Clone)]
pub struct Heartbeats {
    directory: PathBuf,
}

impl Heartbeats {
    /// Those in this directory.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Where they are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The beats of one run; none where its child never wrote one. A last line that a kill cut short is no beat.
    ///
    /// # Errors
    /// The file cannot be read, or a whole line in it is no time.
    pub fn read(&self, job: Uuid, run: u32) -> Result<Option<Beats>> {
        let path = self.directory.join(format!("{job}.{run}"));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let times: Vec<u64> = whole
            .lines()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("{} holds a line that is no time", path.display()))?;
        let ends = times.iter().min().copied().zip(times.iter().max().copied());
        Ok(ends.map(|(first_ns, last_ns)| Beats { first_ns, last_ns }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_whole_line_are_the_beats() {
        let directory = tempfile::tempdir().unwrap();
        let beats = Heartbeats::new(directory.path());
        let job = Uuid::from_u128(7);
        assert_eq!(beats.read(job, 1).unwrap(), None);
        fs::write(directory.path().join(format!("{job}.1")), "20\n10\n30\n9").unwrap();
        assert_eq!(beats.read(job, 1).unwrap(), Some(Beats { first_ns: 10, last_ns: 30 }));
        fs::write(directory.path().join(format!("{job}.2")), "ten\n").unwrap();
        assert!(beats.read(job, 2).is_err());
    }
}
