//! Strict replay: a handler is called against the journal of a job, and everything that it asks for is answered from there.
//! Nothing is performed, nothing is written, no lease is taken and no coordinator is asked: the journal comes as a file. What a
//! handler does beside its steps and effects it does for real, as always. Neighbours: `tenure replay` reads the journal and
//! starts the program, the core's `replay` compares.

use std::{
    env, fmt, fs,
    io::{self, BufRead as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tenure_core::{
    brief::brief,
    deadline::{Deadline, add},
    handover::History,
    id::{AgentName, InvalidName},
    record::{DeadlineSetting, Phase, Record, RecordKind},
    replay::{
        Answer, Asked, JOURNAL_VARIABLE, Line, REPORT_VARIABLE, Report, Script, Told, VERSION_VARIABLE,
    },
    run_ref::RunRef,
    sending::Given,
    step::StepName,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    EarlierRuns, EndingAsk, Gift, GivenJob, Handler, HandlerError, HandlerWorker, Handlers, InvalidHandler,
    RunContext, StepError,
    step::{final_error, read_output},
};
use crate::{
    grant::{GrantInput, RunGrant},
    guardian::{BootInstant, RunSecret},
};

/// A replay that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The journal.
    #[error("reading the journal from {}", path.display())]
    Unreadable {
        /// Where it was looked for.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A line of it.
    #[error("line {line} of {} is no record of a journal", path.display())]
    InvalidLine {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// There is nothing to replay.
    #[error("the journal has no run of the job that a handler could be compared with")]
    NeverRan,
    /// What was erased cannot be handed over.
    #[error("the input of the job was erased")]
    InputErased,
    /// One of the handlers.
    #[error(transparent)]
    Handler(#[from] InvalidHandler),
    /// None fits.
    #[error("this program holds no handler {agent}{}, and what it holds is {held}", name_version(version.as_deref()))]
    NotHeld {
        /// The job's agent.
        agent: AgentName,
        /// The version that was asked for.
        version: Option<String>,
        /// What it holds.
        held: String,
    },
    /// Several fit.
    #[error("this program holds several versions of the handler {agent}, and none was named: {held}")]
    Ambiguous {
        /// The job's agent.
        agent: AgentName,
        /// What it holds.
        held: String,
    },
}

fn name_version(version: Option<&str>) -> String {
    version.map(|version| format!(" in version {version}")).unwrap_or_default()
}

/// Answers one handler from a journal.
pub(crate) struct Replay {
    script: Mutex<Script>,
    over: CancellationToken,
}

impl Replay {
    /// What is recorded of it. Where the replay goes no further, this never returns: the handler is dropped.
    pub(crate) async fn ask(&self, asked: Asked) -> Told {
        let told = self.script.lock().unwrap_or_else(PoisonError::into_inner).ask(asked);
        if told == Told::Over {
            self.over.cancel();
            std::future::pending::<()>().await;
        }
        told
    }

    /// The job that came of work that it gave.
    pub(super) async fn read_gift(&self, gift: Gift) -> Result<GivenJob, HandlerError> {
        let agent = gift.agent.parse().map_err(|error: InvalidName| HandlerError::new(error.to_string()))?;
        match self.ask(Asked::Gift(gift.way, agent, gift.key)).await {
            Told::Returned(json) => serde_json::from_slice(&json)
                .map(|Given { child, session, .. }| GivenJob { job: child, session, already_given: true })
                .map_err(|error| HandlerError::new(error.to_string())),
            Told::Erased | Told::Failed { .. } | Told::Reversed | Told::Over => std::future::pending().await,
        }
    }

    /// What the step returned.
    pub(super) async fn read_step<T: DeserializeOwned>(&self, given: &str) -> Result<T, HandlerError> {
        let name: StepName = given.parse().map_err(|invalid| final_error(StepError::Name(invalid)))?;
        match self.ask(Asked::Step(name.clone())).await {
            Told::Returned(json) => read_output(&name, &json),
            Told::Erased => Err(final_error(StepError::OutputErased { name: name.to_string() })),
            Told::Failed { error, .. } => Err(HandlerError::new(error)),
            // A step is not what is reversed.
            Told::Reversed | Told::Over => std::future::pending().await,
        }
    }

    fn finish(&self, returned: Option<Result<&[u8], &str>>) -> Report {
        std::mem::take(&mut *self.script.lock().unwrap_or_else(PoisonError::into_inner)).finish(returned)
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replay")
    }
}

impl HandlerWorker {
    /// Where `tenure replay --strict` started this program: replays the job, reports, and ends the process. In every other case
    /// it returns at once. Call it before [`HandlerWorker::start`], which refuses to start a worker where a replay was asked for.
    ///
    /// ```no_run
    /// # use tenure_worker::{Worker, WorkerOptions, handler::{HandlerError, RunContext}};
    /// # async fn greet(_: RunContext, _: String) -> Result<String, HandlerError> { Ok(String::new()) }
    /// # async fn start(options: WorkerOptions) -> Result<(), Box<dyn std::error::Error>> {
    /// let worker = Worker::agent("greeter", "2", greet).replay_if_asked().await.start(options)?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replay_if_asked(self) -> Self {
        let Some(journal) = env::var_os(JOURNAL_VARIABLE) else { return self };
        let version = env::var(VERSION_VARIABLE).ok();
        let answer = match self.replay(Path::new(&journal), version.as_deref()).await {
            Ok(report) => Answer::Report(report),
            Err(error) => Answer::Refused(describe(&error)),
        };
        let agrees = matches!(&answer, Answer::Report(Report { divergence: None, .. }));
        let told = env::var_os(REPORT_VARIABLE).is_some_and(|path| tell(Path::new(&path), &answer).is_ok());
        std::process::exit(i32::from(!(agrees && told)));
    }

    /// Replays a job against its journal, a file with a [`Line`] for each record, in order. Of several versions of the job's
    /// agent one is named.
    ///
    /// # Errors
    /// The journal cannot be read, or no handler fits.
    pub async fn replay(self, journal: &Path, version: Option<&str>) -> Result<Report, ReplayError> {
        let handlers = Handlers::collect(self.into_given())?;
        let records = read_journal(journal)?;
        let Scene { grant, input, earlier } = compose_scene(&records)?;
        let handler = choose_handler(&handlers, &grant.agent, version)?;
        let mut script = Script::default();
        for (record, value) in &records {
            script.take_record(record, value.as_deref());
        }
        let replay = Arc::new(Replay { script: Mutex::new(script), over: CancellationToken::new() });
        let ending = EndingAsk::default();
        let context =
            RunContext::replayed(Arc::new(grant), Arc::clone(&replay), earlier, ending, Arc::clone(&handler));
        Ok(call_handler(handler, context, input, &replay).await)
    }
}

/// Calls it in a task of its own: its panic is its own.
async fn call_handler(handler: Arc<Handler>, context: RunContext, input: Bytes, replay: &Replay) -> Report {
    let called = async move { handler.call(context, input).await.map_err(HandlerError::tell) };
    let mut task = AbortOnDropHandle::new(tokio::spawn(called));
    let ended = tokio::select! {
        biased;
        () = replay.over.cancelled() => None,
        ended = &mut task => Some(ended),
    };
    match ended {
        None => replay.finish(None),
        Some(Ok(Ok(output))) => replay.finish(Some(Ok(&output))),
        Some(Ok(Err(error))) => replay.finish(Some(Err(&error.words))),
        Some(Err(_)) => replay.finish(Some(Err("it panicked"))),
    }
}

fn tell(path: &Path, answer: &Answer) -> io::Result<()> {
    fs::write(path, serde_json::to_vec(answer)?)
}

fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

/// A record with the value beside it.
type Read = (Record, Option<Vec<u8>>);

/// Records of kinds that this release does not know say nothing that a handler could have asked for.
fn read_journal(path: &Path) -> Result<Vec<Read>, ReplayError> {
    let unreadable = |source| ReplayError::Unreadable { path: path.to_owned(), source };
    let file = io::BufReader::new(fs::File::open(path).map_err(unreadable)?);
    let mut records = Vec::new();
    for (number, line) in (1..).zip(file.lines()) {
        let line = line.map_err(unreadable)?;
        let invalid = |source| ReplayError::InvalidLine { path: path.to_owned(), line: number, source };
        let Line { record, value } = serde_json::from_str(&line).map_err(invalid)?;
        if let Ok(record) = serde_json::from_str(&record) {
            records.push((record, value));
        }
    }
    Ok(records)
}

/// What the handler is called with: as the last run of the job was that worked forward.
struct Scene {
    grant: RunGrant,
    input: Bytes,
    earlier: EarlierRuns,
}

fn compose_scene(records: &[Read]) -> Result<Scene, ReplayError> {
    let admitted = records.iter().find_map(|(record, value)| match &record.kind {
        RecordKind::JobAdmitted { agent, deadline, traceparent, .. } => {
            Some((record, agent, deadline, traceparent, value))
        }
        _ => None,
    });
    let started = records.iter().rev().find_map(|(record, _)| match &record.kind {
        RecordKind::RunStarted { term, attach, cause, .. } if record.phase == Phase::Forward => {
            Some((record, *term, *attach, cause))
        }
        _ => None,
    });
    let (Some((first, agent, deadline, traceparent, input)), Some((start, term, attach, cause))) =
        (admitted, started)
    else {
        return Err(ReplayError::NeverRan);
    };
    let deadline_at = match deadline {
        DeadlineSetting::CeilingS(seconds) => Some(add(first.at, std::time::Duration::from_secs(*seconds))),
        DeadlineSetting::At(at) => Some(*at),
        DeadlineSetting::None => None,
    };
    let mut history = History::up_to(start.seq);
    records.iter().for_each(|(record, value)| history.take_record(record.clone(), value.clone()));
    let handover = history
        .compose_handover(start.at, &Deadline::new(start.at, deadline_at))
        .ok_or(ReplayError::NeverRan)?;
    let json = handover.to_json().unwrap_or_default();
    let earlier = EarlierRuns::read(&json).map_err(|_| ReplayError::NeverRan)?;
    let input = Bytes::from(input.clone().ok_or(ReplayError::InputErased)?);
    let grant = RunGrant {
        run: RunRef {
            tenant: start.tenant.clone(),
            job: start.job,
            epoch: start.epoch,
            run: start.run,
            generation: start.generation,
        },
        term,
        attach,
        secret: RunSecret::from_bytes([0; 32]),
        agent: agent.to_string(),
        declaration: Bytes::new(),
        input: GrantInput::Bytes(input.clone()),
        handover: json.into(),
        brief: brief(&handover),
        preamble: String::new(),
        deadline_at,
        session_started_at: Some(first.at),
        now: start.at,
        arrived: BootInstant::now(),
        seq: start.seq,
        trace: traceparent.as_ref().and_then(|given| given.parse().ok()),
        attempt: cause.attempt(),
        phase: Phase::Forward,
    };
    Ok(Scene { grant, input, earlier })
}

fn choose_handler(
    handlers: &Handlers,
    agent: &str,
    version: Option<&str>,
) -> Result<Arc<Handler>, ReplayError> {
    let agent: AgentName = agent.parse().map_err(InvalidHandler::Name)?;
    let held = || handlers.labels().collect::<Vec<_>>().join(", ");
    let fitting: Vec<_> =
        handlers.list(&agent).filter(|held| version.is_none_or(|named| held.is_version(named))).collect();
    match fitting.as_slice() {
        [one] => Ok(Arc::clone(one)),
        [] => Err(ReplayError::NotHeld { agent, version: version.map(str::to_owned), held: held() }),
        _ => Err(ReplayError::Ambiguous { agent, held: held() }),
    }
}
