//! What one run reports, until it is durable: the notes, effects and the end that are not acknowledged yet, numbered from 1, and
//! the chunks of output, numbered from 0. It promises that nothing is forgotten before its answer came and that a report
//! sent again is the same report: same n, same contents. It sends nothing and waits for nothing.
//! Neighbour: `outbox` holds one for each run and decides what goes onto the stream next.

use std::collections::VecDeque;

use bytes::Bytes;
use tenure_core::{
    admission::Spend,
    id::{Epoch, Seq},
    limits,
    record::ValueRef,
    run_ref::RunRef,
    settlement::RunEnd,
};
use tenure_proto::{
    convert::{
        blob::write_blob_ref,
        run::{write_run_end, write_run_ref},
    },
    v1::{self, attach_request::Message, new_record},
};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// What a run has to say about itself, beside its output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Report {
    /// A line of progress.
    Note(String),
    /// A line that the agent is to remember.
    Memory(String),
    /// What is said about effects, accepted whole or not at all.
    Effect(Vec<new_record::Kind>),
    /// A step was begun or finished.
    Step(new_record::Kind),
    /// Something was spent.
    Spend(Spend),
    /// The run is over.
    End(EndReport),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndReport {
    /// How.
    pub(crate) end: RunEnd,
    /// What the child left in its result file.
    pub(crate) result: Option<RunResult>,
    /// The last notice that was seen before this was written; 0: none.
    pub(crate) last_notice_seq: u64,
    /// Whether output was cut off.
    pub(crate) output_truncated: bool,
    /// The effects of earlier runs that this run never asked for; only at exit code 0.
    pub(crate) unasked: UnaskedKeys,
    /// The last booking of the run, as the position of its record; only at exit code 0. 0: none.
    pub(crate) booking_seq: u64,
}

/// What a run returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunResult {
    /// It goes with the report.
    Bytes(Bytes),
    /// It was handed on before.
    Blob(ValueRef),
}

/// Keys of effects that earlier runs announced, and that a run never asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UnaskedKeys {
    /// The first of them.
    pub(crate) listed: Vec<String>,
    /// How many there are in all.
    pub(crate) count: u64,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReportAnswer {
    /// Durable.
    Applied(Seq),
    /// The epoch is not the present one.
    Fenced {
        /// Who holds the job.
        held_by: Option<String>,
        /// The present epoch.
        epoch: Epoch,
        /// Where the report was durable before.
        applied: Option<Seq>,
    },
    /// The job takes no more records.
    Sealed,
    /// There is no such job.
    Missing,
    /// Something stands in the journal that is to be answered first.
    Notice {
        /// Its position.
        seq: Seq,
        /// Its kind.
        kind: String,
    },
    /// Never to be accepted.
    Refused {
        /// The stable code.
        code: String,
        /// For a person.
        message: String,
    },
}

/// A report that has no answer yet, or whose predecessor has none.
#[derive(Debug)]
struct Pending {
    n: u64,
    report: Report,
    answer: Option<oneshot::Sender<ReportAnswer>>,
    /// Where it is durable, while an earlier report still waits.
    applied: Option<Seq>,
    /// Free again once this is dropped.
    _turn: Option<OwnedSemaphorePermit>,
}

/// A chunk of output that is not durable yet.
#[derive(Debug)]
struct Chunk {
    number: u64,
    stream: v1::OutputStream,
    bytes: Bytes,
}

/// What a chunk takes of the window: its bytes, and as much as each chunk costs whoever keeps it beside them. Otherwise
/// a child that writes many short lines would fill more memory than the window allows.
pub(crate) fn size_in_window(bytes: &Bytes) -> usize {
    bytes.len() + limits::OUTPUT_CHUNK_OVERHEAD_BYTES
}

/// One run's unacknowledged reports and output.
#[derive(Debug)]
pub(crate) struct RunJournal {
    run: RunRef,
    next_n: u64,
    next_chunk: u64,
    acknowledged_seq: Seq,
    pending: VecDeque<Pending>,
    output: VecDeque<Chunk>,
    /// Nothing is added any more; what is unacknowledged is still sent.
    closed: bool,
}

impl RunJournal {
    /// The journal of a run whose `run_started` record is at `seq`.
    pub(crate) fn new(run: RunRef, seq: Seq) -> Self {
        Self {
            run,
            next_n: 1,
            next_chunk: 0,
            acknowledged_seq: seq,
            pending: VecDeque::new(),
            output: VecDeque::new(),
            closed: false,
        }
    }

    /// Adds a report; its answer comes over the channel. Returns its n.
    pub(crate) fn add_report(
        &mut self,
        report: Report,
        answer: oneshot::Sender<ReportAnswer>,
        turn: Option<OwnedSemaphorePermit>,
    ) -> u64 {
        let n = self.next_n;
        self.next_n += 1;
        self.pending.push_back(Pending { n, report, answer: Some(answer), applied: None, _turn: turn });
        n
    }

    /// Adds a chunk of output. Returns its number.
    pub(crate) fn add_output(&mut self, stream: v1::OutputStream, bytes: Bytes) -> u64 {
        let number = self.next_chunk;
        self.next_chunk += 1;
        self.output.push_back(Chunk { number, stream, bytes });
        number
    }

