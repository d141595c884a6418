//! Values for this crate's unit tests that show only what a test is about. Compiled for tests alone.

use std::path::Path;

use bytes::Bytes;
use jiff::Timestamp;
use tenure_core::{
    id::{Attach, Epoch, Generation, JobId, Run, Seq, Tenant, Term},
    record::Phase,
    run_ref::RunRef,
};
use tenure_proto::v1::RegisterWorkerResponse;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use crate::{
    context::{Work, WorkerContext},
    credential::WorkerCredential,
    drain::Drain,
    endpoints::Endpoints,
    grant::{GrantInput, RunGrant},
    guardian::{BootInstant, Fencing, RunSecret},
    held_runs::HeldRuns,
    options::WorkerOptions,
    outbox::Outbox,
    places::Places,
    runner::{GuardCommand, ProcessRunner},
    term::HeldTerm,
};

/// A worker under `directory` that nothing was done with yet.
pub(crate) fn worker_context(directory: &Path) -> WorkerContext {
    let endpoints = vec!["127.0.0.1:1".to_owned()];
    let options = WorkerOptions::new("w1", endpoints.clone(), directory.join("worker"));
    WorkerContext {
        name: "w1".parse().unwrap(),
        endpoints: Endpoints::parse(&endpoints, WorkerCredential::default()).unwrap(),
        run_as: None,
        work: Work::Processes(ProcessRunner::new(GuardCommand::default(), Fencing::Guardian)),
        held: HeldRuns::new(options.slots),
        outbox: Outbox::new(),
        drain: Drain::new(),
        runs: TaskTracker::new(),
        places: Places::make(&options).unwrap(),
        abandoned: CancellationToken::new(),
        attached: watch::Sender::new(false),
        options,
    }
}

/// Term 7, renewed last at `renewed`, which lives 30 seconds without a renewal.
pub(crate) fn held_term(renewed: BootInstant) -> HeldTerm {
    let ttl = Some(prost_types::Duration { seconds: 30, nanos: 0 });
    let response = RegisterWorkerResponse {
        term: 7,
        ttl,
        answer: 1,
        generation: 1,
        ..RegisterWorkerResponse::default()
    };
    HeldTerm::open(response, renewed).unwrap()
}

/// Run 1 of a job that is told apart by `number`, under epoch 1.
pub(crate) fn run_ref(number: u128) -> RunRef {
    RunRef {
        tenant: Tenant::default_tenant(),
        job: JobId(Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_0000 + number)),
        epoch: Epoch(1),
        run: Run(1),
        generation: Generation(1),
    }
}

/// A grant of that run under term 7 and attach 2.
pub(crate) fn run_grant(number: u128) -> RunGrant {
    RunGrant {
        run: run_ref(number),
        term: Term(7),
        attach: Attach(2),
        secret: RunSecret::from_bytes([9; 32]),
        agent: "greeter".to_owned(),
        declaration: Bytes::from_static(br#"{"command":["true"]}"#),
        input: GrantInput::Bytes(Bytes::new()),
        handover: Bytes::from_static(b"{}"),
        brief: String::new(),
        preamble: String::new(),
        deadline_at: None,
        session_started_at: None,
        now: Timestamp::UNIX_EPOCH,
        arrived: BootInstant::from_nanoseconds(1),
        seq: Seq(3),
        trace: None,
        attempt: 1,
        phase: Phase::Forward,
    }
}
