//! Processes as /proc shows them: who descends from whom, who is alive, and signals that cannot hit a stranger.
//!
//! Promises that a signal goes only to the very process that was seen: it is sent through a pidfd whose start
//! time was compared. Where the host has no pidfds (kernels before 5.3, and sandboxes that refuse them) it is sent to the
//! number, right after the comparison: a signal that is not sent leaves a process behind for certain. A zombie does not count as alive: orphans' zombies may be reaped late.
//! Does not promise that one pass sees a process that is being forked: callers repeat until nothing is left.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// One line of /proc/PID/stat, as far as we need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    /// The process.
    pub(crate) pid: i32,
    /// Its parent.
    pub(crate) parent: i32,
    /// Its process group.
    pub(crate) group: i32,
    /// Its session: stays when its leader ends.
    pub(crate) session: i32,
    /// When it started, in clock ticks since the boot.
    pub(crate) start_time_ticks: u64,
    /// False for a zombie without other threads.
    pub(crate) alive: bool,
}

/// Reads one process. `None`: there is none.
pub(crate) fn read_process(pid: i32) -> Option<ProcessStat> {
    parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// All processes that can be seen from here.
pub(crate) fn list_processes() -> Vec<ProcessStat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(read_process)
        .collect()
}

/// Those that are alive below `ancestor`, at any depth, in no order.
pub(crate) fn find_descendants(ancestor: i32) -> Vec<ProcessStat> {
    let all = list_processes();
    let mut found: Vec<ProcessStat> = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.push(process.pid);
            found.push(*process);
        }
    }
    found.retain(|process| process.alive);
    found
}

/// The children of one process, zombies included.
pub(crate) fn find_children(parent: i32) -> Vec<ProcessStat> {
    let mut all = list_processes();
    all.retain(|process| process.parent == parent);
    all
}

/// Whether the very process that started then is still there and alive.
pub(crate) fn is_alive(pid: i32, start_time_ticks: u64) -> bool {
    read_process(pid).is_some_and(|process| process.alive && process.start_time_ticks == start_time_ticks)
}

/// Sends a signal to the very process that was seen. One that is gone is fine.
pub(crate) fn signal_process(process: ProcessStat, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return;
    };
    let same =
        || read_process(process.pid).is_some_and(|now| now.start_time_ticks == process.start_time_ticks);
    let sent = pidfd_open(pid, PidfdFlags::empty())
        .and_then(|pidfd| if same() { pidfd_send_signal(&pidfd, signal) } else { Err(Errno::SRCH) });
    match sent {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(_) if same() => {
            // The one failure left is that it ended meanwhile.
            let _ = kill_process(pid, signal);
        }
        Err(_) => {}
    }
}

/// The fields after the name, which is in parentheses and may itself contain any character.
fn parse_stat(pid: i32, stat: &str) -> Option<ProcessStat> {
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    let state = *fields.first()?;
    let threads: u32 = fields.get(17)?.parse().ok()?;
    Some(ProcessStat {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_time_ticks: fields.get(19)?.parse().ok()?,
        // The first thread may have ended before the others: then the process lives, whatever its state says.
        alive: !matches!(state, "Z" | "X" | "x") || threads > 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = "42 (a) b) (c) S 7 42 40 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 3 0 9876 1 1";
        let process = parse_stat(42, stat).unwrap();
        assert_eq!(
            process,
            ProcessStat { pid: 42, parent: 7, group: 42, session: 40, start_time_ticks: 9876, alive: true }
        );
    }

    #[test]
    fn a_zombie_is_not_alive_unless_other_threads_run() {
        let line =
            |threads: u32| format!("42 (x) Z 7 42 40 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 {threads} 0 9876 1");
        assert!(!parse_stat(42, &line(1)).unwrap().alive);
        assert!(parse_stat(42, &line(2)).unwrap().alive);
    }

    #[test]
    fn this_process_is_alive_and_descends_from_its_parent() {
        let own = i32::try_from(std::process::id()).unwrap();
        let process = read_process(own).unwrap();
        assert!(is_alive(own, process.start_time_ticks));
        assert!(!is_alive(own, process.start_time_ticks + 1));
        assert!(find_descendants(process.parent).iter().any(|found| found.pid == own));
    }
}
