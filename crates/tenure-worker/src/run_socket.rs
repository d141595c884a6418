//! The socket of one run: what the program inside may say about itself. The identity is the socket: it belongs to the
//! run's user alone (mode 0600), it is made before the child and it is gone with the run, so whoever speaks here speaks
//! for this run, and may fill no more of the worker than is set aside for one run. A note is answered when it is durable and not before. Once the run is over, or another holds its job,
//! everything is refused, saying who. It is no place for anybody else: people ask a coordinator.
//! Neighbours: `executor` opens and closes it, `outbox` carries the notes, `effect` answers for effects, `gifts` for work that is
//! given.

mod connections;
mod standing;

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{PermissionsExt as _, chown},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use prost_types::Timestamp;
use tenure_core::{
    admission::Spend,
    deadline::ceil_seconds,
    id::Seq,
    limits,
    memory::check_memory,
    money::Micros,
    reason::Reason,
    refusal::Refusal,
    sending::Way,
    wait::{Until, Wait},
};
use tenure_proto::{
    convert::{
        InvalidField, require,
        time::write_timestamp,
        wait::{read_awaited_ids, read_until},
    },
    status::refusal_to_status,
    v1::{
        GetRunStatusRequest, GetRunStatusResponse, GetStepToUndoRequest, GetStepToUndoResponse,
        GiveWorkRequest, GiveWorkResponse, PerformEffectRequest, PerformEffectResponse, RecordSpendRequest,
        RecordSpendResponse, RememberRequest, RememberResponse, SetDownRequest, SetDownResponse, WaitOver,
        WaitRequest, WaitResponse, WriteNoteRequest, WriteNoteResponse,
        run_service_server::{RunService, RunServiceServer},
    },
};
use tokio::{
    net::UnixListener,
    sync::{Semaphore, watch},
    task::JoinHandle,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status,
    transport::{Server, server::UdsConnectInfo},
};
use tracing::warn;

use self::connections::accept_connections;
pub(crate) use self::standing::RunStanding;
use crate::{
    effect::RunEffects,
    gifts::{Gift, GivenJob, RunGifts},
    guardian::BootInstant,
    journal::Report,
    layover::RunBookings,
    runner::{ProcessHandle, RunUser},
    wait::{RunWaits, WaitAsk},
};

/// An open socket. Dropping it closes it and removes its file.
#[derive(Debug)]
pub(crate) struct RunSocket {
    path: PathBuf,
    server: JoinHandle<()>,
}

/// Opens the socket of a run.
pub(crate) fn serve_run_socket(
    path: PathBuf,
    owner: Option<&RunUser>,
    voice: Arc<RunVoice>,
) -> io::Result<RunSocket> {
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    if let Some(owner) = owner {
        chown(&path, Some(owner.uid), Some(owner.gid))?;
    }
    let service =
        RunServiceServer::from_arc(voice).max_decoding_message_size(limits::RUN_SOCKET_REQUEST_MAX_BYTES);
    let served = Server::builder()
        .max_concurrent_streams(limits::RUN_SOCKET_REQUESTS_MAX)
        .add_service(service)
        .serve_with_incoming(accept_connections(listener, limits::RUN_SOCKET_CONNECTIONS_MAX));
    let server = tokio::spawn(async move {
        if let Err(error) = served.await {
            warn!(%error, "the socket of a run is not served any more");
        }
    });
    Ok(RunSocket { path, server })
}

impl Drop for RunSocket {
    fn drop(&mut self) {
        self.server.abort();
        // Whoever removed it first had the same in mind.
        let _ = fs::remove_file(&self.path);
    }
}

/// What a run says through its socket, and where it stands.
#[derive(Debug)]
pub(crate) struct RunVoice {
    standing: Arc<RunStanding>,
    effects: Arc<RunEffects>,
    waits: RunWaits,
    gifts: RunGifts,
    bookings: RunBookings,
    notes: AtomicU64,
    in_flight: Arc<Semaphore>,
}

impl RunVoice {
    /// The voice of a run whose child is not started yet, and its effects.
    pub(crate) fn new(standing: Arc<RunStanding>, effects: Arc<RunEffects>) -> Self {
        let in_flight = Arc::new(Semaphore::new(limits::NOTES_IN_FLIGHT_MAX));
        let gifts = RunGifts::new(Arc::clone(&standing));
        let (waits, bookings) = (RunWaits::default(), RunBookings::default());
        Self { standing, effects, gifts, waits, bookings, notes: AtomicU64::new(0), in_flight }
    }

