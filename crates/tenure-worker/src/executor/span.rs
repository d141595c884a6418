//! The span of a run, and its place in the metrics, written once its end is settled: what the run did is in it, under the id that its child got as its
//! parent. A run that another settled is the other's to write. Neighbours: `tenure-telemetry` says how it looks.

use std::time::SystemTime;

use tenure_core::settlement::RunEnd;
use tenure_telemetry::{RunSpan, spans};

use super::{Execution, conclusion::EndFate};
use crate::metrics::metrics;

/// Counts a run that is over, and writes its span, where that is for this worker to write.
pub(super) fn note_end(execution: &Execution, end: &RunEnd, fate: &EndFate) {
    let fenced = matches!(fate, EndFate::Fenced(_));
    let word = if fenced { "fenced" } else { describe_end(end).0 };
    metrics().note_run(word, execution.began.elapsed().unwrap_or_default());
    if !fenced {
        record_run(execution, end);
    }
}

fn record_run(execution: &Execution, end: &RunEnd) {
    let grant = &execution.grant;
    let Some(context) = grant.trace else { return };
    spans().record(context.sampled, || {
        let (end, failure) = describe_end(end);
        RunSpan {
            context,
            run: &grant.run,
            agent: &grant.agent,
            worker: execution.context.name.as_str(),
            cause: &grant.cause(),
            began: execution.began,
            ended: SystemTime::now(),
            end,
            failure,
        }
        .finish()
    });
}

/// How it ended in a stable word, and for a person where that is no success.
fn describe_end(end: &RunEnd) -> (&'static str, Option<String>) {
    match end {
        RunEnd::ExitCode(0) => ("exit_code", None),
        RunEnd::ExitCode(code) => ("exit_code", Some(format!("exit code {code}"))),
        RunEnd::Signal(signal) => ("signal", Some(format!("signal {signal}"))),
        RunEnd::OwnTimeout { limit_ms } => ("timeout", Some(format!("it ran for {limit_ms} ms"))),
        RunEnd::IdleTimeout { limit_ms } => {
            ("idle_timeout", Some(format!("it was silent for {limit_ms} ms")))
        }
        RunEnd::Cancel => ("cancel", Some("it was cancelled".to_owned())),
        RunEnd::NotStarted { reason } => ("not_started", Some(reason.clone())),
        RunEnd::HandlerFailed { error, .. } => ("handler_failed", Some(error.clone())),
        RunEnd::DeadlineReached => ("deadline", Some("the session's deadline is reached".to_owned())),
        RunEnd::ContactLost => ("contact_lost", Some("its worker could not go on with it".to_owned())),
    }
}
