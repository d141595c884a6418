//! Work that a run gives to an agent: sent, as a job in the same session with one hop less, or spawned, as a session of its own
//! one level deeper. It owns who may give, what is refused and journaled, and the key under which a gift is made exactly once
//! over all runs of the giver: a later run that repeats its script is answered with the job of the earlier one. It does not
//! decide whether the new job is admitted otherwise: that is `admission`. Neighbours: `record` has what is written.
//!
//! ```text
//!   run 1: send developer "fix" ─▶ sent{child} + child's job, in one statement ── killed
//!   run 2: send developer "fix" ─▶ the same key ─▶ the same child, nothing is written
//! ```

use serde::{Deserialize, Serialize};

use crate::{
    admission::{Amount, Limit, LimitRefusal},
    deadline::{Deadline, DeadlineReached},
    halt::StandingHalt,
    id::{AgentName, Digest, JobId, Run, SessionId},
    limits::{KEY_MAX_BYTES, SPAWN_DEPTH_DEFAULT},
    plan::{Changes, Decision, JobFacts, Plan},
    reason::Reason,
    record::{ABANDON_REQUESTED, Draft, Phase, RecordKind},
    refusal::Refusal,
    routing::NotRouted,
    run_ref::RunRef,
};

/// How work is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As a job in the giver's session.
    Send,
    /// As a session of its own, one level deeper.
    Spawn,
}

impl Way {
    /// The verb, as typed.
    #[must_use]
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Spawn => "spawn",
        }
    }
}

/// Who gave a job its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The job that gave it.
    pub job: JobId,
    /// In which of its runs.
    pub run: Run,
    /// The agent of that job.
    pub agent: AgentName,
}

/// What stands in the giver's journal of a job that came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The new job.
    pub child: JobId,
    /// Its session.
    pub session: SessionId,
    /// Its agent.
    pub agent: AgentName,
    /// The key that the program named. Absent: it is known by what was given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
}

/// Where the giver stands, beside its facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// How deep its session is; 0 is one that was submitted.
    pub depth: u32,
}

/// A route that is missing, or a halt or a limit that stands against giving work; it is journaled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The fleet file has no such edge.
    #[error(transparent)]
    NotRouted(NotRouted),
    /// A halt holds for whom it is given to.
    #[error("halt {} of {} stands: {}", .0.id, .0.scope, .0.why)]
    Halted(StandingHalt),
    /// The session's deadline is reached.
    #[error(transparent)]
    Deadline(DeadlineReached),
    /// The new job would have no hop.
    #[error("no hop is left for another job: the run has {hops_left}, and a job that is sent gets one less")]
    HopsExhausted {
        /// What the run has.
        hops_left: u32,
    },
    /// The session's budget is spent.
    #[error(transparent)]
    BudgetSpent(BudgetSpent),
    /// The new session would be too deep.
    #[error("the session is {depth} deep, and one that it spawns may be at most {limit}")]
    TooDeep {
        /// How deep the giver's session is.
        depth: u32,
        /// The deepest.
        limit: u32,
    },
}

/// The budget of the giver's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}, so no more work is given")]
pub struct BudgetSpent(pub LimitRefusal);

impl Denied {
    /// The stable code.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::NotRouted(_) => Reason::NotRouted,
            Self::Halted(_) => Reason::Halted,
            Self::Deadline(_) => Reason::DeadlineReached,
            Self::HopsExhausted { .. } => Reason::HopsExhausted,
            Self::BudgetSpent(_) => Reason::LimitReached,
            Self::TooDeep { .. } => Reason::SpawnTooDeep,
        }
    }

    /// What the program is told.
    #[must_use]
    pub fn refuse(&self, facts: &JobFacts) -> Refusal {
        let refusal = Refusal::new(self.reason(), self.to_string())
            .with_next(format!("tenure job {}", facts.job.short()));
        match self {
            Self::Halted(halt) => halt.refuse("cannot give work"),
            Self::Deadline(reached) => refusal
                .with_detail("elapsed_s", reached.elapsed_s)
                .with_detail("ceiling_s", reached.ceiling_s),
            Self::NotRouted(NotRouted { from, to, .. }) => {
                refusal.with_detail("from", from).with_detail("to", to)
            }
            Self::HopsExhausted { hops_left } => refusal.with_detail("hops_left", hops_left),
            Self::BudgetSpent(BudgetSpent(spent)) => spent.refuse(self.to_string()),
            Self::TooDeep { depth, limit } => refusal.with_detail("depth", depth).with_detail("limit", limit),
        }
    }
}

