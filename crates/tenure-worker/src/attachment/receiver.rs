//! The receiving half of a stream: one message after the other goes to whoever waits for it. It also keeps the beat of
//! the renewals and gives a stream up that leaves one unanswered for half a term, while there is time to find another.

use std::sync::{Arc, PoisonError};

use tenure_core::{limits, run_ref::RunRef};
use tenure_proto::{
    convert::{InvalidField, run::read_run_ref},
    v1::{self, attach_response::Message, renewed::Outcome},
};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tracing::{debug, info, warn};

use super::{
    answer::{Standing, read_appended, read_order},
    credits::CreditBook,
    stream::{Stream, StreamEnd, read_end},
};
use crate::{
    context::WorkerContext,
    executor::start_run,
    grant::{GrantRefusal, GrantTerms, RunGrant},
    guardian::BootInstant,
    held_runs::{FencedBy, NotHeld},
    journal::ReportAnswer,
};

/// Receives until the stream is over.
pub(super) async fn receive_messages(stream: &mut Stream) -> StreamEnd {
    let context = Arc::clone(&stream.context);
    let mut beat = interval(stream.term.renew_interval());
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut held_changes = context.held.watch_changes();
    let mut drain = context.drain.watch_phase();
    let mut credits = CreditBook::default();
    context.drain.note_grants_may_come();
    loop {
        offer_credits(stream, &mut credits);
        let give_up_at = unanswered_limit(stream);
        tokio::select! {
            message = stream.incoming.message() => match message {
                Ok(Some(response)) => {
                    if let Some(end) = handle_message(stream, &mut credits, response.message) {
                        return end;
                    }
                }
                Ok(None) => return StreamEnd::Closed,
                Err(status) => return read_end(&status),
            },
            _ = beat.tick() => request_renewal(stream),
            () = sleep_until(give_up_at) => {
                return StreamEnd::Lost("the coordinator leaves a renewal unanswered".to_owned());
            }
            // The sender of both lives in the context, which this holds.
            _ = held_changes.changed() => {}
            _ = drain.changed() => {}
        }
    }
}

fn offer_credits(stream: &Stream, credits: &mut CreditBook) {
    if stream.context.drain.is_serving() {
        let more = credits.offer_more(stream.context.held.free_slots());
        if more > 0 {
            stream.context.outbox.offer_credits(more);
        }
    } else if credits.withdraw() {
        stream.context.outbox.withdraw_credits();
    }
}

fn request_renewal(stream: &Stream) {
    stream.renewals.lock().unwrap_or_else(PoisonError::into_inner).record_request();
    stream.context.outbox.request_renewal();
}

/// Until when the oldest unanswered renewal may stay so.
fn unanswered_limit(stream: &Stream) -> Instant {
    let renewals = stream.renewals.lock().unwrap_or_else(PoisonError::into_inner);
    // Nothing unanswered: the next beat comes before this and looks again.
    renewals.oldest_unanswered().unwrap_or_else(Instant::now) + stream.term.ttl() / 2
}

/// Hands one message on. Returns why the stream is over, where it is.
fn handle_message(
    stream: &mut Stream,
    credits: &mut CreditBook,
    message: Option<Message>,
) -> Option<StreamEnd> {
    let read = match message {
        Some(Message::Grant(grant)) => {
            credits.use_one();
            take_grant(stream, grant);
            Ok(())
        }
        Some(Message::Renewed(renewed)) => return take_renewed(stream, renewed),
        Some(Message::Appended(appended)) => take_appended(stream, appended),
        Some(Message::OutputWritten(written)) => take_output_written(stream, &written),
        Some(Message::Order(order)) => take_order(stream, order),
        Some(Message::LostGrants(lost)) => {
            refuse_lost(stream, lost);
            Ok(())
        }
        Some(Message::CreditsWithdrawn(_)) => {
            stream.context.drain.note_no_grant_comes();
            Ok(())
        }
        // A second answer to the hello, or a kind of a later release.
        Some(Message::Attached(_)) | None => {
            stream.unknown_messages += 1;
            debug!(ignored = stream.unknown_messages, "a message of an unknown kind is ignored");
            Ok(())
        }
    };
    if let Err(error) = read {
        warn!(%error, "a message of the coordinator could not be read");
    }
    None
}

fn take_grant(stream: &Stream, grant: v1::Grant) {
    let named = grant.run.clone().unwrap_or_default();
    let Err(refusal) = try_grant(stream, grant) else { return };
    info!(job = %named.job_id, epoch = named.epoch, why = %refusal, "a grant is refused");
    match refusal {
        GrantRefused::NotHeld(NotHeld::EarlierChild) => refuse_later(&stream.context, named),
        _ => refuse_run(&stream.context, named),
    }
}

