//! A worker's reports from the wire, and the answers to them. What can never be accepted is refused here, before it reaches
//! a lane: it names the field and both sizes. The digest of a report is that of what was sent, without the positions that
//! change when it is sent again. Neighbours: `attachment`, `lane`.

mod effects;

use prost::Message as _;
use tenure_core::{
    admission::Spend,
    id::{Digest, Seq, WorkerName},
    limits::{
        APPEND_MAX_RECORDS, GROUP_MEMBERS_MAX, NOTE_MAX_BYTES, STEP_OUTPUT_MAX_BYTES, VALUE_MAX_BYTES,
        WHY_MAX_BYTES,
    },
    memory::check_memory,
    money::Micros,
    principal::Principal,
    reason::Reason,
    record::{Draft, GroupOutcome, NewValue, RecordKind},
    refusal::Refusal,
    run_ref::RunRef,
    settlement::{EndReport, RunEnd},
};
use tenure_proto::{
    convert::{
        InvalidField,
        blob::read_blob_ref,
        effect::read_effect_key,
        run::{read_run_end, write_run_ref},
        step::read_step_name,
    },
    v1::{self, appended, new_record},
};

use crate::{
    lane::work::{LaneError, Reply, ReportAnswer, ReportBody, ReportStream, RunReport, StandingNotice},
    mint::salt_value,
};

type ReportReply = Reply<Result<ReportAnswer, LaneError>>;

/// Records of a run.
pub(crate) fn read_append(
    run: RunRef,
    append: v1::Append,
    worker: &WorkerName,
    stream: ReportStream,
    reply: ReportReply,
) -> Result<RunReport, Refusal> {
    check_number(append.n)?;
    let count = append.records.len();
    if count == 0 || count > APPEND_MAX_RECORDS {
        let words = format!("the append has {count} records, and 1 to {APPEND_MAX_RECORDS} are taken");
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "records"));
    }
    let mut sent = v1::Append { run: None, n: 0, acknowledged_seq: 0, records: append.records };
    let announces = effects::take_last_notice(&mut sent.records)?;
    let request = Digest::of(&sent.encode_to_vec());
    let by = Principal::fleet(format!("worker {worker}"));
    let drafts: Vec<Draft> =
        sent.records.into_iter().map(|record| read_record(record, &by)).collect::<Result<_, _>>()?;
    effects::check_order(&drafts)?;
    let body = ReportBody::Records(drafts);
    Ok(RunReport {
        run,
        n: append.n,
        request,
        acknowledged: Seq(append.acknowledged_seq),
        body,
        announces,
        stream,
        room: None,
        reply,
    })
}

/// The end of a run.
pub(crate) fn read_end(
    run: RunRef,
    end: v1::EndRun,
    worker: &WorkerName,
    stream: ReportStream,
    reply: ReportReply,
) -> Result<RunReport, Refusal> {
    check_number(end.n)?;
    let (n, acknowledged, last_notice) = (end.n, Seq(end.acknowledged_seq), Seq(end.last_notice_seq));
    let sent = v1::EndRun { run: None, n: 0, acknowledged_seq: 0, last_notice_seq: 0, ..end };
    let request = Digest::of(&sent.encode_to_vec());
    let report = EndReport {
        epoch: run.epoch,
        end: bound_words(read_run_end(sent.end)?),
        result: read_result(sent.result, sent.result_blob.as_ref())?,
        output_chunks: sent.output_chunks,
        last_notice,
        unasked: effects::read_unasked(sent.unasked_keys, sent.unasked_count)?,
        booking: Some(Seq(sent.booking_seq)).filter(|seq| seq.0 > 0),
    };
    if report.unasked.is_some() && report.end != RunEnd::ExitCode(0) {
        let words = "keys that were not asked for are only taken with exit code 0";
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "unasked_keys"));
    }
    if report.booking.is_some() && report.end != RunEnd::ExitCode(0) {
        let words = "a booking is only taken with exit code 0";
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "booking_seq"));
    }
    if report.result.is_some() && report.end != RunEnd::ExitCode(0) {
        let words = "a result is only taken with exit code 0";
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "result"));
    }
    let by = Principal::fleet(format!("worker {worker}"));
    let body = ReportBody::End(Box::new(report), by);
    Ok(RunReport { run, n, request, acknowledged, body, announces: None, stream, room: None, reply })
}

/// The answer to a report.
pub(crate) fn write_answer(run: &RunRef, n: u64, answer: ReportAnswer) -> v1::Appended {
    let outcome = match answer {
        ReportAnswer::Applied(seq) => appended::Outcome::Applied(v1::Applied { seq: seq.0 }),
        ReportAnswer::Fenced { held_by, epoch, applied } => appended::Outcome::Fenced(v1::Fenced {
            held_by: held_by.map(|worker| worker.to_string()).unwrap_or_default(),
            epoch: epoch.0,
            applied_seq: applied.map_or(0, |seq| seq.0),
        }),
        ReportAnswer::Sealed => appended::Outcome::Sealed(v1::Sealed {}),
        ReportAnswer::Missing => appended::Outcome::Missing(v1::Missing {}),
        ReportAnswer::Notice(notice) => appended::Outcome::Notice(write_notice(&notice)),
        ReportAnswer::Refused(refusal) => appended::Outcome::Refused(v1::AppendRefused {
            code: refusal.reason.code().to_owned(),
            message: refusal.message,
        }),
    };
    v1::Appended { run: Some(write_run_ref(run)), n, outcome: Some(outcome) }
}

