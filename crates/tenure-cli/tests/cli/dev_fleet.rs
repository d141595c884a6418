//! A fleet as `tenure dev` gives it, for the tests that need one.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::program::{Ended, end, tenure};

/// Longer than anything here takes on a busy machine; no test asserts how long something took.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Agents for every test: one that works, one that fails for good, and one that no worker here can take.
const AGENTS: &str = r#"
schema = 1
[agents.greet]
script = 'tenure note "saw $(cat "$TENURE_INPUT")"; echo out; echo err >&2; cat "$TENURE_INPUT" > "$TENURE_RESULT"'
[agents.fail]
script = "exit 65"
final-exit-codes = [65]
[agents.hold]
script = "true"
requires = ["nowhere"]
"#;

/// A directory that survives restarts of the fleet in it.
pub(crate) struct Home {
    directory: TempDir,
}

impl Home {
    pub(crate) fn make() -> Self {
        let directory = tempfile::Builder::new().prefix("tenure-").tempdir().unwrap();
        // As root, PostgreSQL runs under an account that has to pass through.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(directory.path().join("fleet.toml"), AGENTS).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts the fleet, and returns when it says that it is ready.
    pub(crate) fn start(&self) -> DevFleet {
        self.start_with(|_| ())
    }

    /// The same with something about the command that a test wants otherwise.
    pub(crate) fn start_with(&self, prepare: impl FnOnce(&mut Command)) -> DevFleet {
        let log = self.path().join("dev.log");
        let mut dev = tenure(&["dev", "--json", "--listen", "127.0.0.1:0", "--data-dir"]);
        dev.arg(self.path().join("data"))
            .arg("--apply")
            .arg(self.path().join("fleet.toml"))
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap());
        prepare(&mut dev);
        let mut process = dev.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said: Vec<serde_json::Value> =
            lines.map_while(Result::ok).map(|line| serde_json::from_str(&line).unwrap()).take(2).collect();
        let endpoint = said.last().and_then(|said| said["endpoint"].as_str());
        let endpoint = endpoint.unwrap_or_else(|| panic!("{said:?}: {}", fs::read_to_string(&log).unwrap()));
        DevFleet { endpoint: endpoint.to_owned(), process }
    }

    /// The processes that work in this directory, by what their command lines say.
    pub(crate) fn processes(&self) -> Vec<PathBuf> {
        let here = self.path().to_str().unwrap();
        let mentions = |path: &PathBuf| {
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(here)
        };
        fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(mentions).collect()
    }

    /// The worker's process; none where there is none at this moment.
    pub(crate) fn worker(&self) -> Option<Pid> {
        let is_worker = |path: &PathBuf| {
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"worker")
        };
        let path = self.processes().into_iter().find(is_worker)?;
        Pid::from_raw(path.file_name()?.to_str()?.parse().ok()?)
    }
}

/// A running fleet.
pub(crate) struct DevFleet {
    endpoint: String,
    process: Child,
}

impl DevFleet {
    /// The program, asking this fleet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tenure(arguments);
        command.env("TENURE_ENDPOINT", &self.endpoint);
        command
    }

    /// Runs the program to its end, whatever that is.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        end(self.command(arguments))
    }

    /// Runs the program to a successful end; returns what it printed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
        ended.stdout
    }

    /// Submits a job; returns its id.
    pub(crate) fn submit(&self, arguments: &[&str]) -> String {
        self.ok(&[&["submit"], arguments].concat()).trim().to_owned()
    }

    /// Sends a signal to the program, and waits for its end.
    pub(crate) fn stop(mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        self.process.wait().unwrap()
    }
}

impl Drop for DevFleet {
    fn drop(&mut self) {
        // What it started goes with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Looks until a condition holds; one that does not in time is reported with what was last seen.
pub(crate) fn wait_until<S: std::fmt::Debug>(what: &str, mut look: impl FnMut() -> Result<(), S>) {
    let until = Instant::now() + PATIENCE;
    while let Err(seen) = look() {
        assert!(Instant::now() < until, "waited for {what}; last saw {seen:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
