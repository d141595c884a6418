//! Composes a handover from a job's journal.

use jiff::Timestamp;

use super::{Cause, EarlierNote, Handover, RemainingDeadline};
use crate::{
    deadline::Deadline,
    id::{JobId, Run, Seq},
    limits::HANDOVER_NOTES_MAX_BYTES,
    record::{Record, RecordKind},
};

impl Handover {
    /// The handover of a first run: it has an input and nothing before it.
    #[must_use]
    pub fn for_dispatch(job: JobId, run: Run, input: Vec<u8>, deadline: &Deadline, now: Timestamp) -> Self {
        Self {
            job,
            run,
            cause: Cause::Dispatch,
            input: Some(input),
            notes: Vec::new(),
            notes_left_out: 0,
            deadline: remaining(deadline, now),
        }
    }
}

/// Composes what a run is told: `records` are the job's records with the values beside them, in order, or those kinds of
/// them that matter (`job_admitted`, `run_started`, `note`); `up_to` is the seq of the record that starts the run, and what
/// comes after it is left out. None where that record is not among them.
#[must_use]
pub fn compose_handover(
    records: &[(Record, Option<Vec<u8>>)],
    up_to: Seq,
    now: Timestamp,
    deadline: &Deadline,
) -> Option<Handover> {
    let (start, cause) = records.iter().find_map(|(record, _)| match &record.kind {
        RecordKind::RunStarted { cause, .. } if record.seq == up_to => Some((record, cause.clone())),
        _ => None,
    })?;
    let before = || records.iter().filter(|(record, _)| record.seq < up_to);
    let input = before().find_map(|(record, value)| match &record.kind {
        RecordKind::JobAdmitted { .. } => value.clone(),
        _ => None,
    });
    let notes = before().filter_map(|(record, value)| read_note(record, value.as_deref())).collect();
    let (notes, notes_left_out) = bound_notes(notes);
    let deadline = remaining(deadline, now);
    Some(Handover { job: start.job, run: start.run, cause, input, notes, notes_left_out, deadline })
}

fn remaining(deadline: &Deadline, now: Timestamp) -> Option<RemainingDeadline> {
    let at = deadline.deadline_at()?;
    Some(RemainingDeadline { at, remaining_s: deadline.remaining_s(now)? })
}

fn read_note(record: &Record, value: Option<&[u8]>) -> Option<EarlierNote> {
    match &record.kind {
        RecordKind::Note { .. } => Some(EarlierNote {
            run: record.run,
            at: record.at,
            text: value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
        }),
        _ => None,
    }
}

/// Keeps the latest notes that fit: they say where the work stood.
fn bound_notes(mut notes: Vec<EarlierNote>) -> (Vec<EarlierNote>, usize) {
    let mut bytes = 0;
    let kept = notes
        .iter()
        .rev()
        .take_while(|note| {
            bytes += note.text.as_ref().map_or(0, String::len);
            bytes <= HANDOVER_NOTES_MAX_BYTES
        })
        .count();
    let left_out = notes.len() - kept;
    (notes.split_off(left_out), left_out)
}
