//! What is left of a run whose guardian died or is useless.
//!
//! Owns the worker's part of fencing: under `kernel` fencing PID 1 of the namespace is ended, or already died with the
//! guardian; under `guardian` fencing the worker, a subreaper itself, ends the child, everybody below the guardian,
//! everybody in the run's cgroup, and everybody among its own descendants who still bears the run's environment, again
//! and again until none is left.
//!
//! Not found is only who left the session, was orphaned before, scrubbed its environment or keeps it from being read (a
//! process that is not dumpable, looked at by a worker that is not root), *and* ran where no cgroup could be made. That
//! is why `kernel` is the better fencing.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::process::Signal;
use tokio::process::Child;

use super::RunCgroup;
use crate::guardian::ProcessMark;
use crate::guardian::descendants::{
    ProcessStat, find_children, list_processes, read_process, signal_process,
};
use crate::guardian::protocol::GuardSpec;

/// The pause between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_millis(20);

/// How to find what belongs to a run.
#[derive(Debug, Clone)]
pub(super) struct Remains {
    guardian: Option<ProcessMark>,
    run_name: String,
    /// The child and PID 1 of its namespace, as the guardian named them before either could run. None: none was forked.
    marks: Vec<ProcessMark>,
    /// A line of the child's environment that no other run has.
    marker: Option<String>,
}

impl Remains {
    pub(super) fn of_run(guardian: &Child, spec: &GuardSpec) -> Self {
        let guardian = guardian.id().and_then(|pid| read_process(i32::try_from(pid).ok()?));
        let marker = ["TENURE_SOCKET", "TENURE_INPUT"]
            .iter()
            .find_map(|wanted| spec.env.iter().find(|(name, _)| name == wanted))
            .map(|(name, value)| format!("{name}={value}"));
        Self {
            guardian: guardian.map(|process| mark(&process)),
            run_name: spec.run_name.clone(),
            marks: Vec::new(),
            marker,
        }
    }

    /// Takes over what the guardian said of its group.
    pub(super) fn set_marks(&mut self, child: ProcessMark, init: Option<ProcessMark>) {
        self.marks = [Some(child), init].into_iter().flatten().collect();
    }
}

/// Returns when nobody of the run is alive. Blocks: it sleeps between its rounds.
pub(super) fn end_remains(remains: &Remains) {
    let cgroup = RunCgroup::find(&remains.run_name);
    let mut seen = BTreeMap::new();
    // First what is below a guardian that is frozen: as long as it is there it keeps them together.
    while end_round(remains, &cgroup, &mut seen) {
        std::thread::sleep(ROUND_INTERVAL);
    }
    end_guardian(remains);
    while end_round(remains, &cgroup, &mut seen) {
        std::thread::sleep(ROUND_INTERVAL);
    }
    reap(remains, &seen);
    cgroup.remove();
}

/// False: nobody was alive.
fn end_round(remains: &Remains, cgroup: &RunCgroup, seen: &mut BTreeMap<i32, ProcessStat>) -> bool {
    let alive = find_remains(remains, cgroup);
    if alive.is_empty() {
        return false;
    }
    cgroup.kill_all();
    for process in alive {
        signal_process(process, Signal::KILL);
        seen.insert(process.pid, process);
    }
    reap(remains, seen);
    true
}

fn end_guardian(remains: &Remains) {
    let Some(guardian) = remains.guardian else { return };
    while let Some(process) =
        read_process(guardian.pid).filter(|process| is_same(process, guardian) && process.alive)
    {
        signal_process(process, Signal::KILL);
        std::thread::sleep(ROUND_INTERVAL);
    }
}

/// Orphans come to this process, which is a subreaper; those that do not, nobody needs to wait for. Some died with
/// the guardian, before anybody looked.
fn reap(remains: &Remains, seen: &BTreeMap<i32, ProcessStat>) {
    let marks = &remains.marks;
    let ours = |process: &ProcessStat| {
        let marked = marks.iter().any(|mark| is_same(process, *mark)) || is_in_session(process, marks);
        marked || seen.get(&process.pid).is_some_and(|earlier| is_same(process, mark(earlier)))
    };
    for process in find_children(own_pid()).into_iter().filter(|process| !process.alive && ours(process)) {
        let _ = waitpid(Pid::from_raw(process.pid), Some(WaitPidFlag::WNOHANG));
    }
}

/// Those of the run that are alive now, the guardian itself left out.
fn find_remains(remains: &Remains, cgroup: &RunCgroup) -> Vec<ProcessStat> {
    let all = list_processes();
    let marks = &remains.marks;
    let in_cgroup = cgroup.list_processes();
    let below_worker = find_below(&all, &[own_pid()]);
    let mut roots: Vec<i32> = all
        .iter()
        .filter(|process| {
            let known = marks.iter().any(|mark| is_same(process, *mark)) || in_cgroup.contains(&process.pid);
            let ours = below_worker.contains(&process.pid);
            known || (ours && (is_in_session(process, marks) || bears_marker(process, remains)))
        })
        .map(|process| process.pid)
        .collect();
    roots.extend(remains.guardian.map(|guardian| guardian.pid));
    let below = find_below(&all, &roots);
    let guardian = remains.guardian;
    all.into_iter()
        .filter(|process| roots.contains(&process.pid) || below.contains(&process.pid))
        .filter(|process| process.alive && guardian.is_none_or(|guardian| process.pid != guardian.pid))
        .collect()
}

fn find_below(all: &[ProcessStat], roots: &[i32]) -> Vec<i32> {
    let mut parents = roots.to_vec();
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|process| process.parent == parent && !found.contains(&process.pid));
        let children: Vec<i32> = children.map(|process| process.pid).collect();
        parents.extend(&children);
        found.extend(children);
    }
    found
}

/// The child leads its session, which outlives it.
fn is_in_session(process: &ProcessStat, marks: &[ProcessMark]) -> bool {
    marks.iter().any(|mark| process.session == mark.pid && process.start_time_ticks >= mark.start_time_ticks)
}

fn bears_marker(process: &ProcessStat, remains: &Remains) -> bool {
    let Some(marker) = &remains.marker else { return false };
    fs::read(format!("/proc/{}/environ", process.pid))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|line| line == marker.as_bytes()))
}

fn is_same(process: &ProcessStat, mark: ProcessMark) -> bool {
    process.pid == mark.pid && process.start_time_ticks == mark.start_time_ticks
}

fn mark(process: &ProcessStat) -> ProcessMark {
    ProcessMark { pid: process.pid, start_time_ticks: process.start_time_ticks }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(0)
}
