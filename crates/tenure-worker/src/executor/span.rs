//! The span of a run, and its place in the metrics, written once its end is settled: what the run did is in it, under the id that its child got as its
//! parent. It promises at most one span of a run: a worker writes it only where its own report settled the run. A run that was settled otherwise, be it
//! by a guardian's report or by a term that lapsed, is the coordinator's to write. Neighbours: `tenure-telemetry` says how it looks.

use std::time::SystemTime;

use tenure_core::settlement::RunEnd;
use tenure_telemetry::{RunSpan, spans};

use super::{Execution, conclusion::EndFate};
use crate::metrics::metrics;

/// What a run is counted as whose end its worker did not settle.
const FENCED: &str = "fenced";

/// Counts a run that is over, and writes its span, where that is for this worker to write.
pub(super) fn note_end(execution: &Execution, end: &RunEnd, fate: &EndFate) {
    let word = if is_settled_here(fate) { describe_end(end).0 } else { FENCED };
    metrics().note_run(word, execution.began.elapsed().unwrap_or_default());
    if is_settled_here(fate) {
        record_run(execution, end);
    }
}

/// Whether this worker's report is what settled the run. Where nobody was there to tell, another did; where the report was
/// refused, what settled it is a report as a guardian makes it.
fn is_settled_here(fate: &EndFate) -> bool {
    match fate {
        EndFate::Acknowledged => true,
        EndFate::Fenced(_) | EndFate::Refused(_) | EndFate::Void => false,
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
        RunEnd::Drained => ("drained", Some("its worker left".to_owned())),
        RunEnd::NotStarted { reason } => ("not_started", Some(reason.clone())),
        RunEnd::HandlerFailed { error, .. } => ("handler_failed", Some(error.clone())),
        RunEnd::DeadlineReached => ("deadline", Some("the session's deadline is reached".to_owned())),
        RunEnd::Waiting(_) => ("waiting", None),
        RunEnd::Unwound => ("unwound", None),
        RunEnd::UndoFailed { key, error } => ("undo_failed", Some(format!("{key}: {error}"))),
        RunEnd::ContactLost => ("contact_lost", Some("its worker could not go on with it".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use tenure_core::wait::Wait;

    use super::*;

    /// Every way to end, once.
    fn every_end() -> Vec<RunEnd> {
        let (reason, error) = ("no such program".to_owned(), "no route".to_owned());
        let wait = Wait { name: "#1".parse().unwrap(), until: jiff::Timestamp::MAX, jobs: Vec::new() };
        vec![
            RunEnd::ExitCode(0),
            RunEnd::Signal(9),
            RunEnd::OwnTimeout { limit_ms: 1 },
            RunEnd::IdleTimeout { limit_ms: 1 },
            RunEnd::Cancel,
            RunEnd::Drained,
            RunEnd::NotStarted { reason },
            RunEnd::HandlerFailed { error, is_final: false },
            RunEnd::DeadlineReached,
            RunEnd::Waiting(wait),
            RunEnd::ContactLost,
        ]
    }

    /// The words that the document has for `tenure.end`: those of workers, and after the semicolon those of coordinators.
    fn documented_words() -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/observability.md");
        let text = fs::read_to_string(path).unwrap();
        let row = text.lines().find(|line| line.starts_with("| `tenure.end` |")).unwrap();
        let (workers, _) = row.split_once(';').unwrap();
        workers.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn a_run_is_the_workers_to_write_only_where_its_report_was_acknowledged() {
        assert!(is_settled_here(&EndFate::Acknowledged));
        for settled_elsewhere in
            [EndFate::Void, EndFate::Fenced(RunEnd::ExitCode(0)), EndFate::Refused(RunEnd::ExitCode(0))]
        {
            assert!(!is_settled_here(&settled_elsewhere), "{settled_elsewhere:?}");
        }
    }

    #[test]
    fn every_end_of_a_run_is_documented_and_nothing_else_is() {
        let mut said: Vec<_> = every_end().iter().map(|end| describe_end(end).0.to_owned()).collect();
        let mut documented = documented_words();
        said.sort();
        documented.sort();
        assert_eq!(said, documented);
    }
}
