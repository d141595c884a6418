//! The end of a run as its holder reports it: the group is empty, so the child is gone whatever the cause.

use crate::{
    effect::EffectKey,
    id::{Epoch, Seq, WorkerName},
    job::State,
    plan::{Changes, JobChange, JobFacts, LeaseChange, Plan},
    principal::Principal,
    record::{Draft, HandOver, NewValue, RecordKind},
    recovery::{Child, GoneProof, Interruption},
    refusal::Refusal,
    settlement::{
        InsteadOf, abandon, cancel, carry_out, draft_conclusion, judge,
        judgement::{conclude_at_limit, hand_over, judge_deadline, judge_refusal},
        quarantine_doubts,
        unwinding::{fail, settle_unwinding},
        waiting::suspend,
    },
    wait::Wait,
};

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// By itself, with this exit code.
    ExitCode(i32),
    /// By a signal that its worker did not send.
    Signal(i32),
    /// It ran past its own timeout, and was ended.
    OwnTimeout {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// It was silent for longer than its idle timeout, and was ended.
    IdleTimeout {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// It was ended because a cancel stands.
    Cancel,
    /// Its worker leaves, and asked it to end, or never started it.
    Drained,
    /// It could not be started.
    NotStarted {
        /// Why, for a person.
        reason: String,
    },
    /// It was ended because its worker could not answer for it any longer.
    ContactLost,
    /// Its handler returned an error, or panicked.
    HandlerFailed {
        /// What it said, for a person.
        error: String,
        /// True where the handler declares that another run would fail as well.
        is_final: bool,
    },
    /// Its handler ended because its next step or effect was refused: the session's deadline is reached.
    DeadlineReached,
    /// It announced a wait, and was ended for it.
    Waiting(Wait),
    /// It undid what the job has done, and found nothing more to undo.
    Unwound,
    /// A step could not be undone.
    UndoFailed {
        /// The key of the undoing.
        key: EffectKey,
        /// What it said, for a person.
        error: String,
    },
}

/// A holder's report that its run is over.
#[derive(Debug, Clone, PartialEq)]
pub struct EndReport {
    /// The epoch under which it holds the job.
    pub epoch: Epoch,
    /// How the child ended.
    pub end: RunEnd,
    /// What the run left as its result; only with exit code 0.
    pub result: Option<NewValue>,
    /// Chunks of output that the run wrote.
    pub output_chunks: u64,
    /// The last notice that the worker has seen; seq 0: none.
    pub last_notice: Seq,
    /// Effects that earlier runs announced and that this run never asked for; only with exit code 0.
    pub unasked: Option<Unasked>,
    /// The last booking of the run, as the position of its record; only with exit code 0.
    pub booking: Option<Seq>,
}

/// Effects that a run did not ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unasked {
    /// The keys of the first of them, at most `limits::UNASKED_KEYS_MAX`.
    pub keys: Vec<EffectKey>,
    /// How many there are in all.
    pub count: u64,
}

/// What a holder's report makes of the job.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is returned, and never kept in numbers"
)]
pub enum EndDecision {
    /// Write this.
    Write(Plan),
    /// A notice stands that the worker had not seen: it answers that first, and nothing is written.
    Notice {
        /// Its seq.
        seq: Seq,
        /// Its kind.
        kind: &'static str,
    },
    /// The run is no longer this worker's.
    Fenced {
        /// Who holds the job; none: nobody.
        held_by: Option<WorkerName>,
        /// The present epoch.
        epoch: Epoch,
    },
    /// The journal takes no more records.
    Sealed,
}

