//! What is left of a command whose caller went away without saying how it ended: it is ended here, and only when nothing
//! of it is left is its effect in doubt.
//!
//! A process belongs to the command where it is in the command's process group, or bears the environment of that command
//! in that run. The group's number is the caller's, who may count processes in a namespace of its own, so it is compared
//! with the number that a process's group has there, and only within the caller's session as this process sees it, which
//! no other run shares. Whose user a process runs as does not matter, and nothing of it has to be readable but its status:
//! a command may run a program under another user. What may not be signalled is waited for all the same; it goes with the
//! run at the latest.
//! Not found is who left the group *and* scrubbed its environment; it goes with the run at the latest.

use std::{fs, path::Path, time::Duration};

use rustix::process::Signal;
use tokio::net::unix::UCred;

use crate::guardian::descendants::{ProcessStat, list_processes, read_process, signal_process};

/// The pause between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_millis(20);

/// How to find what is left of a command.
#[derive(Debug, Clone)]
pub(super) struct CommandRemains {
    caller: Option<Caller>,
    group: Option<i32>,
    /// Lines of the command's environment, which no other command of any run has together.
    marker: [String; 2],
}

/// Who called, as this process sees it.
#[derive(Debug, Clone, Copy)]
struct Caller {
    /// A process group lies in one session.
    session: i32,
    /// How many PID namespaces, from this process's own on, the caller is in: it counts in the last of them.
    depth: usize,
}

impl CommandRemains {
    /// Those of a command that the peer of a connection is about to start.
    pub(super) fn new(peer: Option<UCred>, socket: &Path, idempotency_key: &str) -> Self {
        let caller = peer.and_then(|peer| read_caller(peer.pid()?));
        let marker = [
            format!("TENURE_SOCKET={}", socket.display()),
            format!("TENURE_IDEMPOTENCY_KEY={idempotency_key}"),
        ];
        Self { caller, group: None, marker }
    }

    /// The caller started the command in this process group.
    pub(super) fn set_group(&mut self, group: i32) {
        // 0 and 1 are nobody's command: the caller's own group, and PID 1.
        self.group = Some(group).filter(|group| *group > 1);
    }

    /// Returns when nobody of the command is alive. Blocks: it sleeps between its rounds.
    pub(super) fn end(&self) {
        loop {
            let alive = self.find_alive();
            if alive.is_empty() {
                return;
            }
            for process in alive {
                signal_process(process, Signal::KILL);
            }
            std::thread::sleep(ROUND_INTERVAL);
        }
    }

    fn find_alive(&self) -> Vec<ProcessStat> {
        let mut all = list_processes();
        all.retain(|process| process.alive && (self.is_in_group(process) || self.bears_marker(process)));
        all
    }

    fn is_in_group(&self, process: &ProcessStat) -> bool {
        let (Some(group), Some(caller)) = (self.group, &self.caller) else { return false };
        process.session == caller.session
            && read_numbers(process.pid, "NSpgid:").and_then(|groups| groups.get(caller.depth - 1).copied())
                == Some(group)
    }

    fn bears_marker(&self, process: &ProcessStat) -> bool {
        fs::read(format!("/proc/{}/environ", process.pid)).is_ok_and(|environment| {
            let bears =
                |marker: &String| environment.split(|byte| *byte == 0).any(|line| line == marker.as_bytes());
            self.marker.iter().all(bears)
        })
    }
}

fn read_caller(pid: i32) -> Option<Caller> {
    let depth = read_numbers(pid, "NSpid:")?.len();
    Some(Caller { session: read_process(pid)?.session, depth }).filter(|caller| caller.depth > 0)
}

/// A line of a process's status with one number for each namespace, from this process's own to the process's.
fn read_numbers(pid: i32, heading: &str) -> Option<Vec<i32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(heading))?;
    line.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::CommandExt as _,
        process::{Child, Command},
    };

    use super::*;

    const SOCKET: &str = "/run/a-socket";

    fn remains(caller: Option<Caller>) -> CommandRemains {
        // No test's process bears this in its environment.
        CommandRemains { caller, ..CommandRemains::new(None, Path::new(SOCKET), "job/nobody") }
    }

    fn this_process() -> Option<Caller> {
        read_caller(std::process::id().try_into().unwrap())
    }

    fn start_sleeper(variables: &[(&str, &str)]) -> Child {
        Command::new("sleep").arg("600").envs(variables.iter().copied()).process_group(0).spawn().unwrap()
    }

    fn group_of(child: &Child) -> i32 {
        child.id().try_into().unwrap()
    }

    #[test]
    fn the_group_of_the_command_is_ended_and_no_other() {
        let (mut ours, mut other) = (start_sleeper(&[]), start_sleeper(&[]));
        let mut remains = remains(this_process());
        remains.set_group(group_of(&ours));
        remains.end();
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn who_runs_under_another_user_is_in_the_group_all_the_same() {
        // Whoever is not root can start nobody else's, and finds its own.
        let own = rustix::process::geteuid();
        let user = if own.is_root() { 65_534 } else { own.as_raw() };
        let mut other =
            Command::new("sleep").arg("600").uid(user).env_clear().process_group(0).spawn().unwrap();
        let mut remains = remains(this_process());
        remains.set_group(group_of(&other));
        assert_eq!(remains.find_alive().len(), 1);
        remains.end();
        assert!(!other.wait().unwrap().success());
    }

    #[test]
    fn who_left_the_group_is_known_by_the_environment_of_command_and_run() {
        let run = ("TENURE_SOCKET", SOCKET);
        let mut ours = start_sleeper(&[run, ("TENURE_IDEMPOTENCY_KEY", "job/key")]);
        let mut other = start_sleeper(&[run, ("TENURE_IDEMPOTENCY_KEY", "job/other")]);
        // The environment is there once the program is.
        let remains = CommandRemains::new(None, Path::new(SOCKET), "job/key");
        while remains.find_alive().is_empty() {
            std::thread::yield_now();
        }
        remains.end();
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_group_of_another_session_or_of_nobody_is_not_ended() {
        let mut other = start_sleeper(&[]);
        let stranger = this_process().map(|caller| Caller { session: caller.session + 1, ..caller });
        for caller in [stranger, None] {
            let mut remains = remains(caller);
            remains.set_group(group_of(&other));
            assert!(remains.find_alive().is_empty());
        }
        let mut own_group = remains(this_process());
        own_group.set_group(0);
        assert!(own_group.find_alive().is_empty());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
