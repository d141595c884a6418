//! What is asked of a lane, and its answers: records of a run by its holder, the end of a run, and decisions about a job
//! by somebody who does not hold it. Neighbours: `lane` carries it out, attachments and services ask.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::Timestamp;
use tenure_core::{
    chain::Head,
    id::{Digest, Epoch, JobId, Seq, Tenant, WorkerName},
    plan::{Decision, JobFacts},
    principal::Principal,
    record::{Draft, NewValue},
    refusal::Refusal,
    run_ref::RunRef,
    settlement::EndReport,
};
use tenure_store::{AppendOutcome, Gift, NewTestimony, StoreError};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::patience::Unanswered;

/// A job, as lanes tell them apart.
pub(crate) type JobKey = (Tenant, JobId);

/// One piece of work for a lane.
pub(crate) enum Work {
    /// A run began; its memory is to be set before anything of it arrives.
    Remember {
        /// The run.
        run: RunRef,
        /// The head that its claim left.
        head: Head,
        /// The time of the claim's record.
        at: Timestamp,
    },
    /// The holder reports.
    Report(RunReport),
    /// Somebody decides about a job.
    Decide(Decide),
}

/// A piece of work that waits, and what it went through until now.
pub(crate) struct Pending {
    /// The work.
    pub(crate) work: Work,
    /// How often it was tried in vain.
    pub(crate) attempts: u32,
    /// What the database refused it with; it is the answer unless the look-up finds that it had been accepted before.
    pub(crate) refused: Option<AppendOutcome>,
}

/// What the holder of a run reports, with its number.
pub(crate) struct RunReport {
    /// The run.
    pub(crate) run: RunRef,
    /// Counts the run's reports from 1.
    pub(crate) n: u64,
    /// The digest of what was sent.
    pub(crate) request: Digest,
    /// The last seq that was acknowledged to the worker.
    pub(crate) acknowledged: Seq,
    /// What is reported.
    pub(crate) body: ReportBody,
    /// Where it announces an effect, so that its answer is a permission to act: the last notice that its worker has seen
    /// (seq 0: none).
    pub(crate) announces: Option<Seq>,
    /// The stream that it came through.
    pub(crate) stream: ReportStream,
    /// Its share of what may wait, in bytes; none: not queued yet.
    pub(crate) room: Option<OwnedSemaphorePermit>,
    /// Who is told what became of it.
    pub(crate) reply: Reply<Result<ReportAnswer, LaneError>>,
}

/// Ties the reports of one stream together: what follows one that was given back unwritten is given back too. Written, it
/// would leave the number before it below the highest of its run, where it is refused for good. The worker sends all of
/// them again, in their order, through its next stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReportStream {
    broken: Arc<AtomicBool>,
}

impl ReportStream {
    /// A report was given back.
    pub(crate) fn break_off(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// True where one was.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }
}

/// What a report says.
pub(crate) enum ReportBody {
    /// Records.
    Records(Vec<Draft>),
    /// The end of the run, and who reports it.
    End(Box<EndReport>, Principal),
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReportAnswer {
    /// It is durable; the seq of its last record. Also the answer to one that had been accepted before.
    Applied(Seq),
    /// The run is another's, or nobody's, by now.
    Fenced {
        /// Who holds the job.
        held_by: Option<WorkerName>,
        /// The present epoch.
        epoch: Epoch,
        /// The seq that an announcement got before it was fenced; the permission is not given again. None: nothing of it
        /// was written.
        applied: Option<Seq>,
    },
    /// The job takes no more records.
    Sealed,
    /// There is no such job.
    Missing,
    /// A notice stands that the worker had not seen.
    Notice(StandingNotice),
    /// It can never be accepted.
    Refused(Refusal),
}

/// A notice that stands for a living run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StandingNotice {
    /// Its seq.
    pub(crate) seq: Seq,
    /// Its kind.
    pub(crate) kind: &'static str,
}

/// How to decide about a job: from facts, and again from new ones where the head moved meanwhile.
pub(crate) type Planner = Box<dyn Fn(&JobFacts) -> Result<Decision, Refusal> + Send + Sync>;

/// A decision that is to be carried out.
pub(crate) struct Decide {
    /// The job.
    pub(crate) job: JobKey,
    /// How to decide.
    pub(crate) planner: Planner,
    /// The job that the last record gives work to, where one is written.
    pub(crate) gift: Option<Box<Gift>>,
    /// Who is told what became of it.
    pub(crate) reply: Reply<Result<Decided, DecideError>>,
}

/// A decision that was carried out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decided {
    /// The facts that it was made from.
    pub(crate) facts: JobFacts,
    /// The seq of the last record that was written; none: there was nothing to write.
    pub(crate) written: Option<Seq>,
}

