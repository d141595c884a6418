//! Everything that has to be there before a child starts: its declaration read, its user, its directory and files, its
//! environment, its limits. The first thing that is not there ends the run, naming it.

use std::{
    error::Error,
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use tenure_core::{
    deadline::{clamp, duration_ms},
    declaration::{Command, Declaration, Stdin},
    limits::{BLOB_MAX_BYTES, VALUE_MAX_BYTES},
    record::Phase,
    run_ref::RunRef,
};
use tracing::warn;

use super::{
    Execution,
    gone_report::{UntoldEnd, leave_outcome},
    run_blocking,
};
use crate::{
    blobs::Staged,
    grant::{GrantInput, RunGrant},
    guardian::{BootInstant, ReportIdentity},
    runner::{
        EnvironmentPlan, GuardLink, PAYLOAD_FILE, ProcessCommand, ProcessSpec, ProcessStdin, Redactor,
        ResourceLimits, RunDirectory, RunFiles, RunUser, compose_environment, ensure_socket_path,
        resolve_user,
    },
};

/// How many hexadecimal digits of a job's id name its socket: paths of sockets are short, and with the epoch so many tell
/// the runs of one worker apart.
const SOCKET_NAME_DIGITS: usize = 12;

/// What the `tenure` program is started with where it is to undo.
const UNDO_ARGUMENT: &str = "unwind";

/// A run whose child can be started.
#[derive(Debug)]
pub(super) struct PreparedRun {
    pub(super) spec: ProcessSpec,
    pub(super) link: GuardLink,
    pub(super) directory: RunDirectory,
    pub(super) socket: PathBuf,
    pub(super) user: Option<RunUser>,
    pub(super) redactor: Redactor,
    pub(super) stop_grace: Duration,
}

impl PreparedRun {
    /// Takes what the child left as its result, redacted: whole, or as a file of the worker's own where it is large.
    pub(super) async fn stage_result(&self, below: &Path) -> Result<Option<StagedResult>, String> {
        let (directory, redactor, below) = (self.directory.clone(), self.redactor.clone(), below.to_owned());
        let staged = run_blocking(move || stage_result(&directory, &redactor, &below)).await;
        staged.map_err(|error| describe(&error))?
    }

    /// Removes the run's directory, which may hold as much as the child liked to leave there.
    pub(super) async fn clean_up(self, keep: bool) {
        if !keep && let Err(error) = run_blocking(move || remove_directory(self.directory)).await {
            warn!(%error, "the directory of the run could not be removed");
        }
    }

    /// Keeps the run's directory with what nobody took. A later start of the worker removes it.
    pub(super) async fn leave_outcome(self, run: &RunRef, untold: UntoldEnd) {
        let run = run.clone();
        let left = run_blocking(move || leave_outcome(&run, self.directory.path(), untold)).await;
        if let Err(error) = left.unwrap_or_else(|error| Err(error.into())) {
            warn!(%error, "the outcome of the run could not be left in its directory");
        }
    }
}

/// A result that is to be handed on.
#[derive(Debug)]
pub(super) enum StagedResult {
    /// It goes with the end of the run.
    Small(Bytes),
    /// It goes before it.
    Large {
        /// Where it is.
        staged: Staged,
        /// Its length.
        bytes: u64,
    },
}

fn stage_result(
    directory: &RunDirectory,
    redactor: &Redactor,
    below: &Path,
) -> Result<Option<StagedResult>, String> {
    let Some(result) = directory.open_result().map_err(|error| describe(&error))? else { return Ok(None) };
    let unstored = |error: io::Error| format!("the result cannot be stored on this host: {error}");
    let staged = Staged::make(below).map_err(unstored)?;
    let mut file = File::create(staged.path()).map_err(unstored)?;
    let mut redaction = redactor.stream();
    let read = result.read_pieces(|piece| file.write_all(&redaction.push(piece)));
    read.map_err(|error| describe(&error))?;
    file.write_all(&redaction.finish()).map_err(unstored)?;
    let bytes = file.metadata().map_err(unstored)?.len();
    if bytes <= VALUE_MAX_BYTES {
        let whole = std::fs::read(staged.path()).map_err(unstored)?;
        return Ok(Some(StagedResult::Small(whole.into())));
    }
    if bytes <= BLOB_MAX_BYTES {
        return Ok(Some(StagedResult::Large { staged, bytes }));
    }
    Err(format!("the redacted result has {bytes} bytes, and {BLOB_MAX_BYTES} are allowed"))
}

fn remove_directory(directory: RunDirectory) {
    let path = directory.path().to_owned();
    if let Err(error) = directory.remove() {
        warn!(%error, path = %path.display(), "the directory of the run could not be removed");
    }
}

/// Prepares a run; the error says for a person what is missing. Blocks: it writes files and looks up users.
pub(super) fn prepare_run(execution: &Execution, staged: Option<&Staged>) -> Result<PreparedRun, String> {
    let grant = &*execution.grant;
    let declaration = Declaration::parse(&grant.declaration).map_err(|error| describe(&error))?;
    let command = choose_command(execution, &declaration)?;
    let user = choose_user(execution, &declaration)?;
    let socket = socket_path(execution);
    ensure_socket_path(&socket).map_err(|error| describe(&error))?;
    let staged_input = staged.map(Staged::path);
    let files = RunFiles {
        input: match &grant.input {
            GrantInput::Bytes(input) => input,
            GrantInput::Blob(_) | GrantInput::Erased => &[],
        },
        staged_input: staged_input.as_deref(),
        handover: &grant.handover,
        brief: &grant.brief,
        preamble: (declaration.stdin() == Stdin::Payload).then_some(&*grant.preamble),
    };
    let directory =
        RunDirectory::create(run_path(execution), &files, user.as_ref()).map_err(|error| describe(&error))?;
    let plan = plan_environment(execution, &declaration, &directory, &socket, user.as_ref());
    let composed = compose_environment(&plan, |name| std::env::var_os(name));
    let (environment, redactor) = match composed {
        Ok(composed) => composed,
        Err(error) => {
            remove_directory(directory);
            return Err(describe(&error));
        }
    };
    let spec = ProcessSpec {
        run_name: run_name(grant),
        command,
        environment,
        cwd: declaration.cwd().map_or_else(|| directory.path().to_owned(), PathBuf::from),
        stdin: choose_stdin(grant, &declaration, &directory),
        user: user.clone(),
        limits: ResourceLimits {
            memory_bytes: declaration.memory_bytes(),
            cpu_cores: declaration.cpu_cores(),
        },
        run_directory: directory.path().to_owned(),
        stop_grace: declaration.stop_grace(),
        timeout: clamp_timeout(grant, declaration.timeout()),
        // Undoing may be silent for as long as it takes.
        idle_timeout: declaration.idle_timeout().filter(|_| grant.phase == Phase::Forward),
        output_limit_bytes: declaration.output_limit_bytes(),
        redactor: redactor.clone(),
    };
    let stop_grace = spec.stop_grace;
    Ok(PreparedRun { spec, link: compose_link(execution), directory, socket, user, redactor, stop_grace })
}

/// The agent's user goes before the worker's setting.
fn choose_user(execution: &Execution, declaration: &Declaration) -> Result<Option<RunUser>, String> {
    match declaration.user() {
        Some(name) => resolve_user(name).map(Some).map_err(|error| describe(&error)),
        None => Ok(execution.context.run_as.clone()),
    }
}

/// A run that undoes starts the program that does, as the agent would be started.
fn choose_command(execution: &Execution, declaration: &Declaration) -> Result<ProcessCommand, String> {
    if execution.grant.phase == Phase::Compensating {
        let program = execution.context.options.program.to_string_lossy().into_owned();
        return Ok(ProcessCommand::Argv(vec![program, UNDO_ARGUMENT.to_owned()]));
    }
    match declaration.command() {
        Command::Argv(argv) => Ok(ProcessCommand::Argv(argv)),
        Command::Script(text) => Ok(ProcessCommand::Script(text)),
        Command::Handler(version) => {
            Err(format!("the agent is a handler in version {version}, and this worker holds no handlers"))
        }
    }
}

fn choose_stdin(grant: &RunGrant, declaration: &Declaration, directory: &RunDirectory) -> ProcessStdin {
    match (grant.phase, declaration.stdin()) {
        (Phase::Forward, Stdin::Input) => ProcessStdin::File(directory.path().join("input")),
        (Phase::Forward, Stdin::Payload) => ProcessStdin::File(directory.path().join(PAYLOAD_FILE)),
        (Phase::Forward, Stdin::Nothing) | (Phase::Compensating, _) => ProcessStdin::None,
    }
}

/// What is left to the session's deadline bounds the child's own timeout, here and never later. Undoing meets no deadline.
fn clamp_timeout(grant: &RunGrant, own: Duration) -> Duration {
    if grant.phase == Phase::Compensating {
        return own;
    }
    let now = grant.database_time(BootInstant::now());
    let remaining =
        grant.deadline_at.map(|deadline| deadline.duration_since(now).try_into().unwrap_or(Duration::ZERO));
    clamp(Some(own), remaining).unwrap_or(own)
}

fn plan_environment(
    execution: &Execution,
    declaration: &Declaration,
    directory: &RunDirectory,
    socket: &Path,
    user: Option<&RunUser>,
) -> EnvironmentPlan {
    let grant = &*execution.grant;
    let mut tenure = directory.compose_variables();
    tenure.extend(
        [
            ("TENURE_SOCKET", socket.to_string_lossy().into_owned()),
            ("TENURE_JOB", grant.run.job.to_string()),
            ("TENURE_RUN", grant.run.run.to_string()),
            ("TENURE_EPOCH", grant.run.epoch.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let deadline = grant.deadline_at.filter(|_| grant.phase == Phase::Forward);
    tenure.extend(deadline.map(|deadline| ("TENURE_DEADLINE".to_owned(), deadline.to_string())));
    EnvironmentPlan {
        tenure_directory: execution.context.options.program.parent().map(PathBuf::from),
        home: user.map(|user| user.home.clone()),
        traceparent: grant.run_trace().map(|trace| trace.to_string()),
        tenure,
        agent: declaration.env(),
        secrets: declaration.secrets(),
    }
}

fn compose_link(execution: &Execution) -> GuardLink {
    let term = &execution.term;
    GuardLink { deadline: term.deadline(), margin: term.margin(), report: Some(compose_identity(execution)) }
}

/// What a guardian needs to report the run.
pub(super) fn compose_identity(execution: &Execution) -> ReportIdentity {
    let (grant, term) = (&execution.grant, &execution.term);
    ReportIdentity {
        tenant: grant.run.tenant.to_string(),
        job: grant.run.job.to_string(),
        epoch: grant.run.epoch.0,
        generation: grant.run.generation.0,
        secret: grant.secret.clone(),
        endpoints: execution.context.endpoints.addresses().to_vec(),
        tls_authority_pem: execution.context.endpoints.authority_pem(),
        ttl_ms: duration_ms(term.ttl()),
    }
}

fn run_name(grant: &RunGrant) -> String {
    format!("{}-{}", grant.run.job, grant.run.epoch)
}

pub(super) fn run_path(execution: &Execution) -> PathBuf {
    execution.context.places.runs().join(run_name(&execution.grant))
}

fn socket_path(execution: &Execution) -> PathBuf {
    let run = &execution.grant.run;
    let digits = run.job.0.as_simple().to_string();
    let ending = &digits[digits.len() - SOCKET_NAME_DIGITS..];
    execution.context.places.sockets().join(format!("{ending}-{}", run.epoch))
}

/// An error with all its causes.
pub(super) fn describe(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        said = format!("{said}: {source}");
        cause = source.source();
    }
    said
}
