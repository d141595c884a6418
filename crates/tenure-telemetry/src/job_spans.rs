//! How the spans of a job look, for those that more than one program writes: its admission, and its runs. A run's span is
//! written by the worker that carried it out, or by the coordinator that settled it where its worker was lost; it has the
//! same id and the same form either way. Neighbours: the core's `trace` names spans, `spans` takes them.

use std::time::SystemTime;

use opentelemetry::{KeyValue, trace::SpanKind};
use tenure_core::{
    handover::Cause,
    id::{JobId, Tenant},
    run_ref::RunRef,
    trace::{SpanId, TraceContext},
};

use crate::spans::FinishedSpan;

/// A submission that became a job.
#[derive(Debug)]
pub struct AdmissionSpan<'a> {
    /// The context of the job: its submitter's, or its own.
    pub context: TraceContext,
    /// Whose.
    pub tenant: &'a Tenant,
    /// Which job.
    pub job: JobId,
    /// Its agent.
    pub agent: &'a str,
    /// When it was admitted.
    pub began: SystemTime,
    /// When it was stored.
    pub ended: SystemTime,
}

impl AdmissionSpan<'_> {
    /// The span.
    #[must_use]
    pub fn finish(self) -> FinishedSpan {
        let own = SpanId::of_admission(self.job);
        FinishedSpan {
            name: "submission",
            context: self.context.at(own),
            // A job whose submitter gave no context begins its trace here.
            parent: Some(self.context.span).filter(|parent| *parent != own),
            continues: None,
            kind: SpanKind::Server,
            began: self.began,
            ended: self.ended,
            attributes: describe_job(self.tenant, self.job, self.agent),
            failure: None,
        }
    }
}

/// A run that is over.
#[derive(Debug)]
pub struct RunSpan<'a> {
    /// The context of the job, at any of its spans.
    pub context: TraceContext,
    /// Which run.
    pub run: &'a RunRef,
    /// Its agent.
    pub agent: &'a str,
    /// Who carried it out.
    pub worker: &'a str,
    /// Why it started.
    pub cause: &'a Cause,
    /// When it began.
    pub began: SystemTime,
    /// When its end was known.
    pub ended: SystemTime,
    /// How it ended, in a stable word.
    pub end: &'static str,
    /// Why it is no success; none: it is one.
    pub failure: Option<String>,
}

impl RunSpan<'_> {
    /// The span.
    #[must_use]
    pub fn finish(self) -> FinishedSpan {
        let RunRef { tenant, job, epoch, run, generation: _ } = self.run;
        let mut attributes = describe_job(tenant, *job, self.agent);
        attributes.extend([
            KeyValue::new("tenure.run", i64::from(run.0)),
            KeyValue::new("tenure.epoch", i64::try_from(epoch.0).unwrap_or(i64::MAX)),
            KeyValue::new("tenure.attempt", i64::from(self.cause.attempt())),
            KeyValue::new("tenure.worker", self.worker.to_owned()),
            KeyValue::new("tenure.cause", cause_word(self.cause)),
            KeyValue::new("tenure.end", self.end),
        ]);
        let continues = self.cause.previous().map(|previous| SpanId::of_run(*job, previous));
        FinishedSpan {
            name: "run",
            context: self.context.at(SpanId::of_run(*job, *run)),
            parent: Some(SpanId::of_admission(*job)),
            continues,
            kind: SpanKind::Consumer,
            began: self.began,
            ended: self.ended,
            attributes,
            failure: self.failure,
        }
    }
}

/// Why a run started, in a word.
const fn cause_word(cause: &Cause) -> &'static str {
    match cause {
        Cause::Dispatch => "dispatch",
        Cause::Recovered { .. } => "recovered",
        Cause::Unwinding { .. } => "unwinding",
        Cause::Continued { .. } => "continued",
        Cause::Woken { .. } => "woken",
        Cause::Resumed { .. } => "resumed",
        Cause::Steered { .. } => "steered",
        Cause::Drained { .. } => "drained",
    }
}

fn describe_job(tenant: &Tenant, job: JobId, agent: &str) -> Vec<KeyValue> {
    vec![
        KeyValue::new("tenure.tenant", tenant.to_string()),
        KeyValue::new("tenure.job", job.to_string()),
        KeyValue::new("tenure.agent", agent.to_owned()),
    ]
}