/// Decides about the end of a run as its holder reports it.
///
/// # Errors
/// The job's state does not admit what follows from the end, although its lease is live: a defect.
pub fn plan_end(facts: &JobFacts, report: EndReport, by: Principal) -> Result<EndDecision, Refusal> {
    if facts.state.is_sealed() {
        return Ok(EndDecision::Sealed);
    }
    if !holds(facts, report.epoch) {
        let live = facts.lease.as_ref().filter(|lease| lease.live);
        let held_by = live.map(|lease| lease.worker.clone());
        return Ok(EndDecision::Fenced { held_by, epoch: facts.head_epoch });
    }
    if let Some((seq, kind)) = facts.standing_notice().filter(|(seq, _)| *seq > report.last_notice) {
        return Ok(EndDecision::Notice { seq, kind });
    }
    let output_chunks = report.output_chunks;
    let mut plan = settle_end(facts, report, by)?;
    note_output(&mut plan, output_chunks);
    Ok(EndDecision::Write(plan))
}

/// A verdict says how much output its run wrote, so that a reader knows when it has seen all.
fn note_output(plan: &mut Plan, chunks: u64) {
    if let Some(Draft { kind: RecordKind::JobConcluded { output_chunks, .. }, .. }) = plan.drafts.last_mut() {
        *output_chunks = Some(chunks);
    }
}

/// The plan of a success. It needs no facts where nothing that mutates is open: a store that still finds the holder's lease
/// and head as they were has said everything there is to know. Nobody has asked for a cancel, or the head would have moved.
#[must_use]
pub fn plan_success(report: EndReport) -> Plan {
    let mut drafts = warn_unasked(report.unasked);
    drafts.push(draft_conclusion(State::Succeeded, None, report.result, Some(report.output_chunks)));
    let job = JobChange { state: Some(State::Succeeded), concluded: true, ..JobChange::default() };
    let layover = report.booking;
    let changes = Changes { job: Some(job), lease: LeaseChange::Delete, layover, ..Changes::default() };
    Plan { epoch: report.epoch, drafts, changes }
}

/// Keys that contain a date or a random number break silently otherwise.
fn warn_unasked(unasked: Option<Unasked>) -> Vec<Draft> {
    let warning = |Unasked { keys, count }| Draft::bare(RecordKind::EffectsUnasked { keys, count });
    unasked.map(warning).into_iter().collect()
}

fn holds(facts: &JobFacts, epoch: Epoch) -> bool {
    facts.lease.as_ref().is_some_and(|lease| lease.live && lease.epoch == epoch)
}

fn settle_end(facts: &JobFacts, report: EndReport, by: Principal) -> Result<Plan, Refusal> {
    let epoch = report.epoch;
    let proof = proof_of(&report.end);
    let gone = Draft::bare(RecordKind::ChildGone { of_epoch: epoch, proof, by });
    if facts.abandoned().is_some() {
        return abandon(facts, epoch, vec![gone]);
    }
    if let Some(unwinding) = &facts.unwinding {
        return settle_unwinding(facts, unwinding, epoch, vec![gone], report.end);
    }
    if facts.cancel_requested.is_some() {
        return cancel(facts, epoch, vec![gone]);
    }
    if facts.steered().is_some() {
        return hand_over(facts, epoch, vec![gone], HandOver::Steered);
    }
    if let Some(judgement) = judge_refusal(facts) {
        return conclude_at_limit(facts, epoch, vec![gone], judgement);
    }
    let (interruption, healthy) = match report.end {
        RunEnd::Drained => return hand_over(facts, epoch, vec![gone], HandOver::Drained),
        RunEnd::ExitCode(0) if facts.doubts.is_empty() => return Ok(plan_success(report)),
        RunEnd::ExitCode(0) => {
            let mut drafts = vec![gone];
            drafts.extend(warn_unasked(report.unasked));
            let instead_of = InsteadOf { state: State::Succeeded, reason: None, result: report.result };
            return quarantine_doubts(facts, epoch, drafts, instead_of);
        }
        RunEnd::Waiting(wait) => return suspend(facts, epoch, vec![gone], wait),
        RunEnd::DeadlineReached => {
            if let Some(judgement) = judge_deadline(facts) {
                return conclude_at_limit(facts, epoch, vec![gone], judgement);
            }
            // Its worker's clock was ahead of the database's: nothing is held against the handler.
            (Interruption::LostContact, true)
        }
        RunEnd::Cancel | RunEnd::ContactLost => (Interruption::LostContact, true),
        end => match find_final_failure(facts, &end) {
            Some(why) => return fail_for_good(facts, epoch, vec![gone], &why),
            None => (end.interruption(), false),
        },
    };
    let judgement = judge(facts, &interruption, Child::Gone, healthy);
    carry_out(facts, epoch, vec![gone], &interruption, judgement, LeaseChange::Delete)
}

