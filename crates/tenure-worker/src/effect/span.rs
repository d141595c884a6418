//! The span of an effect under its run: from the first command or probe that is run for it to the answer of this call. What
//! is read back runs nothing, and has none. Neighbours: `performance` runs, `executor` writes the span of the run.

use std::time::{SystemTime, UNIX_EPOCH};

use tenure_core::trace::{SpanId, TraceContext};
use tenure_telemetry::{FinishedSpan, KeyValue, SpanKind, spans};

use super::{answer::Answer, caller::Stop, performance::Performance};

/// An effect that something is run for.
#[derive(Debug, Clone, Copy)]
pub(super) struct EffectSpan {
    /// The trace at it.
    context: TraceContext,
    began: SystemTime,
    /// The last attempt that something was run for.
    attempt: u32,
}

impl Performance<'_> {
    /// The trace context of what is about to be run as an attempt; empty where the run has none.
    pub(super) fn traceparent(&mut self, attempt: u32) -> String {
        let Some(run) = self.effects.standing.grant.run_trace() else { return String::new() };
        let span = self.span.get_or_insert_with(|| {
            let began = SystemTime::now();
            let nanoseconds = began.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            let of = &self.effects.standing.grant.run;
            let own = SpanId::of_effect(of.job, of.run, self.plan.key.as_str(), nanoseconds);
            EffectSpan { context: run.at(own), began, attempt }
        });
        span.attempt = attempt;
        span.context.to_string()
    }

    /// Writes the span, where anything was run and anybody wants it.
    pub(super) fn record_span(&self, outcome: &Result<Answer, Stop>) {
        let Some(EffectSpan { context, began, attempt }) = self.span else { return };
        let run = &self.effects.standing.grant.run;
        spans().record(context.sampled, || FinishedSpan {
            name: "effect",
            context,
            parent: Some(SpanId::of_run(run.job, run.run)),
            continues: None,
            kind: SpanKind::Internal,
            began,
            ended: SystemTime::now(),
            attributes: vec![
                KeyValue::new("tenure.job", run.job.to_string()),
                KeyValue::new("tenure.run", i64::from(run.run.0)),
                KeyValue::new("tenure.effect.key", self.plan.key.to_string()),
                KeyValue::new("tenure.effect.attempt", i64::from(attempt)),
                KeyValue::new("tenure.effect.executions", i64::from(self.executions)),
            ],
            failure: match outcome {
                Ok(answer) => answer.failure(),
                Err(Stop::Refused(refusal)) => Some(refusal.reason.code().to_owned()),
                Err(Stop::CallerLeft) => Some("its caller left".to_owned()),
            },
        });
    }
}
