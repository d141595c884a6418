//! The socket of one run: what the program inside may say about itself. The identity is the socket: it belongs to the
//! run's user alone (mode 0600), it is made before the child and it is gone with the run, so whoever speaks here speaks
//! for this run, and may fill no more of the worker than is set aside for one run. A note is answered when it is durable and not before. Once the run is over, or another holds its job,
//! everything is refused, saying who. It is no place for anybody else: people ask a coordinator.
//! Neighbours: `executor` opens and closes it, `outbox` carries the notes.

mod connections;

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{PermissionsExt as _, chown},
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tenure_core::{deadline::ceil_seconds, id::Seq, limits, reason::Reason, refusal::Refusal};
use tenure_proto::{
    convert::time::write_timestamp,
    status::refusal_to_status,
    v1::{
        GetRunStatusRequest, GetRunStatusResponse, PerformEffectRequest, PerformEffectResponse,
        WriteNoteRequest, WriteNoteResponse,
        run_service_server::{RunService, RunServiceServer},
    },
};
use tokio::{
    net::UnixListener,
    sync::{Semaphore, oneshot, watch},
    task::JoinHandle,
};
use tonic::{Request, Response, Status, transport::Server};
use tracing::warn;

use self::connections::accept_connections;
use crate::{
    context::WorkerContext,
    grant::RunGrant,
    guardian::BootInstant,
    held_runs::{FencedBy, Orders},
    journal::{Report, ReportAnswer},
    runner::{ProcessHandle, Redactor, RunUser},
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
    context: Arc<WorkerContext>,
    grant: Arc<RunGrant>,
    orders: watch::Receiver<Orders>,
    redactor: Redactor,
    /// Known a moment after the socket.
    process: OnceLock<ProcessHandle>,
    over: AtomicBool,
    notes: AtomicU64,
    in_flight: Arc<Semaphore>,
}

impl RunVoice {
    /// The voice of a run whose child is not started yet.
    pub(crate) fn new(
        context: Arc<WorkerContext>,
        grant: Arc<RunGrant>,
        orders: watch::Receiver<Orders>,
        redactor: Redactor,
    ) -> Self {
        Self {
            context,
            grant,
            orders,
            redactor,
            process: OnceLock::new(),
            over: AtomicBool::new(false),
            notes: AtomicU64::new(0),
            in_flight: Arc::new(Semaphore::new(limits::NOTES_IN_FLIGHT_MAX)),
        }
    }

    /// From now on notes are signs of life of this process.
    pub(crate) fn speak_for(&self, process: ProcessHandle) {
        // Set once, by the executor that made this.
        let _ = self.process.set(process);
    }

    /// The run is over: nothing more is taken.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn ensure_speaking(&self) -> Result<(), Refusal> {
        if let Some(by) = &self.orders.borrow().fenced {
            return Err(self.fenced_refusal(by));
        }
        if self.over.load(Ordering::Acquire) {
            return Err(self.over_refusal());
        }
        Ok(())
    }

    async fn write_note(&self, text: &str) -> Result<Seq, Refusal> {
        ensure_note_size(text.len())?;
        if text.trim().is_empty() {
            return Err(Refusal::new(Reason::ReasonMissing, "the note is blank"));
        }
        let text = self.redactor.redact_text(text);
        ensure_note_size(text.len())?;
        self.ensure_speaking()?;
        // Never closed: an error would mean that there is nothing to bound.
        let turn = Arc::clone(&self.in_flight).acquire_owned().await.ok();
        self.ensure_speaking()?;
        if let Some(process) = self.process.get() {
            process.touch();
        }
        let answer = self.context.outbox.add_bounded_report(&self.grant.run, Report::Note(text), turn).await;
        let seq = self.read_answer(answer)?;
        self.notes.fetch_add(1, Ordering::Relaxed);
        Ok(seq)
    }

    fn read_answer(&self, answer: Result<ReportAnswer, oneshot::error::RecvError>) -> Result<Seq, Refusal> {
        match answer {
            Ok(ReportAnswer::Applied(seq) | ReportAnswer::Fenced { applied: Some(seq), .. }) => Ok(seq),
            Ok(ReportAnswer::Fenced { held_by, epoch, applied: None }) => {
                Err(self.fenced_refusal(&FencedBy { held_by, epoch: Some(epoch) }))
            }
            Ok(ReportAnswer::Refused { code, message }) => {
                Err(Refusal::new(Reason::from_code(&code).unwrap_or(Reason::Internal), message))
            }
            Ok(ReportAnswer::Sealed | ReportAnswer::Missing | ReportAnswer::Notice { .. }) | Err(_) => {
                Err(self.over_refusal())
            }
        }
    }

    fn fenced_refusal(&self, by: &FencedBy) -> Refusal {
        let run = &self.grant.run;
        let holder = match (&by.held_by, by.epoch) {
            (Some(worker), Some(epoch)) => format!("is held by worker {worker} under epoch {epoch}"),
            (None, Some(epoch)) => format!("is held by nobody under epoch {epoch}"),
            (_, None) => "is no longer held by this worker".to_owned(),
        };
        let said = format!("job {} {holder}, yours was {}", run.job.short(), run.epoch);
        let mut refusal = Refusal::new(Reason::Fenced, said)
            .with_detail("job", run.job)
            .with_detail("your_epoch", run.epoch)
            .with_next(format!("tenure job {}", run.job.short()));
        if let Some(worker) = &by.held_by {
            refusal = refusal.with_detail("held_by", worker);
        }
        if let Some(epoch) = by.epoch {
            refusal = refusal.with_detail("epoch", epoch);
        }
        refusal
    }

    fn over_refusal(&self) -> Refusal {
        let run = &self.grant.run;
        let said = format!(
            "run {} of job {} is over; worker {} held it under epoch {}",
            run.run,
            run.job.short(),
            self.context.name,
            run.epoch
        );
        Refusal::new(Reason::RunOver, said)
            .with_detail("job", run.job)
            .with_detail("held_by", &self.context.name)
            .with_next(format!("tenure job {}", run.job.short()))
    }

    fn read_status(&self) -> GetRunStatusResponse {
        let now = self.grant.database_time(BootInstant::now());
        let left = self.grant.deadline_at.map(|at| at.duration_since(now).try_into().unwrap_or_default());
        let orders = self.orders.borrow();
        GetRunStatusResponse {
            job_id: self.grant.run.job.to_string(),
            run: self.grant.run.run.0,
            epoch: self.grant.run.epoch.0,
            attempt: self.grant.attempt,
            worker: self.context.name.to_string(),
            deadline_at: self.grant.deadline_at.map(write_timestamp),
            remaining_s: left.map(ceil_seconds),
            notes: self.notes.load(Ordering::Relaxed),
            cancel_requested: orders.notice.as_ref().is_some_and(|notice| notice.is_cancel()),
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

    type PerformEffectStream = tonic::codegen::BoxStream<PerformEffectResponse>;

    async fn perform_effect(
        &self,
        _request: Request<tonic::Streaming<PerformEffectRequest>>,
    ) -> Result<Response<Self::PerformEffectStream>, Status> {
        Err(Status::unimplemented("effects are not served yet"))
    }

    async fn get_run_status(
        &self,
        _request: Request<GetRunStatusRequest>,
    ) -> Result<Response<GetRunStatusResponse>, Status> {
        self.ensure_speaking().map_err(|refusal| refusal_to_status(&refusal))?;
        Ok(Response::new(self.read_status()))
    }
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
