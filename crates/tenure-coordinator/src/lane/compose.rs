//! Composing one job's share of a round, purely: from what is remembered or was read, which reports are answered at once,
//! which become records, and what must wait for the next round. Look-ups go before fencing: a report that is in the
//! journal already gets its first answer, whoever holds the job by now; one whose first copy is only composed waits until
//! that is written. An announcement of an effect asks for a permission: it is not composed where its writer has not seen the
//! last notice, and what was permitted before is permitted again only where the lease still bears it. A success is written
//! from memory where nothing that mutates is open; every other end is decided from facts. What comes too late and says
//! something about effects is set apart, to be kept as testimony. Neighbours: `round` reads and writes, `memory` judges numbers, the core plans.

mod permission;

use std::collections::{BTreeSet, VecDeque};

use jiff::Timestamp;
use tenure_core::{
    admission::LimitRefusal,
    chain::Head,
    effect::EffectKey,
    id::Seq,
    limits::JOB_EFFECTS_MAX,
    plan::{Changes, Decision, JobFacts, Plan},
    reason::Reason,
    record::{Draft, Header, SealError, SealedRecord, seal_records},
    refusal::Refusal,
    settlement::{EndDecision, EndReport, RunEnd, plan_end, plan_success},
};
use tenure_store::{Append, AppendOutcome, Gift, Guard};

use permission::{Hindrance, judge_announcement, judge_permission};

use super::{
    memory::{Notices, RunMemory, Standing},
    work::{
        Decide, DecideError, Decided, JobKey, LaneError, Pending, ReportAnswer, ReportBody, RunReport,
        StandingNotice, Work,
    },
};

/// What is known of a job when its share of a round is composed.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The run's memory: remembered, or read from the tail.
    pub(crate) memory: Option<RunMemory>,
    /// True where `memory` was read from the seq that the first report names; otherwise a number that is not found there
    /// may yet be in the journal.
    pub(crate) read: bool,
    /// The facts, where they were read.
    pub(crate) facts: Option<JobFacts>,
}

/// One append of a round, with whoever waits for it.
pub(crate) struct Composed {
    /// What is written.
    pub(crate) append: Append,
    /// Whose it is.
    pub(crate) pending: Pending,
    /// The facts that it was decided from.
    pub(crate) facts: Option<JobFacts>,
}

/// A report that came too late to be written, with its answer; what it says about effects is kept before it is given.
pub(crate) struct Late {
    /// What came.
    pub(crate) report: RunReport,
    /// What it is answered.
    pub(crate) answer: ReportAnswer,
}

/// A job's share of a round.
#[derive(Default)]
pub(crate) struct Share {
    /// What is written, in the order of the chain.
    pub(crate) appends: Vec<Composed>,
    /// What is kept beside the chain.
    pub(crate) late: Vec<Late>,
}

/// What becomes of one piece of work in this round.
enum Step {
    Answered,
    /// It is kept as testimony, and then answered.
    Late(Late),
    /// Not in this round: more must be read first.
    Wait(Pending),
    /// It is written, and more of the job may follow.
    Go(Composed),
    /// It is written, and nothing may follow in this round.
    Last(Composed),
}

/// Composes what can be; the rest stays in `queue`.
pub(crate) fn compose_job(
    key: &JobKey,
    mut known: Known,
    queue: &mut VecDeque<Pending>,
    now: Timestamp,
) -> Share {
    let mut share = Share::default();
    // Tail and facts were read for the piece of work that is at the front.
    let mut front = true;
    // The effects that this round speaks of already: what is said of them once more is written by the next.
    let mut spoken: BTreeSet<EffectKey> = BTreeSet::new();
    // The memory goes ahead of the journal while the round is composed; up to here it is in the journal.
    let durable = known.memory.as_ref().map_or(Seq(0), |memory| memory.head.seq);
    while let Some(pending) = queue.pop_front() {
        let (attempts, refused) = (pending.attempts, pending.refused);
        let step = match pending.work {
            Work::Remember { .. } => Step::Answered,
            Work::Report(report) => {
                let turn = Turn { attempts, refused, front, durable, spoken: &spoken, now };
                compose_report(&mut known, turn, report)
            }
            Work::Decide(decide) if !front => {
                Step::Wait(Pending { work: Work::Decide(decide), attempts, refused })
            }
            Work::Decide(decide) => compose_decision(key, known.facts.take(), decide, attempts, now),
        };
        front = false;
        match step {
            Step::Answered => {}
            Step::Late(late) => share.late.push(late),
            Step::Wait(pending) => {
                queue.push_front(pending);
                break;
            }
            Step::Go(append) => {
                spoken.extend(keys_of(&append.append.records));
                share.appends.push(append);
            }
            Step::Last(append) => {
                share.appends.push(append);
                break;
            }
        }
    }
    share
}

