//! What is left of a command whose caller went away without saying how it ended: it is ended here, and only when nothing
//! of it is left is its effect in doubt.
//!
//! A process belongs to the command where it is in the command's process group, or bears the environment of that command
//! in that run. The group's number is the caller's, who may count processes in a namespace of its own, so it is compared
//! with the number that a process has in the caller's namespace, and only for processes of the caller's user: nobody is
//! ended by this whom the caller could not have ended itself.
//! Not found is who left the group *and* scrubbed its environment; it goes with the run at the latest.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::Signal;
use tokio::net::unix::UCred;

use crate::guardian::descendants::{ProcessStat, list_processes, signal_process};

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
#[derive(Debug, Clone)]
struct Caller {
    user: u32,
    /// The PID namespace that it counts in.
    namespace: PathBuf,
}

impl CommandRemains {
    /// Those of a command that the peer of a connection is about to start.
    pub(super) fn new(peer: Option<UCred>, socket: &Path, idempotency_key: &str) -> Self {
        let caller =
            peer.and_then(|peer| Some(Caller { user: peer.uid(), namespace: read_namespace(peer.pid()?)? }));
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
        read_group(process.pid) == Some(group)
            && fs::metadata(format!("/proc/{}", process.pid)).is_ok_and(|found| found.uid() == caller.user)
            && read_namespace(process.pid).as_deref() == Some(&*caller.namespace)
    }

    fn bears_marker(&self, process: &ProcessStat) -> bool {
        fs::read(format!("/proc/{}/environ", process.pid)).is_ok_and(|environment| {
            let bears =
                |marker: &String| environment.split(|byte| *byte == 0).any(|line| line == marker.as_bytes());
            self.marker.iter().all(bears)
        })
    }
}

fn read_namespace(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// The number of a process's group in the process's own namespace, which is the innermost.
fn read_group(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpgid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
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
        CommandRemains { caller, ..CommandRemains::new(None, Path::new(SOCKET), "job/key") }
    }

    fn this_process() -> Option<Caller> {
        let user = rustix::process::geteuid().as_raw();
        Some(Caller { user, namespace: read_namespace(std::process::id().try_into().unwrap()).unwrap() })
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
    fn who_left_the_group_is_known_by_the_environment_of_command_and_run() {
        let run = ("TENURE_SOCKET", SOCKET);
        let mut ours = start_sleeper(&[run, ("TENURE_IDEMPOTENCY_KEY", "job/key")]);
        let mut other = start_sleeper(&[run, ("TENURE_IDEMPOTENCY_KEY", "job/other")]);
        // The environment is there once the program is.
        let remains = remains(None);
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
    fn a_group_of_another_user_or_of_nobody_is_not_ended() {
        let mut other = start_sleeper(&[]);
        let stranger = this_process().map(|caller| Caller { user: caller.user + 1, ..caller });
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
