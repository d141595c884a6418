//! What a guardian leaves in the run directory: who runs there, and how it ended where nobody took the report.
//!
//! Owns the two files and their writing: mode 0600, complete or absent, and never through a link that the child
//! may have put there, because the directory belongs to the run's user. They bear no secret.
//! [`find_presence`] is what a host that came back may conclude from the first: another boot of the same machine,
//! or the same boot and namespace without those processes, is *gone*; anything else is unknown.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use super::descendants::{is_alive, read_process};

/// Who runs in a run directory.
pub const IDENTITY_FILE: &str = "identity.json";
/// How a run ended whose guardian could not report it.
pub const OUTCOME_FILE: &str = "gone.json";

/// One process on one boot of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// As seen from the guardian's PID namespace.
    pub pid: i32,
    /// In clock ticks since the boot.
    pub start_time_ticks: u64,
}

/// The processes of a run and where they run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunIdentity {
    /// `/etc/machine-id`. Absent: the host has none.
    pub machine_id: Option<String>,
    /// The kernel's id of this boot.
    pub boot_id: Option<String>,
    /// The inode of the PID namespace in which the numbers hold.
    pub pid_namespace: Option<u64>,
    /// The agent's process.
    pub child: ProcessMark,
    /// PID 1 of the run's own namespace. Absent under guardian fencing.
    pub init: Option<ProcessMark>,
    /// The guardian.
    pub guardian: ProcessMark,
}

/// What can be concluded about a run whose worker came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Its processes are known to be gone.
    Gone,
    /// At least one of them is there.
    Present,
    /// This is another machine, or another namespace, or the host does not say.
    Unknown,
}

impl RunIdentity {
    /// Of a run that this process guards.
    pub(super) fn of_run(child: ProcessMark, init: Option<ProcessMark>) -> Self {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        Self {
            machine_id: read_line("/etc/machine-id"),
            boot_id: read_line("/proc/sys/kernel/random/boot_id"),
            pid_namespace: fs::metadata("/proc/self/ns/pid").ok().map(|metadata| metadata.ino()),
            child,
            init,
            guardian: mark_process(own),
        }
    }
}

/// Reads what a guardian of this process's user left: the directory may be another user's, and what that one wrote there
/// says nothing. An error of kind `NotFound`: none got so far as to start a child there.
pub fn read_identity(run_directory: &Path) -> io::Result<RunIdentity> {
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(run_directory.join(IDENTITY_FILE))?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.uid() != geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the identity was not written by a guardian of ours",
        ));
    }
    serde_json::from_reader(io::Read::take(file, 64 * 1024)).map_err(io::Error::from)
}

/// Looks whether the run is still here.
pub fn find_presence(identity: &RunIdentity) -> Presence {
    let here = RunIdentity::of_run(identity.child, identity.init);
    let same_machine = identity.machine_id.is_some() && identity.machine_id == here.machine_id;
    let same_boot = identity.boot_id.is_some() && identity.boot_id == here.boot_id;
    let same_namespace = identity.pid_namespace.is_some() && identity.pid_namespace == here.pid_namespace;
    match (same_machine, same_boot, same_namespace) {
        (true, false, _) if identity.boot_id.is_some() && here.boot_id.is_some() => Presence::Gone,
        (true, true, true) if !is_any_alive(identity) => Presence::Gone,
        (true, true, true) => Presence::Present,
        _ => Presence::Unknown,
    }
}

fn is_any_alive(identity: &RunIdentity) -> bool {
    [Some(identity.child), identity.init, Some(identity.guardian)]
        .into_iter()
        .flatten()
        .any(|mark| is_alive(mark.pid, mark.start_time_ticks))
}

/// A process with the time of its start; zero where it is already gone.
pub(super) fn mark_process(pid: i32) -> ProcessMark {
    ProcessMark { pid, start_time_ticks: read_process(pid).map_or(0, |process| process.start_time_ticks) }
}

pub(super) fn write_identity(run_directory: &Path, identity: &RunIdentity) -> io::Result<()> {
    write_private(run_directory, IDENTITY_FILE, &serde_json::to_vec_pretty(identity)?)
}

/// Complete or absent, and never through a link.
pub(crate) fn write_private(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = directory.join(format!(".{name}.new"));
    match fs::remove_file(&temporary) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, directory.join(name))
}

fn read_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_identity() -> RunIdentity {
        let own = mark_process(i32::try_from(std::process::id()).unwrap());
        RunIdentity { machine_id: Some("m".to_owned()), ..RunIdentity::of_run(own, None) }
    }

    /// As on a host that has a machine id, whatever this one has.
    fn on_this_machine(mut identity: RunIdentity) -> Option<RunIdentity> {
        identity.machine_id = Some(read_line("/etc/machine-id")?);
        Some(identity)
    }

    #[test]
    fn a_running_process_is_present_and_a_reused_number_is_not() {
        let Some(mut identity) = on_this_machine(own_identity()) else {
            assert_eq!(find_presence(&own_identity()), Presence::Unknown);
            return;
        };
        assert_eq!(find_presence(&identity), Presence::Present);
        identity.child.start_time_ticks += 1;
        identity.guardian.start_time_ticks += 1;
        assert_eq!(find_presence(&identity), Presence::Gone);
    }

    #[test]
    fn another_boot_of_this_machine_is_gone_and_another_machine_is_unknown() {
        let mut elsewhere = own_identity();
        elsewhere.machine_id = Some("another".to_owned());
        assert_eq!(find_presence(&elsewhere), Presence::Unknown);
        if let Some(mut earlier) = on_this_machine(own_identity()) {
            earlier.boot_id = Some("earlier".to_owned());
            assert_eq!(find_presence(&earlier), Presence::Gone);
        }
    }

    #[test]
    fn an_identity_that_another_user_wrote_is_not_read() {
        if !geteuid().is_root() {
            println!("skipped: only root can give a file away");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let identity = own_identity();
        write_identity(directory.path(), &identity).unwrap();
        assert_eq!(read_identity(directory.path()).unwrap(), identity);
        std::os::unix::fs::chown(directory.path().join(IDENTITY_FILE), Some(65_534), None).unwrap();
        assert_eq!(read_identity(directory.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_file_replaces_a_link_instead_of_following_it() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        fs::write(&target, "untouched").unwrap();
        std::os::unix::fs::symlink(&target, directory.path().join(OUTCOME_FILE)).unwrap();
        write_private(directory.path(), OUTCOME_FILE, b"{}").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
        let metadata = fs::symlink_metadata(directory.path().join(OUTCOME_FILE)).unwrap();
        assert!(metadata.is_file());
        assert_eq!(metadata.mode() & 0o777, 0o600);
    }
}
