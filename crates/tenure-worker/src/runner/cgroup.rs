//! The cgroups of one run: memory and cpu limits, and `cgroup.kill`.
//!
//! Owns directories named after the run, below the cgroups that the worker is in: in cgroup v2 where it has the
//! controllers, else in the v1 hierarchies `memory` and `cpu`. Made by the guardian before it forks, removed by it
//! when the group is empty; the worker finds them again by name where the guardian was killed.
//!
//! A host without those controllers limits nothing: that is not an error, [`find_limit_support`] says it, and
//! the worker logs it once. In v2 a cgroup that has processes of its own cannot limit children: run the worker in a
//! leaf of a delegated cgroup (systemd: `Delegate=yes` and `DelegateSubgroup=worker`), and its parent is used.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a child may use, with all its descendants together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Memory. Absent: unlimited.
    pub memory_bytes: Option<u64>,
    /// Processor time, in cores. Absent: unlimited.
    pub cpu_cores: Option<f64>,
}

impl ResourceLimits {
    /// Warns, once in a process, of a limit that is asked for and cannot be set here.
    pub(super) fn warn_if_unsupported(&self, support: LimitSupport) {
        static WARNED: Once = Once::new();
        let memory = self.memory_bytes.is_some() && !support.memory;
        let cpu = self.cpu_cores.is_some() && !support.cpu;
        if memory || cpu {
            WARNED.call_once(|| {
                tracing::warn!(
                    memory,
                    cpu,
                    "agents limit what this host has no cgroups for: they run without"
                );
            });
        }
    }
}

/// Which limits this host can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSupport {
    /// Whether memory can be limited.
    pub memory: bool,
    /// Whether processor time can be limited.
    pub cpu: bool,
}

/// What the name of every run's directory begins with.
const DIRECTORY_PREFIX: &str = "tenure-";
/// An empty directory of that age is nobody's.
const STALE_AFTER: Duration = Duration::from_secs(60);
/// The period over which processor time is counted.
const CPU_PERIOD_MICROSECONDS: u64 = 100_000;
/// The least quota that the kernel takes.
const CPU_QUOTA_MIN_MICROSECONDS: u64 = 1_000;

/// What one directory limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// cgroup v2: both, where the controllers are there, and `cgroup.kill`.
    Unified,
    /// cgroup v1, hierarchy `memory`.
    Memory,
    /// cgroup v1, hierarchy `cpu`.
    Cpu,
}

/// A place below which directories for runs can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    kind: Kind,
    directory: PathBuf,
}

/// The directories of one run.
#[derive(Debug, Clone)]
pub(crate) struct RunCgroup {
    directories: Vec<(Kind, PathBuf)>,
    /// A process that cannot be put there is refused, rather than run without the limits it was promised.
    limited: bool,
}

impl RunCgroup {
    /// Makes what this host allows. Fails only where a limit that the host has cannot be set.
    pub(crate) fn create(run_name: &str, limits: &ResourceLimits) -> io::Result<Self> {
        let mut cgroup = Self { directories: Vec::new(), limited: false };
        for place in find_places() {
            let wanted = match place.kind {
                Kind::Unified => true,
                Kind::Memory => limits.memory_bytes.is_some(),
                Kind::Cpu => limits.cpu_cores.is_some(),
            };
            let directory = place.directory.join(directory_name(run_name));
            if !wanted || !make_directory(&directory) {
                continue;
            }
            cgroup.directories.push((place.kind, directory.clone()));
            match set_limits(place.kind, &directory, limits) {
                Ok(limited) => cgroup.limited |= limited,
                Err(error) => {
                    cgroup.remove();
                    return Err(error);
                }
            }
        }
        Ok(cgroup)
    }

    /// Those of a run that somebody else made.
    pub(crate) fn find(run_name: &str) -> Self {
        let directories = find_places()
            .into_iter()
            .map(|place| (place.kind, place.directory.join(directory_name(run_name))))
            .filter(|(_, directory)| directory.is_dir())
            .collect();
        Self { directories, limited: false }
    }

    /// Puts a process, and all that it will fork, into them.
    pub(crate) fn add_process(&self, pid: i32) -> io::Result<()> {
        for (_, directory) in &self.directories {
            let added = fs::write(directory.join("cgroup.procs"), pid.to_string());
            if self.limited {
                added?;
            }
        }
        Ok(())
    }

    /// Whoever is in one of them, in the caller's PID namespace.
    pub(crate) fn list_processes(&self) -> Vec<i32> {
        self.directories
            .iter()
            .filter_map(|(_, directory)| fs::read_to_string(directory.join("cgroup.procs")).ok())
            .flat_map(|list| list.lines().filter_map(|line| line.parse().ok()).collect::<Vec<i32>>())
            .filter(|pid| *pid > 0)
            .collect()
    }

