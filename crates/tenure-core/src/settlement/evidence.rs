//! A run settled by somebody who is not its holder: a sweep after the term was closed, a guardian that saw the group empty,
//! a worker that says a grant is not its own. The settlement takes the next epoch, so that a holder that comes back is
//! fenced. What is evidence for the child being gone, and what is not, is decided here.

use crate::{
    handover::Cause,
    job::{self, Event},
    limits::GRANT_RELEASED_WAIT,
    plan::{Changes, Decision, JobChange, JobFacts, LeaseChange, LeaseFacts, Plan, ReadyChange},
    principal::Principal,
    reason::Reason,
    record::{Draft, NOTICE_KINDS, Record, RecordKind},
    recovery::{Child, GoneProof, Interruption},
    refusal::Refusal,
    settlement::{
        RunEnd, abandon, cancel, carry_out, judge, judge_again,
        judgement::pause_for,
        next_epoch,
        run_end::{fail_for_good, find_final_failure},
    },
};

/// What somebody who is not the holder knows of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// The term that holds the lease is closed, because it lapsed.
    TermLapsed,
    /// Its guardian saw the group empty.
    GuardianReport {
        /// How the child ended.
        end: RunEnd,
        /// True where the child was well and was ended because its worker was gone.
        healthy: bool,
    },
    /// Its worker does not hold the grant, and refuses its epoch from now on.
    NotMine {
        /// The records of that epoch in the job's journal, in order: where they are the start of the run and notices alone,
        /// it never started.
        records: Vec<Record>,
    },
}

/// Decides about a run from evidence. A report about a run that is settled and accounted for is `Already`.
///
/// # Errors
/// The evidence does not fit the facts, or the job's state does not admit what follows.
pub fn plan_settlement(facts: &JobFacts, evidence: Evidence, by: Principal) -> Result<Decision, Refusal> {
    let Some(lease) = &facts.lease else { return Ok(Decision::Already) };
    match evidence {
        Evidence::TermLapsed if lease.live => settle_lapsed(facts, lease, by).map(Decision::Write),
        Evidence::NotMine { records } if lease.live => {
            settle_disowned(facts, lease, &records).map(Decision::Write)
        }
        Evidence::TermLapsed | Evidence::NotMine { .. } => Ok(Decision::Already),
        Evidence::GuardianReport { end, healthy } => {
            settle_reported(facts, lease, end, healthy, by).map(Decision::Write)
        }
    }
}

fn settle_lapsed(facts: &JobFacts, lease: &LeaseFacts, by: Principal) -> Result<Plan, Refusal> {
    if !lease.term_closed {
        let words = format!("the term {} of worker {} is not closed", lease.term, lease.worker);
        return Err(Refusal::new(Reason::Internal, words));
    }
    let (child, drafts) = if lease.fencing.proves_gone() {
        (Child::Gone, vec![child_gone(lease, GoneProof::TermLapsed, by)])
    } else {
        (Child::Unknown, Vec::new())
    };
    interrupt(facts, drafts, &Interruption::LostContact, child, false)
}

/// A guardian's report settles a live run, and accounts for the child of one that was settled before. An exit code that it
/// saw is a verdict only where it is a final one: of an exit code 0 neither the result nor the outcomes were delivered.
fn settle_reported(
    facts: &JobFacts,
    lease: &LeaseFacts,
    end: RunEnd,
    healthy: bool,
    by: Principal,
) -> Result<Plan, Refusal> {
    let gone = vec![child_gone(lease, GoneProof::Guardian, by)];
    let healthy = healthy || matches!(end, RunEnd::ExitCode(0) | RunEnd::Waiting(_));
    if !lease.live {
        return judge_again(facts, gone, healthy);
    }
    if healthy {
        return interrupt(facts, gone, &Interruption::WorkerLost, Child::Gone, true);
    }
    let is_forward = facts.standing_notice().is_none() && facts.unwinding.is_none();
    match find_final_failure(facts, &end).filter(|_| is_forward) {
        Some(why) => fail_for_good(facts, next_epoch(facts), gone, &why),
        None => interrupt(facts, gone, &end.interruption(), Child::Gone, false),
    }
}

/// A grant that its worker does not hold. Where nothing but the claim stands under its epoch it never started: it is given
/// back without an attempt, and waits a moment: what hindered its start would otherwise be tried again as fast as the
/// database allows. Otherwise something ran that nobody sees any longer.
fn settle_disowned(facts: &JobFacts, lease: &LeaseFacts, records: &[Record]) -> Result<Plan, Refusal> {
    let Some(cause) = never_started(lease, records) else {
        return interrupt(facts, Vec::new(), &Interruption::LostContact, Child::Unknown, false);
    };
    let epoch = next_epoch(facts);
    let released = Draft::bare(RecordKind::GrantReleased {
        of_epoch: lease.run_epoch,
        reason: format!("worker {} does not hold it", lease.worker),
    });
    if facts.abandoned().is_some() {
        return abandon(facts, epoch, vec![released]);
    }
    if facts.unanswered_cancel().is_some() {
        return cancel(facts, epoch, vec![released]);
    }
    // Its hop was paid for the grant that never became a run.
    let cause = match facts.steered() {
        Some(notice) => {
            let (previous, attempt) = (cause.previous(), cause.attempt());
            Cause::Steered { previous, steered: notice.seq, attempt }
        }
        None => cause,
    };
    let state = job::apply(facts.state, Event::Readied)?;
    let job = JobChange { state: Some(state), ..JobChange::default() };
    let ready = ReadyChange::Insert { cause, not_before: pause_for(facts, GRANT_RELEASED_WAIT) };
    let changes = Changes { job: Some(job), lease: LeaseChange::Delete, ready, ..Changes::default() };
    Ok(Plan { epoch, drafts: vec![released], changes })
}

/// The cause of the run, where its start is the last record of its epoch that is no notice.
fn never_started(lease: &LeaseFacts, records: &[Record]) -> Option<Cause> {
    let mut own = records.iter().filter(|record| record.epoch == lease.run_epoch);
    let cause = match &own.next()?.kind {
        RecordKind::RunStarted { cause, .. } => cause.clone(),
        _ => return None,
    };
    own.all(|record| NOTICE_KINDS.contains(&record.kind.name())).then_some(cause)
}

fn interrupt(
    facts: &JobFacts,
    drafts: Vec<Draft>,
    interruption: &Interruption,
    child: Child,
    healthy: bool,
) -> Result<Plan, Refusal> {
    let judgement = judge(facts, interruption, child, healthy);
    let lease = match child {
        Child::Gone => LeaseChange::Delete,
        Child::Unknown => LeaseChange::Release,
    };
    carry_out(facts, next_epoch(facts), drafts, interruption, judgement, lease)
}

fn child_gone(lease: &LeaseFacts, proof: GoneProof, by: Principal) -> Draft {
    Draft::bare(RecordKind::ChildGone { of_epoch: lease.run_epoch, proof, by })
}