/// Whether the run may give work at all. Nothing of this is journaled: it is no decision about the work.
///
/// # Errors
/// It does not hold its job, it was asked to end, or it undoes.
pub fn check_giver(facts: &JobFacts, run: &RunRef) -> Result<(), Refusal> {
    let holds = facts.lease.as_ref().is_some_and(|lease| {
        lease.live && lease.run_epoch == run.epoch && facts.generation == run.generation
    });
    let next = format!("tenure job {}", facts.job.short());
    if !holds {
        let epoch = facts.lease.as_ref().map_or(facts.head_epoch, |lease| lease.epoch);
        let words =
            format!("job {} is under epoch {epoch} by now, yours was {}", facts.job.short(), run.epoch);
        let refusal = Refusal::new(Reason::Fenced, words).with_detail("epoch", epoch).with_next(next);
        return Err(refusal.with_detail("your_epoch", run.epoch));
    }
    if let Some((seq, kind)) = facts.standing_notice() {
        let asked = if kind == ABANDON_REQUESTED { "given up" } else { "asked to be cancelled" };
        let words = format!("job {} was {asked}: nothing more is begun", facts.job.short());
        return Err(Refusal::new(Reason::CancelRequested, words)
            .with_detail("notice_seq", seq)
            .with_next(next));
    }
    if facts.phase() == Phase::Compensating {
        let words = format!("job {} is being undone, and what undoes gives no work", facts.job.short());
        return Err(Refusal::new(Reason::VerbNotAllowed, words).with_next(next));
    }
    Ok(())
}

/// Whether a limit stands against it.
///
/// # Errors
/// The first that does: deadline, hops, budget, depth.
pub fn judge_giving(facts: &JobFacts, way: Way, standing: Standing) -> Result<(), Denied> {
    let deadline = Deadline::new(facts.started_at, facts.deadline_at);
    deadline.admit(facts.now).map_err(Denied::Deadline)?;
    match way {
        Way::Send if facts.hops_left <= 1 => Err(Denied::HopsExhausted { hops_left: facts.hops_left }),
        Way::Send | Way::Spawn if facts.budget_micros.is_used_up() => {
            let Amount { used, limit: allowed } = facts.budget_micros;
            Err(Denied::BudgetSpent(BudgetSpent(LimitRefusal { limit: Limit::Budget, used, allowed })))
        }
        Way::Spawn if standing.depth >= SPAWN_DEPTH_DEFAULT => {
            Err(Denied::TooDeep { depth: standing.depth, limit: SPAWN_DEPTH_DEFAULT })
        }
        Way::Send | Way::Spawn => Ok(()),
    }
}

/// What is written where work is given: the giver's record, at a position, with which the new job falls or stands.
///
/// # Errors
/// As [`check_giver`] and [`judge_giving`].
pub fn plan_giving(
    facts: &JobFacts,
    run: &RunRef,
    way: Way,
    standing: Standing,
    given: Given,
) -> Result<Decision, Refusal> {
    check_giver(facts, run)?;
    judge_giving(facts, way, standing).map_err(|denied| denied.refuse(facts))?;
    Ok(write(
        run,
        match way {
            Way::Send => RecordKind::Sent(given),
            Way::Spawn => RecordKind::Spawned(given),
        },
    ))
}

/// What is written where a limit stands against it. The run goes on.
///
/// # Errors
/// As [`check_giver`].
pub fn plan_denial(
    facts: &JobFacts,
    run: &RunRef,
    way: Way,
    agent: &AgentName,
    denied: &Denied,
) -> Result<Decision, Refusal> {
    check_giver(facts, run)?;
    Ok(write(
        run,
        RecordKind::SendRefused {
            verb: way.verb().to_owned(),
            agent: agent.clone(),
            code: denied.reason().code().to_owned(),
            detail: denied.to_string(),
        },
    ))
}

fn write(run: &RunRef, kind: RecordKind) -> Decision {
    Decision::Write(Plan { epoch: run.epoch, drafts: vec![Draft::bare(kind)], changes: Changes::default() })
}