/// The circumstances of one piece of work.
struct Turn<'a> {
    attempts: u32,
    refused: Option<AppendOutcome>,
    front: bool,
    /// The last position that is in the journal, whatever this round has composed.
    durable: Seq,
    /// The effects that appends before it in this round speak of.
    spoken: &'a BTreeSet<EffectKey>,
    now: Timestamp,
}

impl Turn<'_> {
    /// True where one of these speaks of an effect that the round speaks of already: the statement that writes both could
    /// neither see nor change what it inserts itself, and would answer with a conflict.
    fn speaks_again(&self, drafts: &[Draft]) -> bool {
        let mut marks = drafts.iter().filter_map(|draft| draft.kind.effect_mark(draft.request));
        !self.spoken.is_empty() && marks.any(|mark| self.spoken.contains(&mark.key))
    }

    fn wait(self, report: RunReport) -> Step {
        Step::Wait(Pending { work: Work::Report(report), attempts: self.attempts, refused: self.refused })
    }

    /// As an attempt in vain: the journal moved between two reads, or since it was remembered.
    fn wait_again(self, report: RunReport) -> Step {
        let attempts = self.attempts + 1;
        Step::Wait(Pending { work: Work::Report(report), attempts, refused: self.refused })
    }
}

fn compose_report(known: &mut Known, turn: Turn<'_>, report: RunReport) -> Step {
    let looked_up = known.read && turn.front;
    let Some(memory) = known.memory.as_mut() else {
        return if looked_up { answer(report, ReportAnswer::Missing) } else { turn.wait(report) };
    };
    if memory.epoch != report.run.epoch {
        return turn.wait(report);
    }
    match memory.judge_append(report.n, report.request) {
        // The number is used by an append of this very round, which may yet fail: nothing can be said before it is written.
        Standing::Repeated(seq) | Standing::Conflicting(seq) if seq > turn.durable => turn.wait(report),
        Standing::Repeated(seq) if report.announces.is_some() => permit_again(known, turn, report, seq),
        Standing::Repeated(seq) => answer(report, ReportAnswer::Applied(seq)),
        Standing::Conflicting(_) => {
            let refusal = refuse_number(&report, "was sent with other contents before");
            answer(report, ReportAnswer::Refused(refusal))
        }
        Standing::Unknown if looked_up => {
            let refusal =
                refuse_number(&report, "is not above the highest of its run, and was never accepted");
            answer(report, ReportAnswer::Refused(refusal))
        }
        Standing::Unknown => turn.wait(report),
        Standing::Fresh => match turn.refused.clone().map(answer_refused) {
            Some(refused) if looked_up => answer_late(report, refused),
            Some(_) => turn.wait(report),
            None => compose_fresh(known, turn, report),
        },
    }
}

fn permit_again(known: &mut Known, turn: Turn<'_>, report: RunReport, seq: Seq) -> Step {
    if !turn.front {
        return turn.wait(report);
    }
    let Some(facts) = known.facts.take() else { return answer(report, ReportAnswer::Missing) };
    // A memory of another head vouches for no announcement: the journal is looked at, and the lease again with it.
    if known.memory.as_ref().map(|memory| memory.head) != Some(facts.head) {
        return turn.wait_again(report);
    }
    let told = judge_permission(&facts, &report.run, seq);
    answer(report, told)
}

/// Too late to be written: what it says about effects is kept first.
fn answer_late(report: RunReport, answer: ReportAnswer) -> Step {
    match answer {
        ReportAnswer::Fenced { .. } | ReportAnswer::Sealed => Step::Late(Late { report, answer }),
        ReportAnswer::Applied(_)
        | ReportAnswer::Missing
        | ReportAnswer::Notice(_)
        | ReportAnswer::Refused(_) => self::answer(report, answer),
    }
}