    /// SIGKILL to everybody at once, where the kernel has `cgroup.kill`.
    pub(crate) fn kill_all(&self) {
        for (_, directory) in self.directories.iter().filter(|(kind, _)| *kind == Kind::Unified) {
            // Kernels before 5.14 do not have it; then every process is signalled by itself.
            let _ = fs::write(directory.join("cgroup.kill"), "1");
        }
    }

    /// Removes them. The last process may be counted for a moment after it was reaped.
    pub(crate) fn remove(&self) {
        for (_, directory) in &self.directories {
            for _ in 0..50 {
                match fs::remove_dir(directory) {
                    Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    Ok(()) | Err(_) => break,
                }
            }
        }
    }
}

/// What this host can limit, tried once with directories that are removed again.
pub fn find_limit_support() -> LimitSupport {
    static PROBES: AtomicU32 = AtomicU32::new(0);
    let name = format!("probe-{}-{}", std::process::id(), PROBES.fetch_add(1, Ordering::Relaxed));
    let limits = ResourceLimits { memory_bytes: Some(64 * 1024 * 1024), cpu_cores: Some(1.0) };
    let Ok(cgroup) = RunCgroup::create(&name, &limits) else {
        return LimitSupport { memory: false, cpu: false };
    };
    let has = |kind, file: &str| cgroup.directories.iter().any(|(k, d)| *k == kind && d.join(file).exists());
    let support = LimitSupport {
        memory: has(Kind::Memory, "memory.limit_in_bytes") || has(Kind::Unified, "memory.max"),
        cpu: has(Kind::Cpu, "cpu.cfs_quota_us") || has(Kind::Unified, "cpu.max"),
    };
    cgroup.remove();
    support
}

/// Removes those of runs whose worker and guardian were both killed. One with processes cannot be removed; one that is
/// young may be somebody's that is about to start.
pub(super) fn remove_stale_cgroups() {
    for place in find_places() {
        let Ok(entries) = fs::read_dir(&place.directory) else { continue };
        for entry in entries.flatten() {
            let ours = entry.file_name().to_string_lossy().starts_with(DIRECTORY_PREFIX);
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            let old = changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE_AFTER));
            if ours && old {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

fn directory_name(run_name: &str) -> String {
    format!("{DIRECTORY_PREFIX}{run_name}")
}

fn make_directory(directory: &Path) -> bool {
    match fs::create_dir(directory) {
        Ok(()) => true,
        Err(error) => error.kind() == ErrorKind::AlreadyExists,
    }
}

/// True where at least one limit is in force.
fn set_limits(kind: Kind, directory: &Path, limits: &ResourceLimits) -> io::Result<bool> {
    let mut limited = false;
    if let Some(memory_bytes) = limits.memory_bytes {
        match kind {
            Kind::Memory => {
                fs::write(directory.join("memory.limit_in_bytes"), memory_bytes.to_string())?;
                // Absent where swap is not accounted for.
                write_if_present(&directory.join("memory.memsw.limit_in_bytes"), &memory_bytes.to_string())?;
                limited = true;
            }
            Kind::Unified => {
                limited |= write_if_present(&directory.join("memory.max"), &memory_bytes.to_string())?;
                write_if_present(&directory.join("memory.swap.max"), "0")?;
            }
            Kind::Cpu => {}
        }
    }
    if let Some(quota) = limits.cpu_cores.map(cpu_quota_microseconds) {
        match kind {
            Kind::Cpu => {
                fs::write(directory.join("cpu.cfs_period_us"), CPU_PERIOD_MICROSECONDS.to_string())?;
                fs::write(directory.join("cpu.cfs_quota_us"), quota.to_string())?;
                limited = true;
            }
            Kind::Unified => {
                let value = format!("{quota} {CPU_PERIOD_MICROSECONDS}");
                limited |= write_if_present(&directory.join("cpu.max"), &value)?;
            }
            Kind::Memory => {}
        }
    }
    Ok(limited)
}

fn write_if_present(file: &Path, value: &str) -> io::Result<bool> {
    if !file.exists() {
        return Ok(false);
    }
    fs::write(file, value).map(|()| true)
}

fn cpu_quota_microseconds(cores: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the range just before"
    )]
    let quota = (cores.clamp(0.0, 100_000.0) * 100_000.0).round() as u64;
    quota.max(CPU_QUOTA_MIN_MICROSECONDS)
}