/// What makes two gifts of one job the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GiftKey {
    /// SHA-256 of what it is known by.
    pub hash: Digest,
    /// SHA-256 of everything that was given: under a key that the program named, it must be the same again.
    pub payload: Digest,
}

impl GiftKey {
    /// That of a gift: by the key that the program named, or else by what is given and how often this run has given the same
    /// before (`ordinal`, from 1).
    #[must_use]
    pub fn of(way: Way, agent: &AgentName, body: &[u8], named: Option<&str>, ordinal: u32) -> Self {
        let payload = crate::canonical::digest_canonical(&serde_json::json!({
            "verb": way.verb(), "agent": agent, "body": Digest::of(body),
        }));
        let hash = match named {
            Some(key) => Digest::of_both(b"named\0", key.as_bytes()),
            None => Digest::of_both(&payload.0, &ordinal.to_be_bytes()),
        };
        Self { hash, payload }
    }
}

/// Whether a key that a program names is one.
///
/// # Errors
/// It is blank, too long, or has control characters.
pub fn check_gift_key(key: &str) -> Result<(), Refusal> {
    if key.trim().is_empty() || key.len() > KEY_MAX_BYTES || key.contains(char::is_control) {
        let words = format!(
            "the key has {} bytes, and 1 to {KEY_MAX_BYTES} without control characters are taken",
            key.len()
        );
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "key"));
    }
    Ok(())
}

