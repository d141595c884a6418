//! The worker's connection to the fleet. It owns the registration, the one stream to a coordinator, and what happens when
//! either is gone: a lost stream is opened again at the next coordinator, with jittered backoff, and everything
//! unacknowledged is sent again; a closed term ends every run and is followed by a new registration. A run does not
//! notice that a coordinator went away as long as another is found within the term.
//! It decides nothing about a run: grants go to `executor`, orders and answers to whoever waits for them.
//! Neighbours: `outbox` says what to send, `term` keeps the local deadline, `held_runs` what is held and refused.

mod answer;
mod credits;
mod receiver;
mod renewals;
mod sender;
mod stream;

use std::sync::Arc;

use tenure_core::{limits, reason::Class, refusal::Refusal};
use tenure_proto::{
    convert::{state::write_fencing, time::write_duration},
    status::status_to_refusal,
    v1::{RegisterWorkerRequest, worker_service_client::WorkerServiceClient},
};
use tokio::time::{sleep, timeout};
use tonic::Status;
use tracing::{info, warn};

use self::stream::{StreamEnd, open_stream};
use crate::{
    context::WorkerContext,
    endpoints::{describe_failure, reconnect_pauses},
    guardian::BootInstant,
    metrics::metrics,
    term::HeldTerm,
};

/// A worker that the fleet does not take.
#[derive(Debug, thiserror::Error)]
#[error("the worker {worker} could not be registered")]
pub struct RegistrationRefused {
    /// Its name.
    pub worker: String,
    /// Why.
    #[source]
    pub refusal: Refusal,
}

/// Stays registered and attached until the returned future is dropped, or the fleet refuses the worker for good.
pub(crate) async fn keep_attached(context: Arc<WorkerContext>) -> RegistrationRefused {
    loop {
        let term = match register_worker(&context).await {
            Ok(term) => Arc::new(term),
            Err(refused) => return refused,
        };
        info!(term = term.number().0, ttl_s = term.ttl().as_secs(), "registered");
        attach_until_closed(&context, &term).await;
        context.attached.send_replace(false);
        warn!(
            term = term.number().0,
            "the term is closed: its runs are ended, and the worker registers anew"
        );
        context.held.fence_all();
    }
}

/// Opens a term; tries one coordinator after the other until one answers.
async fn register_worker(context: &WorkerContext) -> Result<HeldTerm, RegistrationRefused> {
    let mut pauses = reconnect_pauses();
    loop {
        match try_register(context).await {
            Ok(term) => return Ok(term),
            Err(status) => match status_to_refusal(&status) {
                Some(refusal) if refusal.reason.class() == Class::Rejected => {
                    return Err(RegistrationRefused { worker: context.name.to_string(), refusal });
                }
                _ => warn!(
                    error = describe_failure(&status),
                    "the worker could not be registered; it tries again"
                ),
            },
        }
        sleep(pauses.next().unwrap_or(limits::RECONNECT_MAX)).await;
    }
}

async fn try_register(context: &WorkerContext) -> Result<HeldTerm, Status> {
    let channel = context.endpoints.connect_next().await?;
    let request = RegisterWorkerRequest {
        name: context.name.to_string(),
        labels: context.registered_labels(),
        agents: context.options.agents.clone(),
        slots: context.options.slots,
        ttl: Some(write_duration(context.options.ttl)),
        fencing: write_fencing(context.registered_fencing()).into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    // Before it is sent: the database may read its clock at any moment from now on.
    let sent = BootInstant::now();
    let mut client = WorkerServiceClient::new(channel);
    let answered = timeout(limits::ATTACH_TIMEOUT, client.register_worker(request)).await;
    let response = answered.map_err(|_| Status::unavailable("the coordinator does not answer"))??;
    HeldTerm::open(response.into_inner(), sent).map_err(|error| Status::internal(error.to_string()))
}

/// Attaches, again and again, until the term is closed.
async fn attach_until_closed(context: &Arc<WorkerContext>, term: &Arc<HeldTerm>) {
    let mut pauses = reconnect_pauses();
    loop {
        match open_stream(context, term).await {
            Ok(stream) => {
                pauses = reconnect_pauses();
                metrics().note_attach();
                context.attached.send_replace(true);
                match stream.run().await {
                    StreamEnd::TermClosed => return,
                    StreamEnd::Left => return wait_for_the_end(context).await,
                    StreamEnd::Closed => info!("the coordinator closed the stream; the worker attaches anew"),
                    StreamEnd::Lost(why) => info!(%why, "the stream is lost; the worker attaches anew"),
                }
                context.attached.send_replace(false);
            }
            Err(StreamEnd::TermClosed) => return,
            Err(StreamEnd::Left) => return wait_for_the_end(context).await,
            Err(StreamEnd::Closed) => {
                info!("the coordinator closed the stream at once; the worker tries again")
            }
            Err(StreamEnd::Lost(why)) => info!(%why, "the worker could not attach; it tries again"),
        }
        sleep(pauses.next().unwrap_or(limits::RECONNECT_MAX)).await;
    }
}

/// The worker left: it attaches no more.
async fn wait_for_the_end(context: &WorkerContext) {
    context.drain.note_left();
    std::future::pending().await
}
