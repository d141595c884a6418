//! One run in a story: how it began, what it left, and how it ended, as one paragraph.

use jiff::Timestamp;

use super::{count_of, quote};
use crate::{
    effect::EffectKey,
    handover::Cause,
    id::{Run, WorkerName},
};

/// A run that is told of.
#[derive(Debug)]
pub(super) struct RunStory {
    opening: String,
    notes: u64,
    last_note: String,
    pub(super) steps: u64,
    /// How often it said what it spent.
    pub(super) spends: u64,
    /// What it announced, in its order.
    pub(super) effects: Vec<EffectKey>,
    /// What happened to it afterwards.
    pub(super) sentences: Vec<String>,
}

impl RunStory {
    pub(super) fn begin(run: Run, at: Timestamp, worker: &WorkerName, attempt: u32, cause: &Cause) -> Self {
        let why = match cause {
            Cause::Dispatch => String::new(),
            Cause::Recovered { previous, .. } => format!(" to go on with what run {previous} had left"),
            Cause::Continued { by, why, .. } => {
                format!(" because {} had it go on ({})", by.actor, quote(why))
            }
            Cause::Steered { .. } => " to go by the note of a person".to_owned(),
            Cause::Woken { wait, .. } => format!(" because its wait {:?} was over", wait.name.as_str()),
            Cause::Resumed { booked_by, waiting_for, .. } => {
                format!(" to pick up what session {booked_by} had set down ({})", quote(waiting_for))
            }
            Cause::Drained { previous, .. } => format!(" to go on with run {previous}, which was moved"),
            Cause::Unwinding { instead_of, .. } => {
                format!(" to undo what the job had done, before it becomes {instead_of}")
            }
        };
        let opening = format!("Run {run} began at {at} on worker {worker}{why}, as attempt {attempt}.");
        let (sentences, effects, last_note) = (Vec::new(), Vec::new(), String::new());
        Self { opening, notes: 0, last_note, steps: 0, spends: 0, effects, sentences }
    }

    pub(super) fn take_note(&mut self, quoted: String) {
        self.notes += 1;
        self.last_note = quoted;
    }

    pub(super) fn tell(self) -> String {
        let Self { opening, notes, last_note, steps, spends, effects, sentences } = self;
        let mut told = vec![opening];
        match notes {
            0 => {}
            1 => told.push(format!("It noted {last_note}.")),
            notes => told.push(format!("It left {notes} notes, the last of them {last_note}.")),
        }
        if steps > 0 {
            told.push(format!("It finished {}.", count_of(steps, "step")));
        }
        if let Some(first) = effects.first() {
            let announced = count_of(effects.len() as u64, "effect");
            told.push(format!("It announced {announced}, {:?} first of all.", first.as_str()));
        }
        if spends > 0 {
            told.push(format!(
                "It said {} what it spent.",
                if spends == 1 { "once".to_owned() } else { format!("{spends} times") }
            ));
        }
        told.extend(sentences);
        told.join(" ")
    }
}
