//! One stream to one coordinator, from the hello to its end: opened here, then sent to and received from side by side.

use std::sync::{Arc, Mutex};

use tenure_core::{id::Attach, limits, reason::Reason};
use tenure_proto::{
    convert::run::write_run_ref,
    status::status_to_refusal,
    v1::{
        AttachHello, AttachRequest, AttachResponse, Attached, attach_request, attach_response,
        worker_service_client::WorkerServiceClient,
    },
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use tracing::info;

use super::{receiver::receive_messages, renewals::Renewals, sender::send_outgoing};
use crate::{context::WorkerContext, term::HeldTerm};

/// How many messages may lie between the outbox and the connection. More would let output stand before a renewal.
const SEND_AHEAD_MESSAGES: usize = 1;

/// Why a stream is over.
#[derive(Debug)]
pub(super) enum StreamEnd {
    /// Another one is to be opened.
    Lost(String),
    /// The coordinator closed it in an orderly way; as good as lost for who does not leave.
    Closed,
    /// The term is over.
    TermClosed,
    /// The worker left, and what it said was heard.
    Left,
}

/// An attached stream.
pub(super) struct Stream {
    pub(super) context: Arc<WorkerContext>,
    pub(super) term: Arc<HeldTerm>,
    pub(super) attach: Attach,
    pub(super) incoming: Streaming<AttachResponse>,
    pub(super) renewals: Arc<Mutex<Renewals>>,
    /// Messages of a kind that this release does not know.
    pub(super) unknown_messages: u64,
    /// Taken by the sending half, which closes it.
    outgoing: Option<mpsc::Sender<AttachRequest>>,
}

/// Attaches at the next coordinator.
pub(super) async fn open_stream(
    context: &Arc<WorkerContext>,
    term: &Arc<HeldTerm>,
) -> Result<Stream, StreamEnd> {
    let opening = try_open(context, term);
    match timeout(limits::ATTACH_TIMEOUT, opening).await {
        Ok(opened) => opened.map_err(|status| read_end(&status)),
        Err(_) => Err(StreamEnd::Lost("the coordinator does not answer the hello".to_owned())),
    }
}

async fn try_open(context: &Arc<WorkerContext>, term: &Arc<HeldTerm>) -> Result<Stream, Status> {
    let channel = context.endpoints.connect_next().await?;
    let mut client = WorkerServiceClient::new(channel)
        .max_decoding_message_size(limits::MESSAGE_MAX_BYTES)
        .max_encoding_message_size(limits::MESSAGE_MAX_BYTES);
    let (outgoing, requests) = mpsc::channel(SEND_AHEAD_MESSAGES);
    // The list's version is read before the list: a change in between is sent once more.
    let renewals = Renewals::new(*context.held.watch_changes().borrow());
    let hello = attach_request::Message::Hello(compose_hello(context, term));
    let _ = outgoing.send(AttachRequest { message: Some(hello) }).await;
    let mut incoming = client.attach(ReceiverStream::new(requests)).await?.into_inner();
    let attached = receive_attached(&mut incoming).await?;
    info!(term = term.number().0, attach = attached.attach, "attached");
    context.outbox.rewind(attached.output_window_bytes);
    Ok(Stream {
        context: Arc::clone(context),
        term: Arc::clone(term),
        attach: Attach(attached.attach),
        incoming,
        renewals: Arc::new(Mutex::new(renewals)),
        unknown_messages: 0,
        outgoing: Some(outgoing),
    })
}

fn compose_hello(context: &WorkerContext, term: &HeldTerm) -> AttachHello {
    AttachHello {
        worker: context.name.to_string(),
        term: term.number().0,
        secret: term.secret(),
        runs: context.held.list().iter().map(write_run_ref).collect(),
    }
}

async fn receive_attached(incoming: &mut Streaming<AttachResponse>) -> Result<Attached, Status> {
    match incoming.message().await?.and_then(|response| response.message) {
        Some(attach_response::Message::Attached(attached)) => Ok(attached),
        Some(_) => Err(Status::internal("the coordinator's first message does not answer the hello")),
        None => Err(Status::unavailable("the coordinator closed the stream before it answered the hello")),
    }
}

impl Stream {
    /// Sends and receives until the stream is over.
    pub(super) async fn run(mut self) -> StreamEnd {
        let Some(outgoing) = self.outgoing.take() else { return StreamEnd::Left };
        let (context, term, renewals) =
            (Arc::clone(&self.context), Arc::clone(&self.term), Arc::clone(&self.renewals));
        let sending = send_outgoing(&context, &term, &renewals, outgoing);
        let mut receiving = std::pin::pin!(receive_messages(&mut self));
        let said_all = tokio::select! {
            biased;
            end = &mut receiving => return end,
            said_all = sending => said_all,
        };
        if !said_all {
            return StreamEnd::Lost("the coordinator takes nothing more".to_owned());
        }
        // The worker's half is closed: the coordinator takes what is in it, and closes its own.
        match receiving.await {
            StreamEnd::Closed => StreamEnd::Left,
            end => end,
        }
    }
}

/// What a failed stream means. Whatever is not about the term is a reason to try the next coordinator, also a code that
/// the transport made up: a connection that breaks shows as unknown.
pub(super) fn read_end(status: &Status) -> StreamEnd {
    match status_to_refusal(status).map(|refusal| refusal.reason) {
        Some(Reason::TermClosed | Reason::AttachRefused) => StreamEnd::TermClosed,
        _ => StreamEnd::Lost(status.message().to_owned()),
    }
}
