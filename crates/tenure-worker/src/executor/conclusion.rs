//! What is said about a run's end, and to whom it is said until somebody answers. What ended the run goes before how the
//! child then exited: after an ask, no exit code is a verdict.

use std::path::Path;

use bytes::Bytes;
use tenure_core::{
    id::{Epoch, Seq},
    record::{Phase, ValueRef},
    run_ref::RunRef,
    settlement::RunEnd,
    wait::Wait,
};
use tenure_proto::v1;
use tracing::{error, warn};

use super::{
    Execution,
    preparation::{PreparedRun, StagedResult},
    supervision::{Asked, Supervised},
};
use crate::{
    blobs::hand_result,
    effect::FailedUndo,
    held_runs::{Orders, StandingNotice},
    journal::{EndReport, Report, ReportAnswer, RunResult, UnaskedKeys},
    runner::ProcessEnd,
};

/// The exit code of what Tenure itself refused, as everywhere: here a result that cannot be taken.
const REFUSED_EXIT_CODE: i32 = 125;

/// How a run ended, as far as its child is concerned.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Conclusion {
    pub(super) end: RunEnd,
    pub(super) result: Option<RunResult>,
    pub(super) output_truncated: bool,
    pub(super) unasked: UnaskedKeys,
    /// The last booking of the run.
    pub(super) booking: Option<Seq>,
}

/// What became of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EndFate {
    /// It is durable.
    Acknowledged,
    /// Another settled the run, who may not know that the child is gone: it is, and so it ended.
    Fenced(RunEnd),
    /// It was refused for good, and the run is unsettled: so it ended.
    Refused(RunEnd),
    /// There is nobody to tell.
    Void,
}

impl Conclusion {
    /// A child that never was.
    pub(super) fn not_started(reason: String) -> Self {
        Self {
            end: RunEnd::NotStarted { reason },
            result: None,
            output_truncated: false,
            unasked: UnaskedKeys::default(),
            booking: None,
        }
    }

    /// A child that was not started any more, because its worker leaves or could not answer for it: that says nothing against
    /// the agent, and costs no attempt.
    pub(super) fn given_up(asked: Asked) -> Self {
        let end = match asked {
            Asked::Drain => RunEnd::Drained,
            Asked::Notice | Asked::Wait | Asked::LocalDeadline | Asked::Fenced => RunEnd::ContactLost,
        };
        Self { end, result: None, output_truncated: false, unasked: UnaskedKeys::default(), booking: None }
    }
}

impl Conclusion {
    /// The same of a run that works in this direction: one that undoes is no success, and where an undoing failed it says
    /// which.
    pub(super) fn in_phase(self, phase: Phase, failed: Option<FailedUndo>) -> Self {
        if phase == Phase::Forward {
            return self;
        }
        let end = match (self.end, failed) {
            (RunEnd::ExitCode(0), _) => RunEnd::Unwound,
            (RunEnd::ExitCode(_) | RunEnd::HandlerFailed { .. }, Some(FailedUndo { key, error })) => {
                RunEnd::UndoFailed { key, error }
            }
            (end, _) => end,
        };
        let (result, booking, unasked) = (None, None, UnaskedKeys::default());
        Self { end, result, output_truncated: self.output_truncated, unasked, booking }
    }
}

/// Concludes from what was seen of the process, and reads the result where there is one.
pub(super) async fn conclude_run(
    execution: &Execution,
    supervised: &Supervised,
    prepared: &PreparedRun,
    unasked: UnaskedKeys,
) -> Conclusion {
    let outcome = &supervised.outcome;
    let (end, result) = match judge_end(&outcome.end, supervised.asked, supervised.wait.as_ref()) {
        RunEnd::ExitCode(0) => take_result(execution, prepared).await,
        end => (end, None),
    };
    Conclusion { end, result, output_truncated: outcome.output_truncated, unasked, booking: None }
}

/// What ended the run. A notice is not looked at here: it is named where the end is reported, because it may still come.
fn judge_end(end: &ProcessEnd, asked: Option<Asked>, wait: Option<&Wait>) -> RunEnd {
    if let (Some(Asked::Wait), Some(wait), true) = (asked, wait, !matches!(end, ProcessEnd::ContactLost)) {
        return RunEnd::Waiting(wait.clone());
    }
    match (end, asked) {
        // Also of one that was asked to end before it was started, which its guardian reports as not started.
        (_, Some(Asked::Drain)) => RunEnd::Drained,
        (_, Some(Asked::LocalDeadline | Asked::Fenced)) | (ProcessEnd::ContactLost, _) => RunEnd::ContactLost,
        (ProcessEnd::NotStarted { reason }, _) => RunEnd::NotStarted { reason: reason.clone() },
        (ProcessEnd::ExitCode(code), _) => RunEnd::ExitCode(*code),
        (ProcessEnd::Signal(signal), _) => RunEnd::Signal(*signal),
        (ProcessEnd::OwnTimeout { limit }, _) => RunEnd::OwnTimeout { limit_ms: milliseconds(*limit) },
        (ProcessEnd::IdleTimeout { limit }, _) => RunEnd::IdleTimeout { limit_ms: milliseconds(*limit) },
    }
}

