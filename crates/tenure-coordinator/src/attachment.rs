//! One worker's stream: what it reports goes to the lanes and to the output writer, and is answered when it is durable, in
//! the order of completion. The stream's end is no event in a run's life: the worker attaches again, here or elsewhere, and
//! sends again what was not acknowledged. Promises: renewals never wait behind output; an unknown kind of message is
//! ignored and counted; a message that cannot be read ends the stream with the reason.
//! Neighbours: `attachments` knows who is attached, `lane` writes, `grant` gives runs, `report` reads messages.

mod lost;
mod output;
mod renewal;
pub(crate) mod report;
mod stream;

use std::sync::Arc;

use tenure_core::{
    admission::Limit, plan::JobFacts, reason::Reason, refusal::Refusal, run_ref::RunRef,
    settlement::plan_limit_refusal,
};
use tenure_proto::{
    convert::{InvalidField, blob::read_blob_ref, run::read_run_ref},
    v1::{self, attach_request, attach_response},
};
use tokio::sync::broadcast;
use tonic::{Status, Streaming};

use crate::{
    attachments::Attached,
    blob_transfer::refuse_unknown,
    coordinator::Parts,
    lane::work::{LaneError, Reply, ReportAnswer, ReportStream},
    metrics::metrics,
    patience::within,
    refusals::{chain, refuse_store, write_refusal},
    wake::{OrderKind, RaisedOrder},
};
pub(crate) use output::OutputQueue;
pub(crate) use renewal::RenewalQueue;
pub(crate) use stream::AttachStream;

/// Serves a worker's stream until either side ends it.
pub(crate) async fn serve_attachment(
    parts: Parts,
    attached: Arc<Attached>,
    mut inbound: Streaming<v1::AttachRequest>,
) {
    let mut orders = parts.wakes.hear_orders();
    let mut session = Session {
        renewals: RenewalQueue::start(&parts, &attached),
        output: OutputQueue::start(&parts, &attached),
        reports: ReportStream::default(),
        unknown_messages: 0,
        parts,
        attached,
    };
    lost::look_for_lost_grants(&session.parts, &session.attached);
    session.attached.request_look();
    let closing = session.attached.closing().clone();
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => break,
            order = orders.recv() => session.pass_order(order),
            message = inbound.message() => match message {
                Ok(Some(message)) => session.take_message(message).await,
                Ok(None) => break,
                Err(status) => {
                    tracing::debug!(worker = %session.attached.worker, %status, "a worker's stream broke");
                    break;
                }
            },
        }
    }
    session.end();
}

struct Session {
    parts: Parts,
    attached: Arc<Attached>,
    renewals: RenewalQueue,
    output: OutputQueue,
    reports: ReportStream,
    unknown_messages: u64,
}

impl Session {
    async fn take_message(&mut self, message: v1::AttachRequest) {
        if self.attached.note_heard() {
            self.parts.wakes.wake_dispatch();
        }
        let Some(message) = message.message else {
            self.unknown_messages += 1;
            return;
        };
        if let Err(refusal) = self.dispatch_message(message).await {
            self.attached.close(refusal);
        }
    }

    async fn dispatch_message(&mut self, message: attach_request::Message) -> Result<(), Refusal> {
        use attach_request::Message;
        match message {
            Message::Hello(_) => Err(Refusal::new(Reason::InvalidArgument, "a second hello on one stream")),
            Message::Credits(credits) => {
                if credits.withdrawn {
                    self.attached.withdraw_credits();
                } else {
                    self.attached.add_credits(credits.more);
                    self.parts.wakes.wake_dispatch();
                }
                Ok(())
            }
            Message::Renew(renew) => self.renewals.push(renew),
            Message::Append(append) => self.report_append(append).await,
            Message::EndRun(end) => self.report_end(end).await,
            Message::WriteOutput(output) => {
                let run = self.read_run(output.run.as_ref())?;
                self.output.push(run, output)
            }
            Message::NotMine(not_mine) => {
                let run = self.read_run(not_mine.run.as_ref())?;
                lost::release_lost_grant(&self.parts, &self.attached, run);
                Ok(())
            }
        }
    }

    async fn report_append(&self, append: v1::Append) -> Result<(), Refusal> {
        let run = self.read_run(append.run.as_ref())?;
        let (n, reply) = (append.n, self.reply_for(&run, append.n));
        let worker = &self.attached.worker;
        match report::read_append(run.clone(), append, worker, self.reports.clone(), reply) {
            Ok(report) => self.parts.lanes.report(report).await,
            Err(refusal) => self.answer(&run, n, Ok(ReportAnswer::Refused(refusal))),
        }
        Ok(())
    }

    async fn report_end(&self, end: v1::EndRun) -> Result<(), Refusal> {
        let run = self.read_run(end.run.as_ref())?;
        let (n, reply) = (end.n, self.reply_for(&run, end.n));
        if let Some(refusal) = self.check_result_blob(&run, end.result_blob.as_ref()).await? {
            self.answer(&run, n, Ok(ReportAnswer::Refused(refusal)));
            return Ok(());
        }
        match report::read_end(run.clone(), end, &self.attached.worker, self.reports.clone(), reply) {
            Ok(report) => self.parts.lanes.report(report).await,
            Err(refusal) => self.answer(&run, n, Ok(ReportAnswer::Refused(refusal))),
        }
        Ok(())
    }