/// A notice as it goes onto the wire.
pub(crate) fn write_notice(notice: &StandingNotice) -> v1::Notice {
    v1::Notice { seq: notice.seq.0, kind: notice.kind.to_owned() }
}

/// Words for a person are kept as far as they are text of a sensible length.
pub(crate) fn bound_words(end: RunEnd) -> RunEnd {
    match end {
        RunEnd::NotStarted { reason } => RunEnd::NotStarted { reason: bound_text(&reason) },
        RunEnd::HandlerFailed { error, is_final } => {
            RunEnd::HandlerFailed { error: bound_text(&error), is_final }
        }
        RunEnd::UndoFailed { key, error } => RunEnd::UndoFailed { key, error: bound_text(&error) },
        other => other,
    }
}

fn bound_text(text: &str) -> String {
    let kept = text.chars().filter(|letter| !letter.is_control() || *letter == '\n');
    kept.take(WHY_MAX_BYTES / 4).collect()
}

fn check_number(n: u64) -> Result<(), Refusal> {
    if n == 0 {
        let words = "appends are counted from 1, and this one has the number 0";
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "n"));
    }
    Ok(())
}

fn read_record(record: v1::NewRecord, by: &Principal) -> Result<Draft, Refusal> {
    match record.kind {
        Some(new_record::Kind::Note(note)) => read_note(note.text),
        Some(new_record::Kind::Remembered(line)) => read_memory(line.text),
        Some(new_record::Kind::EffectStarted(started)) => effects::read_started(started),
        Some(new_record::Kind::EffectDone(done)) => effects::read_done(done),
        Some(new_record::Kind::EffectFailed(failed)) => effects::read_failed(failed),
        Some(new_record::Kind::EffectReconciled(reconciled)) => {
            effects::read_reconciled(reconciled, by.clone())
        }
        Some(new_record::Kind::StepStarted(started)) => Ok(Draft::bare(RecordKind::StepStarted {
            name: read_step_name("step_started.name", &started.name)?,
        })),
        Some(new_record::Kind::StepFinished(finished)) => read_step_finished(finished),
        Some(new_record::Kind::GroupOpened(opened)) => Ok(Draft::bare(RecordKind::GroupOpened {
            name: read_step_name("group_opened.name", &opened.name)?,
        })),
        Some(new_record::Kind::GroupSettled(settled)) => read_group_settled(settled),
        Some(new_record::Kind::Spent(spent)) => read_spent(&spent),
        None => Err(InvalidField::Missing { field: "records.kind" }.into()),
    }
}

fn read_group_settled(settled: v1::NewGroupSettled) -> Result<Draft, Refusal> {
    let name = read_step_name("group_settled.name", &settled.name)?;
    let count = settled.members.len();
    if count > GROUP_MEMBERS_MAX {
        let words =
            format!("the group {name:?} has {count} members, and at most {GROUP_MEMBERS_MAX} are taken");
        return Err(
            Refusal::new(Reason::InvalidArgument, words).with_detail("field", "group_settled.members")
        );
    }
    let members = settled.members.iter().map(|key| read_effect_key("group_settled.members", key));
    let members = members.collect::<Result<_, _>>()?;
    let outcome = if settled.reversed { GroupOutcome::Reversed } else { GroupOutcome::Committed };
    let invariant = Some(bound_text(&settled.invariant)).filter(|words| !words.is_empty());
    Ok(Draft::bare(RecordKind::GroupSettled { name, outcome, members, invariant }))
}

fn read_step_finished(finished: v1::NewStepFinished) -> Result<Draft, Refusal> {
    let name = read_step_name("step_finished.name", &finished.name)?;
    let bytes = finished.output.len();
    if bytes > STEP_OUTPUT_MAX_BYTES {
        let words = format!(
            "the output of step {name:?} has {bytes} bytes, and at most {STEP_OUTPUT_MAX_BYTES} are taken",
            name = name.as_str()
        );
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "step_finished.output"));
    }
    let output = salt_value(finished.output.to_vec());
    Ok(Draft::with_value(output, |output| RecordKind::StepFinished { name, output }))
}

fn read_spent(spent: &v1::NewSpent) -> Result<Draft, Refusal> {
    let spend = Spend { tokens: spent.tokens, cost: Micros(spent.cost_micros), turns: spent.turns };
    spend.check()?;
    Ok(Draft::bare(RecordKind::Spent { spend }))
}

fn read_note(text: String) -> Result<Draft, Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::new(Reason::ReasonMissing, "the note is blank"));
    }
    if text.len() > NOTE_MAX_BYTES {
        let words = format!("the note has {} bytes, and at most {NOTE_MAX_BYTES} are taken", text.len());
        return Err(Refusal::new(Reason::NoteTooLarge, words).with_detail("limit_bytes", NOTE_MAX_BYTES));
    }
    Ok(Draft::with_value(salt_value(text.into_bytes()), |text| RecordKind::Note { text }))
}