/// A decision that was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecideError {
    /// There is no such job.
    #[error("there is no such job")]
    Missing,
    /// It was decided against.
    #[error(transparent)]
    Refused(Refusal),
    /// The lane could not.
    #[error(transparent)]
    Lane(#[from] LaneError),
}

/// A lane that could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LaneError {
    /// More waits than the lane takes.
    #[error("more writes are waiting than this coordinator takes at once")]
    Overloaded,
    /// The journal of the job kept moving.
    #[error("the journal of the job moved at each of {attempts} attempts to write to it")]
    Contended {
        /// How often it was tried.
        attempts: u32,
    },
    /// An earlier report of the same stream was given back, and this one must not overtake it.
    #[error("an earlier report of the same stream was not written")]
    Overtaking,
    /// The coordinator is stopping.
    #[error("this coordinator is stopping")]
    Stopping,
    /// The database refused or did not answer; whether it was written is not known.
    #[error("writing to the journal")]
    Store(#[source] Arc<StoreError>),
    /// The database did not answer in time; whether it was written is not known.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    /// A read ended by a defect of ours.
    #[error("reading what the journals end with")]
    Read(#[source] Arc<tokio::task::JoinError>),
    /// What was to be written has no valid form.
    #[error("composing a record")]
    Seal(#[source] Arc<tenure_core::record::SealError>),
}

/// Where an answer goes. An asker that went away is no error.
pub(crate) struct Reply<A>(Box<dyn FnOnce(A) + Send + Sync>);

impl<A: Send + 'static> Reply<A> {
    /// Calls a function.
    pub(crate) fn call(tell: impl FnOnce(A) + Send + Sync + 'static) -> Self {
        Self(Box::new(tell))
    }

    /// A channel for one answer.
    pub(crate) fn channel() -> (Self, oneshot::Receiver<A>) {
        let (sender, receiver) = oneshot::channel();
        let tell = move |answer| {
            let _ = sender.send(answer);
        };
        (Self::call(tell), receiver)
    }

    /// Tells.
    pub(crate) fn send(self, answer: A) {
        (self.0)(answer);
    }
}

impl<A> fmt::Debug for Reply<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

impl RunReport {
    /// The outcomes of effects in it, as they are kept where it comes too late to be written.
    pub(crate) fn testimony(&self) -> Vec<NewTestimony> {
        let ReportBody::Records(drafts) = &self.body else { return Vec::new() };
        let testimony = |(place, draft): (usize, &Draft)| {
            let mark = draft.kind.effect_mark(None)?;
            let value = draft.value.as_ref().map(|beside| beside.value.clone());
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            Some(NewTestimony { run: self.run.clone(), n: self.n, place, mark, value })
        };
        drafts.iter().enumerate().filter_map(testimony).collect()
    }
}

impl ReportBody {
    /// The bytes of the values that it carries.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Records(drafts) => {
                drafts.iter().filter_map(|draft| draft.value.as_ref()).map(|value| value.value.len()).sum()
            }
            Self::End(end, _) => match &end.result {
                Some(NewValue::Beside(result)) => result.value.len(),
                Some(NewValue::Blob(_)) | None => 0,
            },
        }
    }
}

/// The bytes of what is given.
fn gift_bytes(gift: &Gift) -> usize {
    let values = gift.new.records.iter().filter_map(|record| record.value.as_ref());
    let delivered = gift.delivery.as_ref().map_or(0, |delivery| delivery.body.len());
    values.map(|value| value.value.len()).sum::<usize>() + delivered
}

impl Work {
    /// The bytes that it carries.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Remember { .. } => 0,
            Self::Decide(decide) => decide.gift.as_ref().map_or(0, |gift| gift_bytes(gift)),
            Self::Report(report) => report.body.size_bytes(),
        }
    }

    /// True where it would overtake one that was given back.
    pub(crate) fn is_overtaking(&self) -> bool {
        matches!(self, Self::Report(report) if report.stream.is_broken())
    }

    /// The job that it is about.
    pub(crate) fn job(&self) -> JobKey {
        match self {
            Self::Remember { run, .. } | Self::Report(RunReport { run, .. }) => (run.tenant.clone(), run.job),
            Self::Decide(decide) => decide.job.clone(),
        }
    }
}