/// Where directories for runs may go: in each hierarchy below the worker's own cgroup, and in v2, where that one
/// cannot hand its controllers on, below its parent.
fn find_places() -> Vec<Place> {
    let (Ok(mounts), Ok(own)) =
        (fs::read_to_string("/proc/self/mountinfo"), fs::read_to_string("/proc/self/cgroup"))
    else {
        return Vec::new();
    };
    let mut places = Vec::new();
    for (kind, mount_point, root) in parse_mounts(&mounts) {
        let Some(path) = find_own_path(&own, kind) else { continue };
        // Inside a container the mount shows a part of the tree; what lies outside of it cannot be used.
        let Some(relative) = path.strip_prefix(root.trim_end_matches('/')) else { continue };
        let directory = mount_point.join(relative.trim_start_matches('/'));
        places.push(Place {
            kind,
            directory: if kind == Kind::Unified { choose_unified(directory) } else { directory },
        });
    }
    places
}

/// Hands the controllers on to children, here or in the parent; without them the place still has `cgroup.kill`.
fn choose_unified(own: PathBuf) -> PathBuf {
    let hand_on = |directory: &Path| {
        let control = directory.join("cgroup.subtree_control");
        let has = |list: &str| list.contains("memory") && list.contains("cpu");
        fs::read_to_string(directory.join("cgroup.controllers")).is_ok_and(|list| has(&list))
            && (fs::read_to_string(&control).is_ok_and(|list| has(&list))
                || fs::write(&control, "+memory +cpu").is_ok())
    };
    if hand_on(&own) {
        return own;
    }
    match own.parent() {
        Some(parent) if parent.join("cgroup.procs").exists() && hand_on(parent) => parent.to_owned(),
        _ => own,
    }
}

/// (kind, mount point, root of the mount) of each hierarchy of interest.
fn parse_mounts(mountinfo: &str) -> Vec<(Kind, PathBuf, String)> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, filesystem) = line.split_once(" - ")?;
            let fields: Vec<&str> = mount.split(' ').collect();
            let (root, point) = (*fields.get(3)?, *fields.get(4)?);
            let mut details = filesystem.split(' ');
            let kind = match (details.next()?, details.nth(1)?) {
                ("cgroup2", _) => Kind::Unified,
                ("cgroup", options) if options.split(',').any(|option| option == "memory") => Kind::Memory,
                ("cgroup", options) if options.split(',').any(|option| option == "cpu") => Kind::Cpu,
                _ => return None,
            };
            Some((kind, PathBuf::from(point), root.to_owned()))
        })
        .collect()
}

/// The caller's own cgroup in one hierarchy, from /proc/self/cgroup.
fn find_own_path(own: &str, kind: Kind) -> Option<String> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let matches = match kind {
            Kind::Unified => number == "0" && controllers.is_empty(),
            Kind::Memory => controllers.split(',').any(|controller| controller == "memory"),
            Kind::Cpu => controllers.split(',').any(|controller| controller == "cpu"),
        };
        matches.then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 24 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 31 0:29 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
34 31 0:30 /pod /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
35 31 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    #[test]
    fn hierarchies_are_found_by_their_controllers_not_by_their_names() {
        let kinds: Vec<_> = parse_mounts(MOUNTS)
            .into_iter()
            .map(|(kind, point, root)| (kind, point.display().to_string(), root))
            .collect();
        let expected = [
            (Kind::Cpu, "/sys/fs/cgroup/cpu", "/"),
            (Kind::Memory, "/sys/fs/cgroup/memory", "/pod"),
            (Kind::Unified, "/sys/fs/cgroup/unified", "/"),
        ];
        assert_eq!(kinds, expected.map(|(kind, point, root)| (kind, point.to_owned(), root.to_owned())));
    }

    #[test]
    fn the_own_cgroup_is_found_in_each_hierarchy() {
        let own = "5:memory:/pod/a:b\n4:cpuset:/\n1:cpu,cpuacct:/c\n0::/u";
        assert_eq!(find_own_path(own, Kind::Memory).as_deref(), Some("/pod/a:b"));
        assert_eq!(find_own_path(own, Kind::Cpu).as_deref(), Some("/c"));
        assert_eq!(find_own_path(own, Kind::Unified).as_deref(), Some("/u"));
        assert_eq!(find_own_path("4:cpuset:/", Kind::Memory), None);
    }

    #[test]
    fn cores_become_a_quota_that_the_kernel_takes() {
        assert_eq!(cpu_quota_microseconds(1.5), 150_000);
        assert_eq!(cpu_quota_microseconds(0.0), 1_000);
        assert_eq!(cpu_quota_microseconds(f64::NAN), 1_000);
    }
}