/// A result that cannot be taken is no success: whoever waits for it would find nothing. The child's stderr says why.
async fn take_result(execution: &Execution, prepared: &PreparedRun) -> (RunEnd, Option<RunResult>) {
    let taken = match prepared.stage_result(execution.context.places.runs()).await {
        Ok(None) => return (RunEnd::ExitCode(0), None),
        Ok(Some(StagedResult::Small(bytes))) => Ok(RunResult::Bytes(bytes)),
        Ok(Some(StagedResult::Large { staged, bytes })) => {
            match hand_unless_void(execution, &staged.path(), bytes).await {
                // A notice goes before what was returned, and so does another holder.
                None => return (RunEnd::ExitCode(0), None),
                Some(handed) => handed.map(RunResult::Blob),
            }
        }
        Err(why) => Err(why),
    };
    match taken {
        Ok(result) => (RunEnd::ExitCode(0), Some(result)),
        Err(why) => {
            warn!(%why, "the result cannot be taken");
            let line = Bytes::from(format!("tenure: {why}\n"));
            execution.context.outbox.add_output(&execution.grant.run, v1::OutputStream::Stderr, line).await;
            (RunEnd::ExitCode(REFUSED_EXIT_CODE), None)
        }
    }
}

/// Hands a large result on until it is taken; none where nobody wants it any more.
pub(super) async fn hand_unless_void(
    execution: &Execution,
    path: &Path,
    bytes: u64,
) -> Option<Result<ValueRef, String>> {
    let mut orders = execution.orders.clone();
    let is_void = |orders: &Orders| orders.fenced.is_some() || orders.notice.is_some();
    tokio::select! {
        handed = hand_result(&execution.context, &execution.grant, path, bytes) => Some(handed),
        Ok(_) = orders.wait_for(is_void) => None,
    }
}

fn milliseconds(span: std::time::Duration) -> u64 {
    tenure_core::deadline::duration_ms(span)
}

/// Reports the end until it is answered for good. Where a notice stands that was not seen, it is answered first.
pub(super) async fn report_end(execution: &Execution, conclusion: Conclusion) -> EndFate {
    loop {
        let report = compose_report(&conclusion, &execution.orders.borrow());
        let (said, named) = (report.end.clone(), Seq(report.last_notice_seq));
        let answer = execution.context.outbox.add_report(&execution.grant.run, Report::End(report)).await;
        match answer {
            Ok(ReportAnswer::Applied(_) | ReportAnswer::Fenced { applied: Some(_), .. }) => {
                return EndFate::Acknowledged;
            }
            Ok(ReportAnswer::Notice { seq, kind }) if seq > named => {
                let notice = StandingNotice { seq, kind };
                execution.context.held.give_notice(&execution.grant.run, notice);
            }
            Ok(ReportAnswer::Fenced { held_by, epoch, applied: None }) => {
                return fenced_fate(&execution.grant.run, held_by.as_deref(), epoch, said);
            }
            Ok(ReportAnswer::Notice { seq, kind }) => {
                error!(seq = seq.0, %kind, "the end was answered with a notice that it had named");
                return EndFate::Refused(said);
            }
            Ok(ReportAnswer::Refused { code, message }) => {
                error!(%code, %message, "the end of the run was refused for good");
                return EndFate::Refused(said);
            }
            Ok(ReportAnswer::Sealed | ReportAnswer::Missing) | Err(_) => return EndFate::Void,
        }
    }
}

fn fenced_fate(run: &RunRef, held_by: Option<&str>, epoch: Epoch, said: RunEnd) -> EndFate {
    tracing::info!(held_by, epoch = epoch.0, yours = run.epoch.0, "the end came too late");
    EndFate::Fenced(said)
}