fn compose_fresh(known: &mut Known, turn: Turn<'_>, report: RunReport) -> Step {
    let Some(memory) = known.memory.as_mut() else { return turn.wait(report) };
    match judge_announcement(report.announces, &memory.notices) {
        Hindrance::None => {}
        Hindrance::Notice(notice) => return answer(report, ReportAnswer::Notice(notice)),
        // The facts that were read for it are of another head: both are read again.
        Hindrance::Unknown if turn.front && known.facts.is_some() => return turn.wait_again(report),
        Hindrance::Unknown if turn.front => return answer(report, ReportAnswer::Missing),
        Hindrance::Unknown => return turn.wait(report),
    }
    match &report.body {
        ReportBody::Records(drafts) if turn.speaks_again(drafts) => turn.wait(report),
        ReportBody::Records(drafts) => {
            match seal_report(memory, &report, drafts.clone(), Changes::default(), turn.now) {
                Ok(append) => {
                    Step::Go(Composed { append, pending: pend(report, turn.attempts), facts: None })
                }
                Err(error) => answer(report, ReportAnswer::Refused(refuse_form(&error))),
            }
        }
        ReportBody::End(end, _) => match judge_end(end, memory) {
            EndJudgement::Notice(notice) => answer(report, ReportAnswer::Notice(notice)),
            EndJudgement::Success => {
                let plan = plan_success(EndReport::clone(end));
                seal_end(memory, turn, report, plan, None)
            }
            EndJudgement::ByFacts if turn.front => match known.facts.take() {
                Some(facts) => compose_end(memory, turn, report, facts),
                None => answer(report, ReportAnswer::Missing),
            },
            EndJudgement::ByFacts => turn.wait(report),
        },
    }
}

/// What can be said of an end without facts.
enum EndJudgement {
    Notice(StandingNotice),
    Success,
    ByFacts,
}

fn judge_end(end: &EndReport, memory: &RunMemory) -> EndJudgement {
    match &memory.notices {
        Notices::Last(Some(notice)) if notice.seq > end.last_notice => EndJudgement::Notice(notice.clone()),
        Notices::Last(None) if end.end == RunEnd::ExitCode(0) && memory.has_no_open_effect() => {
            EndJudgement::Success
        }
        Notices::Last(_) | Notices::Unknown => EndJudgement::ByFacts,
    }
}

/// True where an end of this run is decided from facts.
pub(crate) fn end_needs_facts(end: &EndReport, memory: &RunMemory) -> bool {
    matches!(judge_end(end, memory), EndJudgement::ByFacts)
}

fn compose_end(memory: &mut RunMemory, turn: Turn<'_>, report: RunReport, facts: JobFacts) -> Step {
    if facts.head != memory.head {
        return turn.wait_again(report);
    }
    let ReportBody::End(end, by) = &report.body else { return turn.wait(report) };
    match plan_end(&facts, EndReport::clone(end), by.clone()) {
        Ok(EndDecision::Write(plan)) => {
            let plan = plan.in_phase(facts.phase());
            seal_end(memory, turn, report, plan, Some(facts))
        }
        Ok(EndDecision::Notice { seq, kind }) => {
            answer(report, ReportAnswer::Notice(StandingNotice { seq, kind }))
        }
        Ok(EndDecision::Fenced { held_by, epoch }) => {
            answer(report, ReportAnswer::Fenced { held_by, epoch, applied: None })
        }
        Ok(EndDecision::Sealed) => answer(report, ReportAnswer::Sealed),
        Err(refusal) => answer(report, ReportAnswer::Refused(refusal)),
    }
}

fn seal_end(
    memory: &mut RunMemory,
    turn: Turn<'_>,
    report: RunReport,
    plan: Plan,
    facts: Option<JobFacts>,
) -> Step {
    match seal_report(memory, &report, plan.drafts, plan.changes, turn.now) {
        Ok(append) => Step::Last(Composed { append, pending: pend(report, turn.attempts), facts }),
        Err(error) => answer(report, ReportAnswer::Refused(refuse_form(&error))),
    }
}

fn seal_report(
    memory: &mut RunMemory,
    report: &RunReport,
    drafts: Vec<Draft>,
    changes: Changes,
    now: Timestamp,
) -> Result<Append, SealError> {
    let at = now.max(memory.at);
    let run = &report.run;
    let header = Header {
        tenant: run.tenant.clone(),
        job: run.job,
        generation: run.generation,
        epoch: run.epoch,
        run: run.run,
    };
    let head = memory.head;
    let records = seal_records(&header, head, at, drafts)?;
    if let Some(last) = last_head(&records) {
        memory.advance(last, at);
        memory.note_append(report.n, report.request);
        memory.note_effects(&records);
    }
    Ok(Append {
        tenant: run.tenant.clone(),
        job: run.job,
        generation: run.generation,
        guard: Guard::Lease(run.epoch),
        head,
        records,
        n: Some(report.n),
        request: Some(report.request),
        changes,
        gift: None,
    })
}