fn read_memory(text: String) -> Result<Draft, Refusal> {
    check_memory(&text)?;
    Ok(Draft::with_value(salt_value(text.into_bytes()), |text| RecordKind::Remembered { text }))
}

/// A result that comes with its end, or one that was stored before; whoever reports it has looked whether it was.
fn read_result(
    beside: Option<bytes::Bytes>,
    blob: Option<&v1::BlobRef>,
) -> Result<Option<NewValue>, Refusal> {
    match (beside, blob) {
        (Some(_), Some(_)) => {
            let words = "the result comes with the end of its run, or from the blob store, and not both";
            Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "result_blob"))
        }
        (Some(result), None) => {
            let result = check_result(result.to_vec())?;
            Ok(Some(NewValue::Beside(salt_value(result))))
        }
        (None, Some(blob)) => Ok(Some(NewValue::Blob(read_blob_ref("result_blob", blob)?))),
        (None, None) => Ok(None),
    }
}

fn check_result(result: Vec<u8>) -> Result<Vec<u8>, Refusal> {
    if result.len() as u64 > VALUE_MAX_BYTES {
        let words = format!("the result has {} bytes, and at most {VALUE_MAX_BYTES} are taken", result.len());
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "result"));
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use tenure_core::{
        id::{Epoch, Generation, Run, Tenant},
        limits::SPEND_MAX,
    };

    use super::*;
    use crate::mint::mint_job_id;

    fn run() -> RunRef {
        let job = mint_job_id(jiff::Timestamp::UNIX_EPOCH);
        let (tenant, generation) = (Tenant::default_tenant(), Generation(1));
        RunRef { tenant, job, epoch: Epoch(1), run: Run(1), generation }
    }

    fn append(text: &str) -> v1::Append {
        let note = v1::NewNote { text: text.to_owned() };
        let record = v1::NewRecord { kind: Some(new_record::Kind::Note(note)) };
        v1::Append { run: None, n: 1, acknowledged_seq: 3, records: vec![record] }
    }

    fn read(append: v1::Append) -> Result<RunReport, Refusal> {
        let worker: WorkerName = "w1".parse().unwrap();
        read_append(run(), append, &worker, ReportStream::default(), Reply::call(|_| {}))
    }

    #[test]
    fn the_digest_does_not_change_with_what_was_acknowledged_meanwhile() {
        let first = read(append("one")).unwrap();
        let again = read(v1::Append { acknowledged_seq: 9, ..append("one") }).unwrap();
        let other = read(append("two")).unwrap();
        assert_eq!(first.request, again.request);
        assert_ne!(first.request, other.request);
    }

    #[test]
    fn what_can_never_be_accepted_is_refused_by_name() {
        let refused = |append| read(append).map(|_| ()).unwrap_err().reason;
        assert_eq!(refused(append(" \n")), Reason::ReasonMissing);
        assert_eq!(refused(append(&"x".repeat(NOTE_MAX_BYTES + 1))), Reason::NoteTooLarge);
        assert_eq!(refused(v1::Append { n: 0, ..append("one") }), Reason::InvalidArgument);
        assert_eq!(refused(v1::Append { records: Vec::new(), ..append("one") }), Reason::InvalidArgument);
    }

    #[test]
    fn a_spend_is_taken_as_it_is_and_what_is_none_is_refused() {
        let spent = |tokens, cost_micros, turns| {
            let spent = v1::NewSpent { tokens, cost_micros, turns };
            let records = vec![v1::NewRecord { kind: Some(new_record::Kind::Spent(spent)) }];
            read(v1::Append { records, ..append("one") }).map(|_| ()).map_err(|refusal| refusal.reason)
        };
        assert_eq!(spent(1, 0, 0), Ok(()));
        assert_eq!(spent(0, 0, 0), Err(Reason::InvalidArgument));
        for most in [SPEND_MAX + 1, u64::MAX] {
            for refused in [spent(most, 0, 0), spent(0, most, 0), spent(0, 0, most)] {
                assert_eq!(refused, Err(Reason::InvalidArgument));
            }
        }
    }

    #[test]
    fn a_result_beside_another_end_than_success_is_refused() {
        let end = |code, result: Option<&'static [u8]>| v1::EndRun {
            n: 1,
            end: Some(v1::RunEnd { how: Some(v1::run_end::How::ExitCode(code)) }),
            result: result.map(bytes::Bytes::from_static),
            ..v1::EndRun::default()
        };
        let worker: WorkerName = "w1".parse().unwrap();
        let read =
            |end| read_end(run(), end, &worker, ReportStream::default(), Reply::call(|_| {})).map(|_| ());
        assert!(read(end(0, Some(b"done"))).is_ok());
        assert!(read(end(1, None)).is_ok());
        assert_eq!(read(end(1, Some(b"done"))).unwrap_err().reason, Reason::InvalidArgument);
    }
}
