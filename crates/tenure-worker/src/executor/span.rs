//! The span of a run, written once its end is settled: what the run did is in it, under the id that its child got as its
//! parent. A run that another settled is the other's to write. Neighbours: `tenure-telemetry` says how it looks.

use std::time::SystemTime;

use tenure_core::settlement::RunEnd;
use tenure_telemetry::{RunSpan, spans};

use super::Execution;

/// Writes the span of a run that ended so, where anybody wants it.
pub(super) fn record_run(execution: &Execution, end: &RunEnd) {
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
pub(super) fn describe_end(end: &RunEnd) -> (&'static str, Option<String>) {
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
