//! Composes a handover from a job's journal, record by record: a journal may be of any length, and what is kept of it while
//! it is read is what goes into the handover.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::{
    Cause, EarlierNote, EarlierSteer, Handover, RemainingDeadline, effects::EffectsKept, gifts::GiftsKept,
    steers::SteersKept,
};
use crate::{
    deadline::Deadline,
    id::{JobId, Run, Seq},
    layover::VoidedBooking,
    limits::HANDOVER_NOTES_MAX_BYTES,
    payload::Origin,
    record::{KeptValue, Record, RecordKind},
};

impl Handover {
    /// The handover of a first run: it has an input and nothing before it.
    #[must_use]
    pub fn for_dispatch(job: JobId, run: Run, input: KeptValue, deadline: &Deadline, now: Timestamp) -> Self {
        Self {
            job,
            run,
            cause: Cause::Dispatch,
            input,
            notes: Vec::new(),
            notes_left_out: 0,
            effects: Vec::new(),
            effects_left_out: 0,
            gifts: Vec::new(),
            gifts_left_out: 0,
            voided: None,
            awaited: Vec::new(),
            steers: Vec::new(),
            steers_left_out: 0,
            deadline: remaining(deadline, now),
        }
    }
}

/// What is kept of a job's journal for the handover of one run.
#[derive(Debug, Clone)]
pub struct History {
    up_to: Seq,
    start: Option<(JobId, Run, Cause)>,
    input: KeptValue,
    notes: NotesKept,
    effects: EffectsKept,
    gifts: GiftsKept,
    /// What a run before set down. Only a success makes that take effect, and after one there is no other run.
    booked: Option<VoidedBooking>,
    steers: SteersKept,
    origin: Option<Origin>,
}

impl History {
    /// The kinds of records that a handover is composed from.
    pub const KINDS: [&str; 11] = [
        "job_admitted",
        "run_started",
        "note",
        "layover_booked",
        "steered",
        "effect_started",
        "effect_done",
        "effect_failed",
        "effect_reconciled",
        "sent",
        "spawned",
    ];

    /// Nothing is read yet; `up_to` is the seq of the record that starts the run, and what comes after it is left out.
    #[must_use]
    pub fn up_to(up_to: Seq) -> Self {
        Self {
            up_to,
            start: None,
            input: KeptValue::Erased,
            notes: NotesKept::default(),
            effects: EffectsKept::default(),
            gifts: GiftsKept::default(),
            booked: None,
            steers: SteersKept::default(),
            origin: None,
        }
    }

    /// Takes the next record with the value beside it. Records come in order; all of them, or those of
    /// [`Self::KINDS`].
    pub fn take_record(&mut self, record: Record, value: Option<Vec<u8>>) {
        let before = record.seq < self.up_to;
        if before {
            self.effects.keep(&record, value.as_deref());
            self.gifts.keep(&record);
        }
        match record.kind {
            RecordKind::RunStarted { cause, .. } if record.seq == self.up_to => {
                self.start = Some((record.job, record.run, cause));
            }
            RecordKind::JobAdmitted { input, session, by, sender, .. } if before => {
                self.input = KeptValue::find(input, value);
                self.origin = Some(Origin { session, by: by.actor, sender: sender.map(|sender| *sender) });
            }
            RecordKind::LayoverBooked { until, waiting_for } if before => {
                self.booked = Some(VoidedBooking { run: record.run, until, waiting_for });
            }
            RecordKind::Note { .. } if before => {
                let text = value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                self.notes.keep(EarlierNote { run: record.run, at: record.at, text });
            }
            RecordKind::Steered { by, .. } if before => {
                let note = value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                self.steers.keep(EarlierSteer { at: record.at, by: by.actor, note });
            }
            _ => {}
        }
    }

    /// Where the work came from. None where the admission was not among the records.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// What the next run of a job will be told, for a cause that waits in the queue: as if it began at the head.
    #[must_use]
    pub fn begin_with(mut self, job: JobId, run: Run, cause: Cause) -> Self {
        self.start = Some((job, run, cause));
        self
    }

    /// Composes what the run is told. None where the record that starts it was not among the records.
    #[must_use]
    pub fn compose_handover(self, now: Timestamp, deadline: &Deadline) -> Option<Handover> {
        let (job, run, cause) = self.start?;
        let (notes, notes_left_out) = (self.notes.kept.into(), self.notes.left_out);
        let (effects, effects_left_out) = self.effects.into_told();
        let (gifts, gifts_left_out) = (self.gifts.kept.into(), self.gifts.left_out);
        let (steers, steers_left_out) = self.steers.into_told();
        let (input, deadline) = (self.input, remaining(deadline, now));
        let awaited = Vec::new();
        Some(Handover {
            job,
            run,
            cause,
            input,
            notes,
            notes_left_out,
            effects,
            effects_left_out,
            gifts,
            gifts_left_out,
            voided: self.booked,
            awaited,
            steers,
            steers_left_out,
            deadline,
        })
    }
}

/// The latest notes that fit: they say where the work stood.
#[derive(Debug, Clone, Default)]
struct NotesKept {
    kept: VecDeque<EarlierNote>,
    bytes: usize,
    left_out: usize,
}

impl NotesKept {
    fn keep(&mut self, note: EarlierNote) {
        self.bytes += written_bytes(&note);
        self.kept.push_back(note);
        while self.bytes > HANDOVER_NOTES_MAX_BYTES
            && let Some(oldest) = self.kept.pop_front()
        {
            self.bytes -= written_bytes(&oldest);
            self.left_out += 1;
        }
    }
}

/// What a note takes in the handover's JSON: many short notes and much that is escaped count as what they become.
fn written_bytes(note: &EarlierNote) -> usize {
    // A note is text and numbers, and writing those cannot fail.
    serde_json::to_vec(note).map_or(0, |json| json.len())
}

fn remaining(deadline: &Deadline, now: Timestamp) -> Option<RemainingDeadline> {
    let at = deadline.deadline_at()?;
    Some(RemainingDeadline { at, remaining_s: deadline.remaining_s(now)? })
}