/// Why nothing came of a grant.
#[derive(Debug, thiserror::Error)]
enum GrantRefused {
    #[error(transparent)]
    Unreadable(#[from] InvalidField),
    #[error(transparent)]
    NotAdmitted(#[from] GrantRefusal),
    #[error("the worker is draining")]
    Draining,
    #[error("the run cannot be held: {0:?}")]
    NotHeld(NotHeld),
}

fn try_grant(stream: &Stream, grant: v1::Grant) -> Result<(), GrantRefused> {
    let context = &stream.context;
    let now = BootInstant::now();
    let grant = RunGrant::read(grant, now)?;
    grant.admit(GrantTerms {
        term: stream.term.number(),
        attach: stream.attach,
        generation: stream.term.generation(),
        latest_start: stream.term.latest_start(),
        now,
    })?;
    if !context.drain.is_serving() {
        return Err(GrantRefused::Draining);
    }
    let orders = context.held.hold(&grant.run).map_err(GrantRefused::NotHeld)?;
    start_run(context, &stream.term, grant, orders);
    Ok(())
}

/// Refuses an epoch at once, and says so a moment later: otherwise the job could be granted and refused without a pause
/// for as long as a child of an earlier epoch cannot be ended.
fn refuse_later(context: &Arc<WorkerContext>, named: v1::RunRef) {
    let context = Arc::clone(context);
    if let Ok(run) = read_run_ref(Some(&named)) {
        context.held.refuse(&run);
    }
    let refusing = Arc::clone(&context);
    // A worker that leaves has said it first.
    context.runs.spawn(async move {
        sleep(limits::EARLIER_CHILD_PAUSE).await;
        refuse_run(&refusing, named);
    });
}

/// Refuses an epoch for good, unless the run is held.
fn refuse_run(context: &WorkerContext, named: v1::RunRef) {
    match read_run_ref(Some(&named)) {
        Ok(run) if context.held.refuse(&run) => context.outbox.refuse_run(named),
        Ok(_) => {}
        Err(error) => warn!(%error, "a run that cannot be refused by its name is left alone"),
    }
}

fn refuse_lost(stream: &Stream, lost: v1::LostGrants) {
    for run in lost.runs {
        refuse_run(&stream.context, run);
    }
}

fn take_renewed(stream: &Stream, renewed: v1::Renewed) -> Option<StreamEnd> {
    let sent = stream.renewals.lock().unwrap_or_else(PoisonError::into_inner).take_answered(renewed.no);
    stream.term.receive_answer(renewed.answer);
    for order in renewed.orders {
        if let Err(error) = take_order(stream, order) {
            warn!(%error, "an order of the coordinator could not be read");
        }
    }
    match renewed.outcome {
        Some(Outcome::Renewed(_)) => {
            if let Some(sent) = sent {
                stream.term.extend(sent);
            }
            None
        }
        Some(Outcome::Deaf(_)) => {
            warn!("the coordinator's answers came too late: the renewal did not count, and is repeated");
            request_renewal(stream);
            None
        }
        Some(Outcome::Closed(_)) => Some(StreamEnd::TermClosed),
        None => None,
    }
}

fn take_appended(stream: &Stream, appended: v1::Appended) -> Result<(), InvalidField> {
    let (run, n, answer) = read_appended(appended)?;
    if let ReportAnswer::Fenced { held_by, epoch, .. } = &answer {
        stream.context.held.fence(&run, FencedBy { held_by: held_by.clone(), epoch: Some(*epoch) });
    }
    stream.context.outbox.answer_report(&run, n, answer);
    Ok(())
}

fn take_output_written(stream: &Stream, written: &v1::OutputWritten) -> Result<(), InvalidField> {
    let run = read_run_ref(written.run.as_ref())?;
    stream.context.outbox.acknowledge_output(&run, written.chunk);
    Ok(())
}

fn take_order(stream: &Stream, order: v1::Order) -> Result<(), InvalidField> {
    let (run, standing) = read_order(order)?;
    give_order(stream, &run, standing);
    Ok(())
}

fn give_order(stream: &Stream, run: &RunRef, standing: Standing) {
    match standing {
        Standing::Notice(notice) => stream.context.held.give_notice(run, notice),
        Standing::Fenced(by) => stream.context.held.fence(run, by),
    }
}
