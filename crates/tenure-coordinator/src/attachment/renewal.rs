//! Renewals of one worker's term, in order, in a task of their own: neither output nor appends can starve them here, and
//! the store renews on a connection that nothing else uses but an attach. The answer carries what stands for the worker's
//! runs; the grants that were lost on their way are looked for in a task of their own, which no renewal waits for. Neighbours: `attachment`, `lost`.

use std::{sync::Arc, time::Instant};

use tenure_core::{limits::RENEWALS_QUEUED_MAX, reason::Reason, refusal::Refusal, run_ref::RunRef};
use tenure_proto::{
    convert::{run::read_run_refs, time::write_timestamp},
    v1::{self, attach_response::Message, renewed},
};
use tenure_store::{Renewal, Standing};
use tokio::sync::mpsc;

use super::write_order;
use crate::{
    attachments::Attached,
    coordinator::Parts,
    lane::work::StandingNotice,
    metrics::{Limit, Statement, metrics},
    patience::within,
    refusals::refuse_store,
    wake::OrderKind,
};

/// The renewals that were not answered yet.
pub(crate) struct RenewalQueue {
    renewals: mpsc::Sender<v1::Renew>,
}

impl RenewalQueue {
    /// Answers renewals of a worker until its stream ends.
    pub(crate) fn start(parts: &Parts, attached: &Arc<Attached>) -> Self {
        let (renewals, mut queue) = mpsc::channel::<v1::Renew>(RENEWALS_QUEUED_MAX);
        let (task_parts, attached) = (parts.clone(), attached.clone());
        parts.tasks.spawn(async move {
            while let Some(renew) = queue.recv().await {
                answer_renewal(&task_parts, &attached, renew).await;
            }
        });
        Self { renewals }
    }

    /// Queues a renewal. A worker that sends many before the first is answered is cut off.
    pub(crate) fn push(&self, renew: v1::Renew) -> Result<(), Refusal> {
        if renew.runs_given {
            // Read here, so that a list that cannot be read ends the stream with its reason.
            read_run_refs(&renew.runs)?;
        }
        self.renewals.try_send(renew).map_err(|_| {
            metrics().note_limit(Limit::RenewalQueue);
            Refusal::new(Reason::Overloaded, format!("{RENEWALS_QUEUED_MAX} renewals wait for an answer"))
        })
    }
}

async fn answer_renewal(parts: &Parts, attached: &Arc<Attached>, renew: v1::Renew) {
    if renew.runs_given
        && let Ok(runs) = read_run_refs(&renew.runs)
    {
        attached.set_runs(runs);
    }
    let begun = Instant::now();
    let renewal = parts.store.renew_term(&attached.worker, attached.term, attached.attach(), renew.echo);
    let renewal = match within(renewal).await {
        Ok(renewal) => renewal,
        Err(unanswered) => return attached.close(unanswered.into()),
    };
    metrics().note_statement(Statement::Renew, begun.elapsed());
    if let Ok(renewal) = &renewal {
        metrics().note_renewal(renewal);
    }
    match renewal {
        Ok(Renewal::Displaced) => {
            let words = format!("another attach of term {} took over", attached.term);
            attached.close(Refusal::new(Reason::Displaced, words));
        }
        Ok(renewal) => {
            let alive = matches!(renewal, Renewal::Renewed { .. });
            attached.send(Message::Renewed(write_renewal(renew.no, renewal)));
            if alive {
                offer_again(parts, attached);
                attached.request_look();
            }
        }
        Err(error) => attached.close(refuse_store(&error)),
    }
}

/// A term that had lapsed was refused by dispatch; by now it may be alive again.
fn offer_again(parts: &Parts, attached: &Attached) {
    let up_to_date = attached.queue_view().empty_at == Some(parts.wakes.ready_count());
    if attached.credits() > 0 && !up_to_date {
        parts.wakes.wake_dispatch();
    }
}

fn write_renewal(no: u64, renewal: Renewal) -> v1::Renewed {
    let (outcome, answer, standing) = match renewal {
        Renewal::Renewed { answer, now, standing, .. } => {
            let renewed = v1::TermRenewed { now: Some(write_timestamp(now)) };
            (renewed::Outcome::Renewed(renewed), answer, standing)
        }
        Renewal::Deaf { answer } => (renewed::Outcome::Deaf(v1::TermDeaf {}), answer, Vec::new()),
        Renewal::Closed | Renewal::Displaced => (renewed::Outcome::Closed(v1::TermClosed {}), 0, Vec::new()),
    };
    let orders = standing.into_iter().map(write_standing).collect();
    v1::Renewed { no, outcome: Some(outcome), answer, orders }
}

fn write_standing(standing: Standing) -> v1::Order {
    let run = RunRef {
        tenant: standing.tenant,
        job: standing.job,
        epoch: standing.epoch,
        run: standing.run,
        generation: standing.generation,
    };
    write_order(&run, &OrderKind::Notice(StandingNotice { seq: standing.notice, kind: standing.kind }))
}
