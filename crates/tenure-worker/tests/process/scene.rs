//! One run on a stage of its own: directories, scripts, waiting, and looking at processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_worker::guardian::{BootInstant, Fencing, IDENTITY_FILE, RunIdentity};
use tenure_worker::runner::{
    GuardCommand, GuardLink, OutputStream, ProcessCommand, ProcessOutcome, ProcessRunner, ProcessSpec,
    ProcessStdin, Redactor, ResourceLimits, RunDirectory, RunFiles, RunUser, RunningProcess,
};

/// What a condition may take on a busy machine before the test says what it last saw.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match look() {
            Ok(seen) => return seen,
            Err(last) => assert!(begin.elapsed() < PATIENCE, "waited for {what}, last saw: {last}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The same for tests whose own runtime must go on.
pub(crate) async fn wait_until(what: &str, mut look: impl FnMut() -> Result<(), String>) {
    let begin = Instant::now();
    while let Err(last) = look() {
        assert!(begin.elapsed() < PATIENCE, "waited for {what}, last saw: {last}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) struct Scene {
    directory: tempfile::TempDir,
    pub(crate) run_directory: RunDirectory,
    pub(crate) fencing: Fencing,
}

impl Scene {
    pub(crate) fn new(fencing: Fencing) -> Self {
        Self::with_files(fencing, &RunFiles::default(), None)
    }

    pub(crate) fn with_files(fencing: Fencing, files: &RunFiles<'_>, user: Option<&RunUser>) -> Self {
        let directory = tempfile::Builder::new().prefix("tenure-process-").tempdir().unwrap();
        // Other users run here, too.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let run_directory = RunDirectory::create(directory.path().join("run"), files, user).unwrap();
        Self { directory, run_directory, fencing }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A shell text that leaves a process behind which appends to a file every 50 ms, in a session of its own.
    pub(crate) fn leave_heartbeat(&self) -> String {
        let file = self.path("heartbeat");
        format!("setsid sh -c 'while :; do echo beat >> {0}; sleep 0.05; done' {0} &\n", file.display())
            + &format!("while ! test -s {}; do sleep 0.02; done\n", file.display())
    }

    pub(crate) fn await_heartbeat(&self) {
        wait_for("the first heartbeat", || match fs::metadata(self.path("heartbeat")) {
            Ok(metadata) if metadata.len() > 0 => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    /// Live processes that bear this scene's directory in their arguments, guardians excepted.
    pub(crate) fn find_living(&self) -> Vec<String> {
        find_processes(&self.directory.path().to_string_lossy())
    }

    pub(crate) fn identity(&self) -> RunIdentity {
        wait_for("the run's identity", || self.read_identity().ok_or_else(|| format!("no {IDENTITY_FILE}")))
    }

    /// Also of a worker of another user, whose files a worker of this test's user would not believe.
    fn read_identity(&self) -> Option<RunIdentity> {
        serde_json::from_slice(&fs::read(self.run_directory.path().join(IDENTITY_FILE)).ok()?).ok()
    }

    pub(crate) fn spec(&self, script: &str) -> ProcessSpec {
        let run_name = self.directory.path().file_name().unwrap().to_string_lossy().into_owned();
        let mut environment: BTreeMap<String, String> = self.run_directory.compose_variables();
        environment.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        ProcessSpec {
            run_name,
            // The path marks the process, for `find_living`.
            command: ProcessCommand::Argv(
                ["sh", "-c", script, &self.path("child").to_string_lossy()].map(str::to_owned).to_vec(),
            ),
            environment,
            cwd: self.run_directory.path().to_owned(),
            stdin: ProcessStdin::None,
            user: None,
            limits: ResourceLimits::default(),
            run_directory: self.run_directory.path().to_owned(),
            stop_grace: Duration::from_millis(300),
            timeout: Duration::from_secs(60),
            idle_timeout: None,
            output_limit_bytes: 1024 * 1024,
            redactor: Redactor::default(),
        }
    }

    pub(crate) fn runner(&self) -> ProcessRunner {
        ProcessRunner::new(guard_command(), self.fencing)
    }

    pub(crate) fn start(&self, script: &str) -> RunningProcess {
        self.start_spec(self.spec(script))
    }

    pub(crate) fn start_spec(&self, spec: ProcessSpec) -> RunningProcess {
        self.runner().start_process(spec, unbounded_link())
    }

    /// Another process that is the worker: the arguments of `tests/process/support/worker.rs`.
    pub(crate) fn start_worker(&self, script: &str, plan: Value) -> WorkerProcess {
        self.start_worker_as(script, plan, None)
    }

    pub(crate) fn start_worker_as(&self, script: &str, mut plan: Value, uid: Option<u32>) -> WorkerProcess {
        let spec = self.spec(script);
        let ProcessCommand::Argv(argv) = spec.command else { panic!("scenes run an argv") };
        let run_directory = match uid {
            // Whoever the worker is, the run directory is its own.
            Some(uid) => {
                std::os::unix::fs::chown(self.run_directory.path(), Some(uid), None).unwrap();
                self.run_directory.path()
            }
            None => self.run_directory.path(),
        };
        let guard = self.place_program(env!("CARGO_BIN_EXE_tenure-guard"), uid);
        let program = self.place_program(env!("CARGO_BIN_EXE_process-test-worker"), uid);
        let defaults = json!({
            "guard": guard,
            "fencing": self.fencing,
            "run_name": spec.run_name,
            "argv": argv,
            "env": spec.environment,
            "run_directory": run_directory,
            "stop_grace_ms": 300,
            "margin_ms": 100,
            "deadline_in_ms": 60_000,
            "forget": true,
        });
        for (name, value) in defaults.as_object().unwrap() {
            plan.as_object_mut().unwrap().entry(name.clone()).or_insert(value.clone());
        }
        WorkerProcess::start(&program, &plan, &self.path("worker.log"), uid)
    }

    /// Where to run a built program from. The build's own directory may lie below one that only its owner may enter
    /// (a home directory often is), so another user gets a copy.
    fn place_program(&self, built: &str, uid: Option<u32>) -> PathBuf {
        let built = Path::new(built);
        if uid.is_none() {
            return built.to_owned();
        }
        let copy = self.path(built.file_name().unwrap().to_str().unwrap());
        fs::copy(built, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        copy
    }
}

/// The directory goes when the guardian has written into it what it had to; and a test that fails leaves nobody behind.
impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in self.find_living() {
                let pid = line.split(' ').next().and_then(|pid| pid.parse().ok());
                let _ = pid.map(|pid| {
                    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL)
                });
            }
        } else if let Some(identity) = self.read_identity() {
            wait_for("the guardian to go", || match is_living(identity.guardian.pid) {
                true => Err(format!("{} is there", identity.guardian.pid)),
                false => Ok(()),
            });
        }
    }
}

pub(crate) struct WorkerProcess {
    child: std::process::Child,
    log: PathBuf,
}

impl WorkerProcess {
    fn start(program: &Path, plan: &Value, log: &Path, uid: Option<u32>) -> Self {
        use std::os::unix::process::CommandExt;
        let output = fs::File::create(log).unwrap();
        let mut command = std::process::Command::new(program);
        command.arg(plan.to_string()).stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        Self { child: command.spawn().unwrap(), log: log.to_owned() }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// SIGKILL, SIGSTOP, SIGCONT.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    pub(crate) fn await_line(&self, wanted: &str) -> String {
        wait_for(&format!("the worker's line {wanted:?}"), || {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let line = log.lines().find(|line| line.starts_with(wanted)).map(str::to_owned);
            line.ok_or(log)
        })
    }

    pub(crate) fn reap(mut self) {
        self.child.wait().unwrap();
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn guard_command() -> GuardCommand {
    GuardCommand { program: PathBuf::from(env!("CARGO_BIN_EXE_tenure-guard")), arguments: Vec::new() }
}

pub(crate) fn unbounded_link() -> GuardLink {
    GuardLink { deadline: BootInstant::NEVER, margin: Duration::from_millis(500), report: None }
}

/// Takes all output and waits for the end, and lets the guardian go.
pub(crate) async fn finish(mut process: RunningProcess) -> (String, String, ProcessOutcome) {
    let mut output = process.take_output();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(chunk) = output.recv().await {
        match chunk.stream {
            OutputStream::Stdout => stdout.extend_from_slice(&chunk.bytes),
            OutputStream::Stderr => stderr.extend_from_slice(&chunk.bytes),
        }
    }
    let outcome = process.wait().await;
    process.release().await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(stdout), text(stderr), outcome)
}

/// Live processes with that text in their arguments. The test workers bear it, too, and do not count.
pub(crate) fn find_processes(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            let arguments =
                String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).ok()?).into_owned();
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let state = stat.rsplit_once(") ")?.1.chars().next()?;
            let counts =
                arguments.contains(text) && !arguments.contains("process-test-worker") && state != 'Z';
            counts.then(|| format!("{pid} {state} {}", arguments.replace('\0', " ")))
        })
        .collect()
}

/// Whether that process is there and no zombie.
pub(crate) fn is_living(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists() && !is_zombie(pid)
}

/// Whether that number is a zombie that this test's process should have reaped.
pub(crate) fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('Z'))
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