    /// The message for a report that still waits for its answer.
    pub(crate) fn compose_report(&self, n: u64) -> Option<Message> {
        let pending = self.pending.get(self.position_of(n)?).filter(|pending| pending.answer.is_some())?;
        Some(match &pending.report {
            Report::Note(text) => {
                self.compose_append(n, [new_record::Kind::Note(v1::NewNote { text: text.clone() })])
            }
            Report::Memory(text) => {
                let line = v1::NewRemembered { text: text.clone() };
                self.compose_append(n, [new_record::Kind::Remembered(line)])
            }
            Report::Step(record) => self.compose_append(n, [record.clone()]),
            Report::Spend(Spend { tokens, cost, turns }) => {
                let spent = v1::NewSpent { tokens: *tokens, cost_micros: cost.0, turns: *turns };
                self.compose_append(n, [new_record::Kind::Spent(spent)])
            }
            Report::Effect(records) => self.compose_append(n, records.iter().cloned()),
            Report::End(end) => Message::EndRun(v1::EndRun {
                run: Some(write_run_ref(&self.run)),
                n,
                acknowledged_seq: self.acknowledged_seq.0,
                end: Some(write_run_end(&end.end)),
                result: match &end.result {
                    Some(RunResult::Bytes(result)) => Some(result.clone()),
                    Some(RunResult::Blob(_)) | None => None,
                },
                result_blob: match &end.result {
                    Some(RunResult::Blob(named)) => Some(write_blob_ref(*named)),
                    Some(RunResult::Bytes(_)) | None => None,
                },
                last_notice_seq: end.last_notice_seq,
                output_chunks: self.next_chunk,
                output_truncated: end.output_truncated,
                unasked_keys: end.unasked.listed.clone(),
                unasked_count: end.unasked.count,
                booking_seq: end.booking_seq,
            }),
        })
    }

    fn compose_append(&self, n: u64, kinds: impl IntoIterator<Item = new_record::Kind>) -> Message {
        Message::Append(v1::Append {
            run: Some(write_run_ref(&self.run)),
            n,
            acknowledged_seq: self.acknowledged_seq.0,
            records: kinds.into_iter().map(|kind| v1::NewRecord { kind: Some(kind) }).collect(),
        })
    }

    /// The message for a chunk that is not durable yet.
    pub(crate) fn compose_output(&self, number: u64) -> Option<Message> {
        // Numbers have no gaps, so the place follows from the number.
        let first = self.output.front()?.number;
        let chunk = self.output.get(usize::try_from(number.checked_sub(first)?).ok()?)?;
        Some(Message::WriteOutput(v1::WriteOutput {
            run: Some(write_run_ref(&self.run)),
            chunk: number,
            stream: chunk.stream.into(),
            bytes: chunk.bytes.clone(),
        }))
    }

    /// Takes the answer to a report. One that waits no longer is left alone: it was answered on an earlier stream.
    pub(crate) fn answer_report(&mut self, n: u64, answer: ReportAnswer) {
        let Some(pending) = self.position_of(n).and_then(|place| self.pending.get_mut(place)) else { return };
        let Some(waiting) = pending.answer.take() else { return };
        pending.applied = match &answer {
            ReportAnswer::Applied(seq) => Some(*seq),
            ReportAnswer::Fenced { applied, .. } => *applied,
            ReportAnswer::Sealed
            | ReportAnswer::Missing
            | ReportAnswer::Notice { .. }
            | ReportAnswer::Refused { .. } => None,
        };
        // Whoever asked may be gone: a child that was ended while it waited for its note.
        let _ = waiting.send(answer);
        self.drop_answered_front();
    }

    /// Where the report of this n stands: only answered ones are missing, and only from the front.
    fn position_of(&self, n: u64) -> Option<usize> {
        usize::try_from(n.checked_sub(self.pending.front()?.n)?).ok()
    }

    /// The look-up of a report that is sent again begins at the acknowledged seq, so this one never passes a report
    /// that has no answer yet.
    fn drop_answered_front(&mut self) {
        while self.pending.front().is_some_and(|front| front.answer.is_none()) {
            if let Some(seq) = self.pending.pop_front().and_then(|answered| answered.applied) {
                self.acknowledged_seq = self.acknowledged_seq.max(seq);
            }
        }
    }

    /// Drops the chunks up to and with this one. Returns how much room in the window they took.
    pub(crate) fn acknowledge_output(&mut self, up_to: u64) -> usize {
        let mut freed_bytes = 0;
        while self.output.front().is_some_and(|chunk| chunk.number <= up_to) {
            freed_bytes += self.output.pop_front().map_or(0, |chunk| size_in_window(&chunk.bytes));
        }
        freed_bytes
    }

    /// Drops all output. Returns how much room in the window it took.
    pub(crate) fn drop_output(&mut self) -> usize {
        self.output.drain(..).map(|chunk| size_in_window(&chunk.bytes)).sum()
    }

    /// The reports that wait for an answer, in order.
    pub(crate) fn waiting_reports(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().filter(|pending| pending.answer.is_some()).map(|pending| pending.n)
    }

    /// The chunks that are not durable yet, in order.
    pub(crate) fn waiting_output(&self) -> impl Iterator<Item = u64> {
        self.output.iter().map(|chunk| chunk.number)
    }

    /// Says that nothing will be added any more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether everything was answered and nothing will be added.
    pub(crate) fn is_settled(&self) -> bool {
        self.closed && self.pending.is_empty() && self.output.is_empty()
    }
}

#[cfg(test)]
mod tests;