const fn proof_of(end: &RunEnd) -> GoneProof {
    match end {
        RunEnd::NotStarted { .. } => GoneProof::NeverStarted,
        RunEnd::ExitCode(_)
        | RunEnd::Signal(_)
        | RunEnd::OwnTimeout { .. }
        | RunEnd::IdleTimeout { .. }
        | RunEnd::Cancel
        | RunEnd::Drained
        | RunEnd::ContactLost
        | RunEnd::HandlerFailed { .. }
        | RunEnd::DeadlineReached
        | RunEnd::Waiting(_)
        | RunEnd::Unwound
        | RunEnd::UndoFailed { .. } => GoneProof::Observed,
    }
}

/// Why an end is a failure for good, where it is one: the job's plan calls its exit code so, or its handler does.
pub(super) fn find_final_failure(facts: &JobFacts, end: &RunEnd) -> Option<String> {
    match end {
        RunEnd::ExitCode(code) if facts.recovery.final_exit_codes.contains(code) => {
            Some(format!("it exited with code {code}, which its declaration calls final"))
        }
        RunEnd::HandlerFailed { error, is_final: true } => {
            Some(format!("its handler failed for good: {error}"))
        }
        RunEnd::ExitCode(_)
        | RunEnd::Signal(_)
        | RunEnd::OwnTimeout { .. }
        | RunEnd::IdleTimeout { .. }
        | RunEnd::Cancel
        | RunEnd::Drained
        | RunEnd::NotStarted { .. }
        | RunEnd::ContactLost
        | RunEnd::HandlerFailed { is_final: false, .. }
        | RunEnd::DeadlineReached
        | RunEnd::Waiting(_)
        | RunEnd::Unwound
        | RunEnd::UndoFailed { .. } => None,
    }
}

/// The plan of an end that is a failure for good.
pub(super) fn fail_for_good(
    facts: &JobFacts,
    epoch: Epoch,
    drafts: Vec<Draft>,
    why: &str,
) -> Result<Plan, Refusal> {
    fail(facts, epoch, drafts, "execution", why)
}

impl RunEnd {
    /// The interruption that this end is where it is no verdict. An exit code 0 that nobody but a guardian saw, and an end
    /// by a cancel that does not stand, say nothing about the work: sight of it was lost.
    #[must_use]
    pub fn interruption(self) -> Interruption {
        match self {
            // A wait that somebody else than the holder tells of was not recorded: the next run reaches it again.
            Self::ExitCode(0) | Self::Waiting(_) => Interruption::WorkerLost,
            Self::ExitCode(code) => crashed(Some(code), None, None, None),
            Self::Signal(signal) => crashed(None, Some(signal), None, None),
            Self::NotStarted { reason } => crashed(None, None, Some(reason), None),
            Self::HandlerFailed { error, .. } => crashed(None, None, None, Some(error)),
            Self::Unwound => {
                crashed(None, None, None, Some("it ended with something left to undo".to_owned()))
            }
            Self::UndoFailed { key, error } => {
                crashed(None, None, None, Some(format!("{key} failed: {error}")))
            }
            Self::OwnTimeout { limit_ms } => Interruption::TimedOut { idle: false, limit_ms },
            Self::IdleTimeout { limit_ms } => Interruption::TimedOut { idle: true, limit_ms },
            Self::Cancel | Self::Drained | Self::ContactLost | Self::DeadlineReached => {
                Interruption::LostContact
            }
        }
    }
}

const fn crashed(
    exit_code: Option<i32>,
    signal: Option<i32>,
    not_started: Option<String>,
    error: Option<String>,
) -> Interruption {
    Interruption::Crashed { exit_code, signal, not_started, error }
}
