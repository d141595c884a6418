//! The sending half of a stream: whatever the outbox says is next. A renewal is composed at the last moment, because the
//! local deadline counts from its sending.

use std::sync::{Arc, Mutex, PoisonError};

use tenure_proto::{
    convert::run::write_run_ref,
    v1::{AttachRequest, Renew, attach_request::Message},
};
use tokio::sync::mpsc;

use super::renewals::Renewals;
use crate::{context::WorkerContext, guardian::BootInstant, outbox::Outgoing, term::HeldTerm};

/// Sends until nothing more is to be sent, or the other half is gone: then false.
pub(super) async fn send_outgoing(
    context: &Arc<WorkerContext>,
    term: &HeldTerm,
    renewals: &Mutex<Renewals>,
    outgoing: mpsc::Sender<AttachRequest>,
) -> bool {
    // Room first, message second: what is most urgent is decided when it can really go.
    while let Ok(room) = outgoing.reserve().await {
        let message = match context.outbox.next_outgoing().await {
            None => return true,
            Some(Outgoing::Renewal) => compose_renewal(context, term, renewals),
            Some(Outgoing::Message(message)) => message,
        };
        room.send(AttachRequest { message: Some(message) });
    }
    false
}

fn compose_renewal(context: &WorkerContext, term: &HeldTerm, renewals: &Mutex<Renewals>) -> Message {
    let mut renewals = renewals.lock().unwrap_or_else(PoisonError::into_inner);
    let version = *context.held.watch_changes().borrow();
    let runs_given = renewals.list_changed(version);
    let runs = if runs_given { context.held.list().iter().map(write_run_ref).collect() } else { Vec::new() };
    let no = renewals.record_sent(BootInstant::now(), version);
    Message::Renew(Renew { echo: term.echo(), runs, runs_given, no })
}