fn compose_decision(
    key: &JobKey,
    facts: Option<JobFacts>,
    decide: Decide,
    attempts: u32,
    now: Timestamp,
) -> Step {
    let Some(facts) = facts else {
        decide.reply.send(Err(DecideError::Missing));
        return Step::Answered;
    };
    let plan = match (decide.planner)(&facts) {
        Err(refusal) => {
            decide.reply.send(Err(DecideError::Refused(refusal)));
            return Step::Answered;
        }
        Ok(Decision::Already) => {
            decide.reply.send(Ok(Decided { facts, written: None }));
            return Step::Answered;
        }
        Ok(Decision::Write(plan)) => plan.in_phase(facts.phase()),
    };
    match seal_plan(key, &facts, plan, decide.gift.clone(), now) {
        Ok(append) => {
            let pending = Pending { work: Work::Decide(decide), attempts, refused: None };
            Step::Last(Composed { append, pending, facts: Some(facts) })
        }
        Err(error) => {
            decide.reply.send(Err(DecideError::Lane(LaneError::Seal(error.into()))));
            Step::Answered
        }
    }
}

/// Seals a plan at the head that its facts were read at.
fn seal_plan(
    key: &JobKey,
    facts: &JobFacts,
    plan: Plan,
    gift: Option<Box<Gift>>,
    now: Timestamp,
) -> Result<Append, SealError> {
    let header = Header {
        tenant: key.0.clone(),
        job: key.1,
        generation: facts.generation,
        epoch: plan.epoch,
        run: facts.run,
    };
    let records = seal_records(&header, facts.head, now.max(facts.head_at), plan.drafts)?;
    Ok(Append {
        tenant: key.0.clone(),
        job: key.1,
        generation: facts.generation,
        guard: guard_of(facts),
        head: facts.head,
        records,
        n: None,
        request: None,
        changes: plan.changes,
        gift,
    })
}

/// What must still be true of the lease for a decision from these facts to hold.
fn guard_of(facts: &JobFacts) -> Guard {
    match &facts.lease {
        None => Guard::NoLease,
        Some(lease) if lease.live => Guard::Lease(lease.epoch),
        Some(lease) => Guard::ReleasedLease(lease.epoch),
    }
}

fn keys_of(records: &[SealedRecord]) -> impl Iterator<Item = EffectKey> {
    records.iter().filter_map(|record| record.effect.as_ref()).map(|mark| mark.key.clone())
}

/// The head after these records.
pub(crate) fn last_head(records: &[SealedRecord]) -> Option<Head> {
    records.last().map(|record| Head { seq: record.seq, hash: record.hash })
}

/// The answer to a report that the database refused.
pub(crate) fn answer_refused(outcome: AppendOutcome) -> ReportAnswer {
    match outcome {
        AppendOutcome::Applied { seq } => ReportAnswer::Applied(seq),
        AppendOutcome::Fenced { held_by, epoch } => ReportAnswer::Fenced { held_by, epoch, applied: None },
        AppendOutcome::EffectRefused(refused) => ReportAnswer::Refused(
            Refusal::new(Reason::EffectRefused, refused.to_string())
                .with_detail("key", &refused.key)
                .with_detail("attempt", refused.attempt),
        ),
        AppendOutcome::EffectsExhausted => ReportAnswer::Refused(
            Refusal::new(
                Reason::EffectRefused,
                format!("the job has had {JOB_EFFECTS_MAX} attempts at effects, and no more are announced"),
            )
            .with_detail("limit", JOB_EFFECTS_MAX),
        ),
        AppendOutcome::LimitReached(refused) => ReportAnswer::Refused(refuse_limit(refused)),
        AppendOutcome::Sealed => ReportAnswer::Sealed,
        AppendOutcome::Missing => ReportAnswer::Missing,
        AppendOutcome::Conflict => ReportAnswer::Refused(Refusal::new(
            Reason::Overloaded,
            "the journal of the job moved at each attempt to write to it",
        )),
    }
}

/// The refusal of something that a run asked for; who is answered with it sees to the record.
fn refuse_limit(refused: LimitRefusal) -> Refusal {
    refused.refuse(format!("nothing more is begun, because {refused}"))
}

fn pend(report: RunReport, attempts: u32) -> Pending {
    Pending { work: Work::Report(report), attempts, refused: None }
}

fn answer(report: RunReport, answer: ReportAnswer) -> Step {
    report.reply.send(Ok(answer));
    Step::Answered
}

fn refuse_number(report: &RunReport, what: &str) -> Refusal {
    Refusal::new(Reason::AppendConflict, format!("append {} of {} {what}", report.n, report.run))
        .with_detail("n", report.n)
}

fn refuse_form(error: &SealError) -> Refusal {
    Refusal::new(Reason::InvalidArgument, error.to_string())
}