/// Whether what is given is work at all.
///
/// # Errors
/// It is blank.
pub fn check_body(body: &[u8]) -> Result<(), Refusal> {
    if body.iter().all(u8::is_ascii_whitespace) {
        let words = "there is nothing to do: the body is blank";
        return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "body"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        factory::{facts, job_id, running, second},
        id::{Epoch, Generation},
        job::State,
        plan::LeaseFacts,
        record::RecordKind,
        unwinding::Unwinding,
    };

    const TOP: Standing = Standing { depth: 0 };

    fn agent() -> AgentName {
        "developer".parse().unwrap()
    }

    fn run(facts: &JobFacts) -> RunRef {
        facts.leased_run(facts.lease.as_ref().unwrap())
    }

    fn given() -> Given {
        Given { child: job_id(), session: SessionId(job_id().0), agent: agent(), key: None }
    }

    fn kind(decision: Decision) -> RecordKind {
        let Decision::Write(plan) = decision else { panic!("nothing is written") };
        assert_eq!((plan.epoch, &plan.changes), (Epoch(1), &Changes::default()));
        plan.drafts.into_iter().next().unwrap().kind
    }

    #[test]
    fn work_is_given_at_a_position_of_the_giver_under_its_own_epoch() {
        let facts = running();
        let sent = plan_giving(&facts, &run(&facts), Way::Send, TOP, given()).unwrap();
        assert_eq!(kind(sent), RecordKind::Sent(given()));
        let spawned = plan_giving(&facts, &run(&facts), Way::Spawn, TOP, given()).unwrap();
        assert_eq!(kind(spawned), RecordKind::Spawned(given()));
    }

    #[test]
    fn the_last_hop_sends_nothing_and_spawns_all_the_same() {
        for (hops_left, sends) in [(0, false), (1, false), (2, true)] {
            let facts = JobFacts { hops_left, ..running() };
            assert_eq!(judge_giving(&facts, Way::Send, TOP).is_ok(), sends, "{hops_left}");
            assert_eq!(judge_giving(&facts, Way::Spawn, TOP), Ok(()), "{hops_left}");
        }
    }

    #[test]
    fn a_spawned_session_spawns_no_other_and_sends() {
        let deep = Standing { depth: SPAWN_DEPTH_DEFAULT };
        let denied = judge_giving(&running(), Way::Spawn, deep).unwrap_err();
        assert_eq!(denied.reason(), Reason::SpawnTooDeep);
        assert_eq!(judge_giving(&running(), Way::Send, deep), Ok(()));
    }

    #[test]
    fn nothing_is_given_once_the_deadline_is_reached_and_deadline_goes_before_hops() {
        let facts = JobFacts { deadline_at: Some(second(1)), now: second(1), hops_left: 1, ..running() };
        assert_eq!(judge_giving(&facts, Way::Send, TOP).unwrap_err().reason(), Reason::DeadlineReached);
    }

    #[test]
    fn nothing_is_given_once_the_budget_of_the_session_is_spent() {
        let facts = JobFacts { budget_micros: Amount { used: 5, limit: 5 }, ..running() };
        for way in [Way::Send, Way::Spawn] {
            let denied = judge_giving(&facts, way, TOP).unwrap_err();
            assert_eq!(denied.reason(), Reason::LimitReached);
            assert_eq!(denied.refuse(&facts).details["limit"], "budget");
        }
    }

    #[test]
    fn a_denial_is_written_and_tells_its_limit() {
        let facts = JobFacts { hops_left: 1, ..running() };
        let denied = judge_giving(&facts, Way::Send, TOP).unwrap_err();
        let written = kind(plan_denial(&facts, &run(&facts), Way::Send, &agent(), &denied).unwrap());
        let RecordKind::SendRefused { verb, agent: to, code, .. } = written else { panic!("{written:?}") };
        assert_eq!((&*verb, to, &*code), ("send", agent(), "HOPS_EXHAUSTED"));
        assert_eq!(denied.refuse(&facts).details["hops_left"], "1");
    }

    #[test]
    fn who_does_not_hold_the_job_gives_nothing_and_is_not_journaled() {
        let facts = running();
        let run = run(&facts);
        let lease = facts.lease.clone().unwrap();
        let settled = JobFacts { lease: Some(LeaseFacts { live: false, ..lease }), ..facts.clone() };
        let stale = RunRef { epoch: Epoch(9), ..run.clone() };
        let elsewhere = RunRef { generation: Generation(9), ..run.clone() };
        for (facts, run) in [(settled, run.clone()), (facts.clone(), stale), (facts.clone(), elsewhere)] {
            let refused = plan_giving(&facts, &run, Way::Send, TOP, given()).unwrap_err();
            assert_eq!(refused.reason, Reason::Fenced);
            let denied = Denied::HopsExhausted { hops_left: 1 };
            assert!(plan_denial(&facts, &run, Way::Send, &agent(), &denied).is_err());
        }
        let ready = JobFacts { lease: None, ..self::facts(State::Ready) };
        assert_eq!(check_giver(&ready, &run).unwrap_err().reason, Reason::Fenced);
    }

    #[test]
    fn a_run_that_was_asked_to_end_or_undoes_gives_nothing() {
        let cancelled = JobFacts { cancel_requested: Some(crate::id::Seq(4)), ..running() };
        let refused = check_giver(&cancelled, &run(&cancelled)).unwrap_err();
        assert_eq!(refused.reason, Reason::CancelRequested);
        let undoing = JobFacts { unwinding: Some(Unwinding::Cancelled), ..running() };
        assert_eq!(check_giver(&undoing, &run(&undoing)).unwrap_err().reason, Reason::VerbNotAllowed);
    }

    #[test]
    fn the_same_gift_has_the_same_key_and_each_difference_another() {
        let key = |way, agent: &str, body: &[u8], named, ordinal| {
            GiftKey::of(way, &agent.parse().unwrap(), body, named, ordinal)
        };
        let first = key(Way::Send, "developer", b"fix", None, 1);
        assert_eq!(key(Way::Send, "developer", b"fix", None, 1), first);
        for other in [
            key(Way::Spawn, "developer", b"fix", None, 1),
            key(Way::Send, "reviewer", b"fix", None, 1),
            key(Way::Send, "developer", b"fit", None, 1),
            key(Way::Send, "developer", b"fix", None, 2),
            key(Way::Send, "developer", b"fix", Some("k"), 1),
        ] {
            assert_ne!(other.hash, first.hash);
        }
        let named = key(Way::Send, "developer", b"fix", Some("k"), 1);
        let renamed = key(Way::Send, "developer", b"fit", Some("k"), 2);
        assert_eq!((named.hash, named.payload == renamed.payload), (renamed.hash, false));
    }

    #[test]
    fn keys_and_bodies_are_checked_at_the_door() {
        assert!(check_gift_key("release/1").is_ok());
        for bad in ["", " ", "a\nb", &"k".repeat(KEY_MAX_BYTES + 1)] {
            assert_eq!(check_gift_key(bad).unwrap_err().details["field"], "key", "{bad:?}");
        }
        assert!(check_body(b"fix it").is_ok());
        for bad in [&b""[..], b" \n\t"] {
            assert_eq!(check_body(bad).unwrap_err().details["field"], "body");
        }
    }
}