    /// From now on notes and effects are signs of life of this process.
    pub(crate) fn speak_for(&self, process: ProcessHandle) {
        self.standing.speak_for(process);
    }

    /// The run is over: nothing more is begun. Returns once what was said about effects until now stands in the outbox, so
    /// that the run's end comes after it.
    pub(crate) async fn end(&self) {
        self.standing.over.cancel();
        self.effects.wait_until_said().await;
    }

    /// Hears of the wait that ends the run.
    pub(crate) fn watch_waits(&self) -> watch::Receiver<Option<Wait>> {
        self.standing.watch_announced()
    }

    /// Waits; see [`RunWaits::wait`].
    pub(crate) async fn wait(&self, ask: WaitAsk) -> Result<WaitOver, Refusal> {
        self.waits.wait(&self.standing, ask).await
    }

    /// Sets the work down; returns the instant once that is durable.
    pub(crate) async fn set_down(
        &self,
        until: Until,
        waiting_for: &str,
    ) -> Result<Option<Timestamp>, Refusal> {
        let booked = self.bookings.book(&self.standing, until, waiting_for).await?;
        Ok(booked.until)
    }

    /// The last booking, as the position of its record.
    pub(crate) fn last_booking(&self) -> Option<Seq> {
        self.bookings.last()
    }

    /// Leaves a note; returns once it is durable.
    pub(crate) async fn write_note(&self, text: &str) -> Result<Seq, Refusal> {
        ensure_note_size(text.len())?;
        if text.trim().is_empty() {
            return Err(Refusal::new(Reason::ReasonMissing, "the note is blank"));
        }
        let text = self.standing.redactor.redact_text(text);
        ensure_note_size(text.len())?;
        let seq = self.say(Report::Note(text)).await?;
        self.notes.fetch_add(1, Ordering::Relaxed);
        Ok(seq)
    }

    /// Says what was spent; returns once it is durable.
    pub(crate) async fn record_spend(&self, spend: Spend) -> Result<Seq, Refusal> {
        spend.check()?;
        self.say(Report::Spend(spend)).await
    }

    /// Leaves a line that the agent is to remember; returns once it is durable.
    pub(crate) async fn remember(&self, text: &str) -> Result<Seq, Refusal> {
        check_memory(text)?;
        let text = self.standing.redactor.redact_text(text);
        check_memory(&text)?;
        self.say(Report::Memory(text)).await
    }

    /// Says something that is answered once it is durable, when its turn comes.
    async fn say(&self, report: Report) -> Result<Seq, Refusal> {
        let standing = &self.standing;
        standing.ensure_speaking()?;
        // Never closed: an error would mean that there is nothing to bound.
        let turn = Arc::clone(&self.in_flight).acquire_owned().await.ok();
        standing.ensure_speaking()?;
        standing.touch();
        let outbox = &standing.context.outbox;
        let answer = outbox.add_bounded_report(&standing.grant.run, report, turn).await;
        standing.read_durable(answer.ok())
    }

    /// Gives work to an agent; returns once the job exists.
    pub(crate) async fn give(&self, gift: Gift) -> Result<GivenJob, Refusal> {
        self.gifts.give(gift).await
    }

    fn read_status(&self) -> GetRunStatusResponse {
        let grant = &self.standing.grant;
        let now = grant.database_time(BootInstant::now());
        let left = grant.deadline_at.map(|at| at.duration_since(now).try_into().unwrap_or_default());
        GetRunStatusResponse {
            job_id: grant.run.job.to_string(),
            run: grant.run.run.0,
            epoch: grant.run.epoch.0,
            attempt: grant.attempt,
            worker: self.standing.context.name.to_string(),
            deadline_at: grant.deadline_at.map(write_timestamp),
            remaining_s: left.map(ceil_seconds),
            notes: self.notes.load(Ordering::Relaxed),
            cancel_requested: self.standing.notice().is_some_and(|notice| notice.is_cancel()),
        }
    }
}

#[tonic::async_trait]
impl RunService for RunVoice {
    async fn write_note(
        &self,
        request: Request<WriteNoteRequest>,
    ) -> Result<Response<WriteNoteResponse>, Status> {
        let written = Self::write_note(self, &request.get_ref().text).await;
        written
            .map(|seq| Response::new(WriteNoteResponse { seq: seq.0 }))
            .map_err(|refusal| refusal_to_status(&refusal))
    }