    /// Why a result in the blob store is not this run's to report. Where that is not known, the stream ends, and the worker
    /// reports again.
    async fn check_result_blob(
        &self,
        run: &RunRef,
        blob: Option<&v1::BlobRef>,
    ) -> Result<Option<Refusal>, Refusal> {
        let Some(blob) = blob else { return Ok(None) };
        let named = match read_blob_ref("result_blob", blob) {
            Ok(named) => named,
            Err(error) => return Ok(Some(error.into())),
        };
        let found = within(self.parts.store.find_blob(&run.tenant, named.sha256)).await?;
        let found = found.map_err(|error| refuse_store(&error))?;
        let is_ours = found.is_some_and(|blob| blob.job == Some(run.job) && blob.bytes == named.bytes);
        Ok((!is_ours).then(|| refuse_unknown(named.sha256)))
    }

    /// A run of a tenant that this worker may work for; of any other the worker cannot know.
    fn read_run(&self, given: Option<&v1::RunRef>) -> Result<RunRef, Refusal> {
        let run = read_run_ref(given)?;
        if self.attached.registration.tenants.names(&run.tenant) {
            return Ok(run);
        }
        let given = InvalidField::Missing { field: "run.tenant" };
        Err(Refusal::new(
            Reason::InvalidArgument,
            format!("{run} is of a tenant that this worker does not serve: {given}"),
        ))
    }

    fn reply_for(&self, run: &RunRef, n: u64) -> Reply<Result<ReportAnswer, LaneError>> {
        let (parts, attached, run) = (self.parts.clone(), self.attached.clone(), run.clone());
        Reply::call(move |answer| match answer {
            Ok(ReportAnswer::Refused(refusal)) if refusal.reason == Reason::LimitReached => {
                let (tasks, stopping) = (parts.tasks.clone(), parts.stopping.clone());
                let recorded = async move {
                    record_limit_refusal(&parts, &run, &refusal).await;
                    answer_report(&attached, &run, n, Ok(ReportAnswer::Refused(refusal)));
                };
                tasks.spawn(async move { stopping.run_until_cancelled(recorded).await });
            }
            answer => answer_report(&attached, &run, n, answer),
        })
    }

    fn answer(&self, run: &RunRef, n: u64, answer: Result<ReportAnswer, LaneError>) {
        answer_report(&self.attached, run, n, answer);
    }

    fn pass_order(&self, order: Result<RaisedOrder, broadcast::error::RecvError>) {
        // What was missed is said by the next renewal.
        let Ok(order) = order else { return };
        if order.worker == self.attached.worker && order.term == self.attached.term {
            self.attached.send(attach_response::Message::Order(write_order(&order.run, &order.kind)));
        }
    }

    fn end(self) {
        self.parts.attachments.remove(&self.attached);
        self.attached.closing().cancel();
        tracing::info!(
            worker = %self.attached.worker,
            term = %self.attached.term,
            unknown_messages = self.unknown_messages,
            because = self.attached.closed_because().map_or("the worker left", |refusal| &refusal.message),
            "a worker is no longer attached here"
        );
    }
}

/// A limit that refused what a run asked for is written down before the run hears of it: the run's end is judged by it. Where that fails,
/// the next thing that the run asks for is refused by the same limit.
async fn record_limit_refusal(parts: &Parts, run: &RunRef, refusal: &Refusal) {
    let Some(limit) = refusal.details.get("limit").and_then(|name| Limit::from_name(name)) else { return };
    let epoch = run.epoch;
    let planner = move |facts: &JobFacts| Ok(plan_limit_refusal(facts, epoch, limit));
    if let Err(error) = parts.lanes.decide((run.tenant.clone(), run.job), Box::new(planner)).await {
        tracing::info!(job = %run.job, run = %run.run, %limit, error = chain(&error), "the refusal of a limit was not written");
    }
}

/// Tells the worker what became of a report. Where it is not known, the stream ends: the worker sends it again.
fn answer_report(attached: &Attached, run: &RunRef, n: u64, answer: Result<ReportAnswer, LaneError>) {
    if let Ok(ReportAnswer::Fenced { epoch, .. }) = &answer {
        metrics().note_fenced_report();
        tracing::info!(
            worker = %attached.worker, job = %run.job, run = %run.run, epoch = %run.epoch, n, present_epoch = %epoch,
            "a late report is fenced"
        );
    }
    if let Ok(ReportAnswer::Refused(refusal)) = &answer {
        metrics().note_refusal(refusal);
    }
    match answer {
        Ok(answer) => attached.send(attach_response::Message::Appended(report::write_answer(run, n, answer))),
        Err(error) => attached.close(crate::refusals::refuse_lane(&error)),
    }
}

/// An order as it goes onto the wire.
pub(crate) fn write_order(run: &RunRef, kind: &OrderKind) -> v1::Order {
    let order = match kind {
        OrderKind::Notice(notice) => v1::order::Order::Notice(report::write_notice(notice)),
        OrderKind::Fenced { epoch } => {
            v1::order::Order::Fenced(v1::Fenced { held_by: String::new(), epoch: epoch.0, applied_seq: 0 })
        }
    };
    v1::Order { run: Some(tenure_proto::convert::run::write_run_ref(run)), order: Some(order) }
}

/// The end of a stream as a status.
pub(crate) fn end_status(attached: &Attached) -> Option<Status> {
    attached.closed_because().map(write_refusal)
}
