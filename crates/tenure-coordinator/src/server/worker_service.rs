//! `WorkerService`: registering and attaching workers, the reports of guardians, what a run asks about its effects, what it
//! gives to agents, the list. Registering and being connected
//! are different things: the one opens a term, the other is a stream. Neighbours: `attachment` serves the stream, `gone`
//! settles what guardians report.

use std::{sync::Arc, time::Duration};

use tenure_core::{
    id::{Digest, Term, WorkerName},
    limits::{LABEL_MAX_BYTES, LABELS_MAX, OUTPUT_WINDOW_BYTES, SLOTS_MAX, TTL_DEFAULT},
    reason::Reason,
    refusal::Refusal,
    term::check_ttl,
};
use tenure_proto::{
    convert::{
        id::{read_agent_name, read_worker_name},
        run::read_run_refs,
        state::{read_fencing, write_fencing},
        time::{read_duration, write_duration, write_timestamp},
    },
    v1::{self, attach_request, attach_response, worker_service_server::WorkerService},
};
use tenure_store::{NewTerm, TermRefusal, WorkerRow};
use tonic::{Request, Response, Status, Streaming};

use super::{
    blobs::{put_result, read_input},
    call::{answer, answer_at_length, open, read_limit, refuse_cursor},
    caller::FleetCaller,
    effects::read_effect,
    followers::Stream,
    layovers::book_layover,
    sending::send_job,
    steps::read_steps,
    undo::read_step_to_undo,
    waits::ask_wait,
};
use crate::{
    attachment::{AttachStream, serve_attachment},
    attachments::Attached,
    coordinator::{Parts, stopping},
    gone::settle_gone,
    mint::{Secret, hash_secret},
    refusals::refuse_store,
};

/// Workers on a page, where nothing is said.
const WORKERS_DEFAULT: u32 = 500;
/// The longest that a stream may stay without its hello.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// The longest version of a program that is kept.
const VERSION_MAX_BYTES: usize = 128;

/// The service.
pub(super) struct Workers {
    parts: Parts,
}

impl Workers {
    pub(super) fn new(parts: Parts) -> Self {
        Self { parts }
    }

    async fn register(
        &self,
        caller: FleetCaller,
        request: v1::RegisterWorkerRequest,
    ) -> Result<v1::RegisterWorkerResponse, Refusal> {
        let secret = Secret::mint();
        let new = read_term(caller, request, &secret)?;
        let registered =
            self.parts.store.register_worker(&new).await.map_err(|error| refuse_store(&error))?;
        tracing::info!(worker = %new.worker, term = %registered.term, slots = new.slots, "a worker registered");
        Ok(v1::RegisterWorkerResponse {
            term: registered.term.0,
            secret: secret.expose().into(),
            ttl: Some(write_duration(new.ttl)),
            answer: registered.answer,
            generation: registered.generation.0,
        })
    }

    async fn open_stream(
        &self,
        caller: FleetCaller,
        mut inbound: Streaming<v1::AttachRequest>,
    ) -> Result<AttachStream, Refusal> {
        let hello = read_hello(&mut inbound).await?;
        let worker = read_worker_name("hello.worker", &hello.worker)?;
        let runs = read_run_refs(&hello.runs)?;
        let (term, secret) = (Term(hello.term), Digest(hash_secret(&hello.secret)));
        let registration = self.parts.store.attach_worker(&worker, term, secret, &caller.tenants).await;
        let registration = registration
            .map_err(|error| refuse_store(&error))?
            .map_err(|refusal| refuse_attach(&worker, term, refusal))?;
        let ttl = registration.ttl;
        let (attached, messages) = Attached::new(worker, term, registration, runs);
        let attached = Arc::new(attached);
        attached.send(attach_response::Message::Attached(v1::Attached {
            attach: attached.attach().0,
            ttl: Some(write_duration(ttl)),
            output_window_bytes: OUTPUT_WINDOW_BYTES,
        }));
        self.parts.attachments.add(attached.clone())?;
        if self.parts.stopping.is_cancelled() {
            attached.close(stopping());
        }
        tracing::info!(worker = %attached.worker, term = %attached.term, attach = %attached.attach(), "a worker attached");
        self.parts.tasks.spawn(serve_attachment(self.parts.clone(), attached.clone(), inbound));
        self.parts.tasks.spawn(end_without_standing(caller, attached.clone()));
        Ok(AttachStream::new(attached, messages))
    }