/// The end as it is to be said with what stands now. A cancel goes before the end's own cause.
fn compose_report(conclusion: &Conclusion, orders: &Orders) -> EndReport {
    let cancelled = orders.notice.as_ref().is_some_and(StandingNotice::is_cancel);
    let end = if cancelled { RunEnd::Cancel } else { conclusion.end.clone() };
    let succeeded = end == RunEnd::ExitCode(0);
    let unasked = if succeeded { conclusion.unasked.clone() } else { UnaskedKeys::default() };
    EndReport {
        end,
        result: if cancelled { None } else { conclusion.result.clone() },
        last_notice_seq: orders.notice.as_ref().map_or(0, |notice| notice.seq.0),
        output_truncated: conclusion.output_truncated,
        unasked,
        booking_seq: conclusion.booking.filter(|_| succeeded).map_or(0, |seq| seq.0),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::held_runs::CANCEL_REQUESTED;

    #[test]
    fn after_a_wait_was_announced_no_exit_code_is_a_verdict_unless_sight_of_the_child_was_lost() {
        let wait = Wait { name: "#1".parse().unwrap(), until: jiff::Timestamp::UNIX_EPOCH, jobs: Vec::new() };
        for end in [ProcessEnd::ExitCode(0), ProcessEnd::ExitCode(3), ProcessEnd::Signal(15)] {
            let judged = judge_end(&end, Some(Asked::Wait), Some(&wait));
            assert_eq!(judged, RunEnd::Waiting(wait.clone()), "{end:?}");
        }
        let lost = judge_end(&ProcessEnd::ContactLost, Some(Asked::Wait), Some(&wait));
        assert_eq!(lost, RunEnd::ContactLost);
        let asked = judge_end(&ProcessEnd::Signal(15), Some(Asked::LocalDeadline), Some(&wait));
        assert_eq!(asked, RunEnd::ContactLost);
    }

    #[test]
    fn the_end_of_a_run_that_undoes_is_no_success_and_names_what_failed() {
        let ended = |end| Conclusion { end, ..Conclusion::given_up(Asked::LocalDeadline) };
        let undo = |end, failed| ended(end).in_phase(Phase::Compensating, failed).end;
        let (key, error) = ("undo:mail".parse().unwrap(), "no route".to_owned());
        let failed = FailedUndo { key, error };
        assert_eq!(undo(RunEnd::ExitCode(0), None), RunEnd::Unwound);
        let FailedUndo { key, error } = failed.clone();
        assert_eq!(undo(RunEnd::ExitCode(1), Some(failed.clone())), RunEnd::UndoFailed { key, error });
        assert_eq!(undo(RunEnd::ExitCode(1), None), RunEnd::ExitCode(1), "the program itself failed");
        assert_eq!(undo(RunEnd::ContactLost, Some(failed.clone())), RunEnd::ContactLost);
        assert_eq!(ended(RunEnd::ExitCode(0)).in_phase(Phase::Forward, None).end, RunEnd::ExitCode(0));
    }

    #[test]
    fn after_an_ask_no_exit_code_is_a_verdict() {
        let exited = ProcessEnd::ExitCode(0);
        assert_eq!(judge_end(&exited, None, None), RunEnd::ExitCode(0));
        for asked in [Asked::LocalDeadline, Asked::Fenced] {
            assert_eq!(judge_end(&exited, Some(asked), None), RunEnd::ContactLost, "{asked:?}");
        }
        let unstarted = ProcessEnd::NotStarted { reason: "it was asked to end".to_owned() };
        for end in [exited, unstarted] {
            assert_eq!(judge_end(&end, Some(Asked::Drain), None), RunEnd::Drained);
        }
        assert_eq!(Conclusion::given_up(Asked::Drain).end, RunEnd::Drained, "it was not started any more");
    }

    #[test]
    fn limits_are_named_in_milliseconds() {
        let idle = ProcessEnd::IdleTimeout { limit: Duration::from_millis(1_500) };
        assert_eq!(judge_end(&idle, None, None), RunEnd::IdleTimeout { limit_ms: 1_500 });
    }

    #[test]
    fn a_success_that_meets_a_cancel_is_reported_as_cancelled_and_names_the_notice() {
        let success = Conclusion {
            end: RunEnd::ExitCode(0),
            result: Some(RunResult::Bytes(Bytes::from_static(b"done"))),
            output_truncated: false,
            unasked: UnaskedKeys::default(),
            booking: None,
        };
        let unseen = compose_report(&success, &Orders::default());
        assert_eq!((unseen.end, unseen.last_notice_seq), (RunEnd::ExitCode(0), 0));
        let notice = Some(StandingNotice { seq: Seq(7), kind: CANCEL_REQUESTED.to_owned() });
        let seen = compose_report(&success, &Orders { notice, fenced: None });
        assert_eq!((seen.end, seen.result, seen.last_notice_seq), (RunEnd::Cancel, None, 7));
    }

    #[test]
    fn a_notice_of_another_kind_is_named_and_changes_no_end() {
        let failed = Conclusion {
            end: RunEnd::ExitCode(3),
            result: None,
            output_truncated: true,
            unasked: UnaskedKeys::default(),
            booking: None,
        };
        let notice = Some(StandingNotice { seq: Seq(9), kind: "steered".to_owned() });
        let report = compose_report(&failed, &Orders { notice, fenced: None });
        assert_eq!((report.end, report.last_notice_seq), (RunEnd::ExitCode(3), 9));
    }
}
