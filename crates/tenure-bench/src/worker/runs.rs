//! The runs that a stand-in worker holds: how many notes of each are still to be written, and the message that is next.
//! Pure: it is told what was answered, and says what to send.

use std::collections::HashMap;

use anyhow::{Context as _, Result, ensure};
use tenure_proto::v1::{self, appended, attach_request::Message, new_record, run_end};

/// A note as an agent would leave it: 100 bytes.
const NOTE: &str =
    "checked 12 of 40 packages; the lock file is current, two advisories were found, and both are known.";

/// All runs, by job.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    held: HashMap<String, Held>,
}

#[derive(Debug)]
struct Held {
    run: v1::RunRef,
    acknowledged_seq: u64,
    last_n: u64,
    notes_left: u64,
    /// The number of its end, once that was sent.
    end_n: Option<u64>,
}

/// What an answer was about, and what follows.
#[derive(Debug)]
pub(crate) struct Answered {
    /// True where it was the end of the run.
    pub(crate) ended: bool,
    /// The next message.
    pub(crate) next: Option<Message>,
}

impl Runs {
    /// Takes a run that was granted; its end, where it is to end at once.
    pub(crate) fn hold(&mut self, run: v1::RunRef, seq: u64, end: bool) -> Option<Message> {
        let job = run.job_id.clone();
        let mut held = Held { run, acknowledged_seq: seq, last_n: 0, notes_left: 0, end_n: None };
        let message = end.then(|| held.end());
        self.held.insert(job, held);
        message
    }

    /// All that are held, by name.
    pub(crate) fn list(&self) -> Vec<v1::RunRef> {
        self.held.values().map(|held| held.run.clone()).collect()
    }

    /// Each run writes so many notes: the first messages, as many as may be in flight.
    pub(crate) fn begin_notes(&mut self, each: u64, in_flight: u64) -> Vec<Message> {
        let mut messages = Vec::new();
        for held in self.held.values_mut() {
            held.notes_left += each;
            messages.extend((0..in_flight).map_while(|_| held.next_note()));
        }
        messages
    }

    /// The ends of all runs.
    pub(crate) fn end_all(&mut self) -> Vec<Message> {
        self.held.values_mut().map(Held::end).collect()
    }

    /// Takes the answer to a note or an end.
    ///
    /// # Errors
    /// It was not accepted, or nothing like it was sent.
    pub(crate) fn take_answer(&mut self, answer: v1::Appended) -> Result<Answered> {
        let run = answer.run.context("an answer without its run")?;
        let held = self.held.get_mut(&run.job_id).with_context(|| format!("{run:?} is not held"))?;
        let Some(appended::Outcome::Applied(applied)) = answer.outcome else {
            anyhow::bail!("append {} of {run:?} was answered with {:?}", answer.n, answer.outcome)
        };
        ensure!(answer.n <= held.last_n, "append {} of {run:?} was never sent", answer.n);
        held.acknowledged_seq = held.acknowledged_seq.max(applied.seq);
        if held.end_n == Some(answer.n) {
            self.held.remove(&run.job_id);
            return Ok(Answered { ended: true, next: None });
        }
        Ok(Answered { ended: false, next: held.next_note() })
    }
}

impl Held {
    fn next_note(&mut self) -> Option<Message> {
        self.notes_left = self.notes_left.checked_sub(1)?;
        self.last_n += 1;
        let note = v1::NewNote { text: NOTE.to_owned() };
        Some(Message::Append(v1::Append {
            run: Some(self.run.clone()),
            n: self.last_n,
            acknowledged_seq: self.acknowledged_seq,
            records: vec![v1::NewRecord { kind: Some(new_record::Kind::Note(note)) }],
        }))
    }

    fn end(&mut self) -> Message {
        self.last_n += 1;
        self.end_n = Some(self.last_n);
        Message::EndRun(v1::EndRun {
            run: Some(self.run.clone()),
            n: self.last_n,
            acknowledged_seq: self.acknowledged_seq,
            end: Some(v1::RunEnd { how: Some(run_end::How::ExitCode(0)) }),
            ..v1::EndRun::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> v1::RunRef {
        v1::RunRef { job_id: "a".to_owned(), epoch: 1, run: 1, ..v1::RunRef::default() }
    }

    fn applied(n: u64) -> v1::Appended {
        let outcome = appended::Outcome::Applied(v1::Applied { seq: 3 + n });
        v1::Appended { run: Some(run()), n, outcome: Some(outcome) }
    }

    #[test]
    fn so_many_notes_are_in_flight_and_each_answer_brings_the_next_until_all_are_written() {
        let mut runs = Runs::default();
        assert!(runs.hold(run(), 3, false).is_none());
        assert_eq!(runs.begin_notes(3, 2).len(), 2);
        let next = runs.take_answer(applied(1)).unwrap();
        assert!(
            matches!(next.next, Some(Message::Append(note)) if (note.n, note.acknowledged_seq) == (3, 4))
        );
        assert!(runs.take_answer(applied(2)).unwrap().next.is_none());
        assert!(!runs.take_answer(applied(3)).unwrap().ended);
        assert_eq!(runs.end_all().len(), 1);
        assert!(runs.take_answer(applied(4)).unwrap().ended);
    }

    #[test]
    fn a_run_that_ends_at_once_is_gone_with_its_answer_and_a_refusal_is_an_error() {
        let mut runs = Runs::default();
        assert!(matches!(runs.hold(run(), 3, true), Some(Message::EndRun(end)) if end.n == 1));
        assert_eq!(runs.list(), [run()]);
        let refused = v1::Appended { outcome: Some(appended::Outcome::Sealed(v1::Sealed {})), ..applied(1) };
        assert!(runs.take_answer(refused).is_err());
        assert!(runs.take_answer(applied(1)).unwrap().ended);
        assert!(runs.take_answer(applied(1)).is_err() && runs.list().is_empty(), "it is not held any more");
    }
}