    async fn list(
        &self,
        caller: &FleetCaller,
        request: v1::ListWorkersRequest,
    ) -> Result<v1::ListWorkersResponse, Refusal> {
        let limit = read_limit(request.limit, WORKERS_DEFAULT)?;
        let after = read_cursor(&request.cursor)?;
        let after = after.as_ref().map(|(worker, term)| (worker, *term));
        let workers = self.parts.store.list_workers(&caller.tenants, after, limit).await;
        let workers = workers.map_err(|error| refuse_store(&error))?;
        let full = workers.len() == limit as usize;
        let cursor = workers.last().filter(|_| full).map(|last| format!("{}/{}", last.worker, last.term));
        let cursor = cursor.unwrap_or_default();
        Ok(v1::ListWorkersResponse { workers: workers.into_iter().map(write_worker).collect(), cursor })
    }
}

#[tonic::async_trait]
impl WorkerService for Workers {
    type AttachStream = AttachStream;
    type ReadInputStream = Stream<v1::ReadInputResponse>;

    async fn register_worker(
        &self,
        request: Request<v1::RegisterWorkerRequest>,
    ) -> Result<Response<v1::RegisterWorkerResponse>, Status> {
        let (caller, request) = open(request)?;
        answer(self.register(caller, request)).await
    }

    async fn attach(
        &self,
        request: Request<Streaming<v1::AttachRequest>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let (caller, inbound) = open(request)?;
        answer(self.open_stream(caller, inbound)).await
    }

    async fn report_gone(
        &self,
        request: Request<v1::ReportGoneRequest>,
    ) -> Result<Response<v1::ReportGoneResponse>, Status> {
        // The secret of the run is in the message, and is the guardian's only credential.
        let request = request.into_inner();
        answer(async {
            let already_known = settle_gone(&self.parts, request).await?;
            Ok(v1::ReportGoneResponse { already_known })
        })
        .await
    }

    async fn read_effect(
        &self,
        request: Request<v1::ReadEffectRequest>,
    ) -> Result<Response<v1::ReadEffectResponse>, Status> {
        let (caller, request): (FleetCaller, _) = open(request)?;
        answer(read_effect(&self.parts, &caller, request)).await
    }

    async fn read_steps(
        &self,
        request: Request<v1::ReadStepsRequest>,
    ) -> Result<Response<v1::ReadStepsResponse>, Status> {
        let (caller, request): (FleetCaller, _) = open(request)?;
        answer(read_steps(&self.parts, &caller, request)).await
    }

    async fn read_step_to_undo(
        &self,
        request: Request<v1::ReadStepToUndoRequest>,
    ) -> Result<Response<v1::ReadStepToUndoResponse>, Status> {
        let (caller, request): (FleetCaller, _) = open(request)?;
        answer(read_step_to_undo(&self.parts, &caller, request)).await
    }

    async fn ask_wait(
        &self,
        request: Request<v1::AskWaitRequest>,
    ) -> Result<Response<v1::AskWaitResponse>, Status> {
        let (caller, request): (FleetCaller, _) = open(request)?;
        answer(ask_wait(&self.parts, &caller, request)).await
    }

    async fn book_layover(
        &self,
        request: Request<v1::BookLayoverRequest>,
    ) -> Result<Response<v1::BookLayoverResponse>, Status> {
        let (caller, request): (FleetCaller, _) = open(request)?;
        answer(book_layover(&self.parts, &caller, request)).await
    }

    async fn read_input(
        &self,
        request: Request<v1::ReadInputRequest>,
    ) -> Result<Response<Self::ReadInputStream>, Status> {
        let (caller, request): (FleetCaller, _) = open(request)?;
        answer(read_input(&self.parts, caller, request)).await
    }

    async fn put_result(
        &self,
        request: Request<Streaming<v1::PutResultRequest>>,
    ) -> Result<Response<v1::PutResultResponse>, Status> {
        let (caller, inbound): (FleetCaller, _) = open(request)?;
        answer_at_length(put_result(&self.parts, &caller, inbound)).await
    }

    async fn send_job(
        &self,
        request: Request<v1::SendJobRequest>,
    ) -> Result<Response<v1::SendJobResponse>, Status> {
        let (caller, request): (FleetCaller, _) = open(request)?;
        answer(send_job(&self.parts, &caller, request)).await
    }

    async fn list_workers(
        &self,
        request: Request<v1::ListWorkersRequest>,
    ) -> Result<Response<v1::ListWorkersResponse>, Status> {
        let (caller, request) = open(request)?;
        answer(self.list(&caller, request)).await
    }
}

async fn read_hello(inbound: &mut Streaming<v1::AttachRequest>) -> Result<v1::AttachHello, Refusal> {
    let first = tokio::time::timeout(HELLO_WITHIN, inbound.message()).await;
    match first {
        Ok(Ok(Some(v1::AttachRequest { message: Some(attach_request::Message::Hello(hello)) }))) => Ok(hello),
        Ok(Ok(_)) => {
            Err(Refusal::new(Reason::InvalidArgument, "the first message of a worker's stream is no hello"))
        }
        Ok(Err(status)) => Err(Refusal::new(Reason::InvalidArgument, format!("no hello came: {status}"))),
        Err(_) => {
            let words = format!("no hello came within {} s", HELLO_WITHIN.as_secs());
            Err(Refusal::new(Reason::InvalidArgument, words))
        }
    }
}