    async fn record_spend(
        &self,
        request: Request<RecordSpendRequest>,
    ) -> Result<Response<RecordSpendResponse>, Status> {
        let RecordSpendRequest { tokens, cost_micros, turns } = *request.get_ref();
        let spent = Self::record_spend(self, Spend { tokens, cost: Micros(cost_micros), turns }).await;
        spent
            .map(|seq| Response::new(RecordSpendResponse { seq: seq.0 }))
            .map_err(|refusal| refusal_to_status(&refusal))
    }

    async fn remember(
        &self,
        request: Request<RememberRequest>,
    ) -> Result<Response<RememberResponse>, Status> {
        let remembered = Self::remember(self, &request.get_ref().text).await;
        remembered
            .map(|seq| Response::new(RememberResponse { seq: seq.0 }))
            .map_err(|refusal| refusal_to_status(&refusal))
    }

    type PerformEffectStream = tonic::codegen::BoxStream<PerformEffectResponse>;

    async fn perform_effect(
        &self,
        request: Request<tonic::Streaming<PerformEffectRequest>>,
    ) -> Result<Response<Self::PerformEffectStream>, Status> {
        self.standing.ensure_speaking().map_err(|refusal| refusal_to_status(&refusal))?;
        let peer = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
        let answers = self.effects.take_call(request.into_inner(), peer);
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }

    async fn wait(&self, request: Request<WaitRequest>) -> Result<Response<WaitResponse>, Status> {
        let over = match read_wait_ask(request.into_inner()) {
            Ok(ask) => Self::wait(self, ask).await,
            Err(error) => Err(error.into()),
        };
        over.map(|over| Response::new(WaitResponse { over: Some(over) }))
            .map_err(|refusal| refusal_to_status(&refusal))
    }

    async fn set_down(&self, request: Request<SetDownRequest>) -> Result<Response<SetDownResponse>, Status> {
        let SetDownRequest { until, waiting_for } = request.into_inner();
        let until = read_until("until", until.as_ref()).and_then(|until| require("until", until));
        let booked = match until {
            Ok(until) => Self::set_down(self, until, &waiting_for).await,
            Err(error) => Err(error.into()),
        };
        booked
            .map(|until| Response::new(SetDownResponse { until }))
            .map_err(|refusal| refusal_to_status(&refusal))
    }

    async fn get_step_to_undo(
        &self,
        _request: Request<GetStepToUndoRequest>,
    ) -> Result<Response<GetStepToUndoResponse>, Status> {
        let step = self.effects.read_step_to_undo(Vec::new()).await.and_then(|step| match step {
            Some(step) if step.in_doubt => self.effects.check_probe(step),
            Some(step) if step.undo.is_empty() => {
                Err(self.effects.refuse_step(&step, "there is no command that undoes it"))
            }
            other => Ok(other),
        });
        step.map(|step| Response::new(GetStepToUndoResponse { step }))
            .map_err(|refusal| refusal_to_status(&refusal))
    }

    async fn give_work(
        &self,
        request: Request<GiveWorkRequest>,
    ) -> Result<Response<GiveWorkResponse>, Status> {
        let GiveWorkRequest { agent, body, spawn, key } = request.into_inner();
        let way = if spawn { Way::Spawn } else { Way::Send };
        let key = Some(key).filter(|key| !key.is_empty());
        let given = self.give(Gift { agent, body, way, key }).await;
        let write = |given: GivenJob| GiveWorkResponse {
            job_id: given.job.to_string(),
            session_id: given.session.to_string(),
            already_given: given.already_given,
        };
        given.map(|given| Response::new(write(given))).map_err(|refusal| refusal_to_status(&refusal))
    }

    async fn get_run_status(
        &self,
        _request: Request<GetRunStatusRequest>,
    ) -> Result<Response<GetRunStatusResponse>, Status> {
        self.standing.ensure_speaking().map_err(|refusal| refusal_to_status(&refusal))?;
        Ok(Response::new(self.read_status()))
    }
}

fn read_wait_ask(request: WaitRequest) -> Result<WaitAsk, InvalidField> {
    let until = read_until("until", request.until.as_ref())?;
    let jobs = read_awaited_ids("job_ids", &request.job_ids)?;
    Ok(WaitAsk { key: request.key, until, jobs })
}

fn ensure_note_size(length_bytes: usize) -> Result<(), Refusal> {
    if length_bytes <= limits::NOTE_MAX_BYTES {
        return Ok(());
    }
    let said = format!("the note has {length_bytes} bytes, and {} are taken", limits::NOTE_MAX_BYTES);
    Err(Refusal::new(Reason::NoteTooLarge, said)
        .with_detail("field", "text")
        .with_detail("size_bytes", length_bytes)
        .with_detail("limit_bytes", limits::NOTE_MAX_BYTES))
}