/// A worker whose credential is worth nothing any more is told so, and its stream ends.
async fn end_without_standing(caller: FleetCaller, attached: Arc<Attached>) {
    tokio::select! {
        () = attached.closing().cancelled() => {}
        refusal = caller.standing.until_withdrawn() => {
            tracing::warn!(worker = %attached.worker, term = %attached.term, code = refusal.reason.code(), "a worker's credential ended");
            attached.close(refusal);
        }
    }
}

fn refuse_attach(worker: &WorkerName, term: Term, refusal: TermRefusal) -> Refusal {
    match refusal {
        TermRefusal::WrongSecret => Refusal::new(
            Reason::AttachRefused,
            format!("the secret is not that of the registration of worker {worker} under term {term}"),
        ),
        // Registering anew is what helps, as with a secret of another registration.
        TermRefusal::OtherTenants => Refusal::new(
            Reason::AttachRefused,
            format!(
                "the credential does not name every tenant for which worker {worker} registered under term {term}: register anew"
            ),
        ),
        TermRefusal::Displaced => {
            Refusal::new(Reason::Displaced, format!("another attach of term {term} took over"))
        }
        TermRefusal::Unknown | TermRefusal::Closed | TermRefusal::Lapsed => Refusal::new(
            Reason::TermClosed,
            format!("term {term} of worker {worker} is closed: register anew"),
        ),
    }
}

fn read_term(
    caller: FleetCaller,
    request: v1::RegisterWorkerRequest,
    secret: &Secret,
) -> Result<NewTerm, Refusal> {
    let ttl = match &request.ttl {
        None => TTL_DEFAULT,
        Some(ttl) => check_ttl(Duration::from_millis(
            u64::try_from(read_duration("ttl", ttl)?.as_millis()).unwrap_or(u64::MAX),
        ))?,
    };
    if !(1..=SLOTS_MAX).contains(&request.slots) {
        let words = format!("{} slots were given, and 1 to {SLOTS_MAX} are taken", request.slots);
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "slots"));
    }
    check_labels(&request.labels)?;
    if request.version.len() > VERSION_MAX_BYTES || request.version.contains(char::is_control) {
        let words = format!(
            "the version has {} bytes, and at most {VERSION_MAX_BYTES} without control characters are taken",
            request.version.len()
        );
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "version"));
    }
    Ok(NewTerm {
        worker: read_worker_name("name", &request.name)?,
        secret_hash: Digest(secret.hash()),
        labels: request.labels,
        agents: request
            .agents
            .iter()
            .map(|agent| read_agent_name("agents", agent))
            .collect::<Result<_, _>>()?,
        tenants: caller.tenants,
        slots: request.slots,
        ttl,
        fencing: read_fencing("fencing", request.fencing)?,
        version: request.version,
    })
}

fn check_labels(labels: &[String]) -> Result<(), Refusal> {
    let bad = labels.iter().find(|label| {
        label.trim().is_empty() || label.len() > 2 * LABEL_MAX_BYTES || label.contains(char::is_control)
    });
    if labels.len() > LABELS_MAX || bad.is_some() {
        let words = format!(
            "{} labels were given, and at most {LABELS_MAX} are taken, none of them blank, with control characters or longer than {} bytes",
            labels.len(),
            2 * LABEL_MAX_BYTES
        );
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "labels"));
    }
    Ok(())
}

fn read_cursor(cursor: &str) -> Result<Option<(WorkerName, Term)>, Refusal> {
    if cursor.is_empty() {
        return Ok(None);
    }
    let read = || {
        let (worker, term) = cursor.rsplit_once('/')?;
        Some((worker.parse().ok()?, Term(term.parse().ok()?)))
    };
    read().map(Some).ok_or_else(|| refuse_cursor(cursor))
}

fn write_worker(row: WorkerRow) -> v1::Worker {
    v1::Worker {
        name: row.worker.to_string(),
        term: row.term.0,
        labels: row.labels,
        agents: row.agents.iter().map(ToString::to_string).collect(),
        slots: row.slots,
        leases: row.leases,
        fencing: write_fencing(row.fencing).into(),
        version: row.version,
        registered_at: Some(write_timestamp(row.registered_at)),
        renewed_at: Some(write_timestamp(row.renewed_at)),
        expires_at: Some(write_timestamp(row.expires_at)),
        closed_at: row.closed_at.map(write_timestamp),
        ttl: Some(write_duration(row.ttl)),
    }
}
