//! Facts and records for tests: a plain job of one agent, to which a test changes only what matters to it.

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::{
    admission::Amount,
    chain::Head,
    effect::{Compensation, Doubt, Doubts, EffectRecovery, LastAttempt, Outcome, StepsToUndo},
    handover::Cause,
    id::{
        AgentName, Attach, Digest, Epoch, Generation, JobId, Run, Seq, SessionId, Tenant, Term, WorkerName,
    },
    job::State,
    plan::{Fencing, JobFacts, LeaseFacts},
    principal::Principal,
    record::{DeadlineSetting, Draft, Header, RecordKind, SaltedValue, SealedRecord, seal_records},
    recovery::{Interruption, Policy, RecoveryPolicy},
};

/// The instant at which every test's session starts.
pub(crate) fn start() -> Timestamp {
    "2026-11-30T09:00:00Z".parse().unwrap()
}

/// So many seconds after the start.
pub(crate) fn second(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

pub(crate) fn job_id() -> JobId {
    JobId(Uuid::from_u128(0x0193_7b00_0000_7000_8000_0000_009f_3c21))
}

pub(crate) fn person() -> Principal {
    Principal::asserted("ada")
}

pub(crate) fn automatic() -> RecoveryPolicy {
    RecoveryPolicy {
        policy: Policy::Automatic,
        max_attempts: 2,
        max_losses: 10,
        backoff_first_ms: 1_000,
        backoff_max_ms: 300_000,
        final_exit_codes: vec![65],
        unwind_on_failure: false,
    }
}

/// A job without a lease in this state, after one run that was claimed under epoch 1.
pub(crate) fn facts(state: State) -> JobFacts {
    JobFacts {
        tenant: Tenant::default_tenant(),
        job: job_id(),
        session: SessionId(job_id().0),
        agent: "release-notes".parse().unwrap(),
        declaration: Digest::of(b"{}"),
        unheld_bundle: None,
        recovery: automatic(),
        state,
        reason: None,
        run: Run(1),
        attempts: 0,
        losses: 0,
        hops_left: 8,
        submitted_by: Some("ada".to_owned()),
        halts: Vec::new(),
        runs: Amount { used: 1, limit: 64 },
        budget_micros: Amount { used: 0, limit: 5_000_000 },
        interruption: None,
        cancel_requested: None,
        doubts: Doubts::default(),
        steps: StepsToUndo::default(),
        landed: 0,
        compensated: 0,
        unwinding: None,
        set_aside: None,
        wait: None,
        plan_frozen: true,
        head: Head { seq: Seq(4), hash: Digest::of(b"head") },
        head_epoch: Epoch(1),
        head_at: second(10),
        head_kind: "note".to_owned(),
        lease: None,
        started_at: start(),
        deadline_at: Some(second(3_600)),
        generation: Generation(1),
        now: second(60),
    }
}

/// A running job, its live lease under epoch 1.
pub(crate) fn running() -> JobFacts {
    JobFacts { lease: Some(lease()), ..facts(State::Running) }
}

/// A job that was interrupted under epoch 2 after a lost contact, its child not known to be gone.
pub(crate) fn unaccounted() -> JobFacts {
    JobFacts {
        lease: Some(LeaseFacts { epoch: Epoch(2), live: false, term_closed: true, ..lease() }),
        head_epoch: Epoch(2),
        reason: Some("child_unaccounted_for".to_owned()),
        ..interrupted(Interruption::LostContact)
    }
}

/// A job that was interrupted, its child known to be gone.
pub(crate) fn interrupted(interruption: Interruption) -> JobFacts {
    JobFacts { interruption: Some(interruption), head_epoch: Epoch(2), ..facts(State::Interrupted) }
}

pub(crate) fn lease() -> LeaseFacts {
    LeaseFacts {
        epoch: Epoch(1),
        run_epoch: Epoch(1),
        worker: worker(),
        term: Term(7),
        live: true,
        term_closed: false,
        fencing: Fencing::Kernel,
        granted_at: second(1),
        abandon: None,
        refused: None,
        steer: None,
    }
}

pub(crate) fn worker() -> WorkerName {
    "w1".parse().unwrap()
}

pub(crate) fn crashed(code: i32) -> Interruption {
    Interruption::Crashed { exit_code: Some(code), signal: None, not_started: None, error: None }
}

pub(crate) fn salted(text: &str) -> SaltedValue {
    SaltedValue { value: text.as_bytes().to_vec(), salt: [7; 16] }
}

pub(crate) fn note(text: &str) -> Draft {
    Draft::with_value(salted(text), |text| RecordKind::Note { text })
}

/// One of each, and of those that may have had no run before them also one without.
pub(crate) fn every_cause() -> Vec<Cause> {
    let (previous, attempt) = (Run(1), 2);
    vec![
        Cause::Dispatch,
        Cause::Recovered { previous, interruption: Interruption::WorkerLost, attempt },
        Cause::Continued { previous, by: person(), why: "the bucket is there now".to_owned(), attempt },
        Cause::Steered { previous: None, steered: Seq(3), attempt: 1 },
        Cause::Steered { previous: Some(previous), steered: Seq(4), attempt: 1 },
        Cause::Drained { previous, attempt: 1 },
        Cause::Woken {
            previous,
            wait: crate::wait::WokenBy {
                name: "tick".parse().unwrap(),
                due: Some(second(60)),
                jobs: Vec::new(),
                count: 0,
            },
            attempt: 1,
        },
        Cause::Unwinding { instead_of: State::Cancelled, attempt: 1 },
    ]
}

pub(crate) fn steered(text: &str) -> Draft {
    Draft::with_value(salted(text), |note| RecordKind::Steered { by: person(), note, restart: None })
}

pub(crate) fn run_started(cause: Cause) -> Draft {
    Draft::bare(RecordKind::RunStarted {
        worker: worker(),
        term: Term(7),
        attach: Attach(1),
        attempt: cause.attempt(),
        cause,
    })
}

/// Mutating effects in doubt, as a statement counts them.
pub(crate) fn doubts(of: &[(&str, EffectRecovery, Outcome)]) -> Doubts {
    let listed: Vec<Doubt> = of
        .iter()
        .map(|(name, recovery, outcome)| Doubt {
            key: name.parse().unwrap(),
            last: LastAttempt {
                attempt: 1,
                run: Run(1),
                announced: Seq(4),
                since: second(5),
                recovery: *recovery,
                mutates: true,
                request: Digest::of(b"git push"),
                outcome: *outcome,
            },
        })
        .collect();
    let undecided = listed.iter().filter(|doubt| doubt.needs_a_person()).count() as u64;
    let bar_undoing = listed.iter().filter(|doubt| doubt.bars_undoing()).count() as u64;
    Doubts { count: listed.len() as u64, undecided, bar_undoing, listed, denied: 0 }
}

/// The announcement of a first attempt.
pub(crate) fn effect_started(name: &str, recovery: EffectRecovery) -> Draft {
    effect_attempted(name, recovery, 1)
}

pub(crate) fn effect_attempted(name: &str, recovery: EffectRecovery, attempt: u32) -> Draft {
    let (key, tool, mutates, compensation) =
        (name.parse().unwrap(), "git".to_owned(), true, Compensation::Undeclared);
    let draft = Draft::with_value(salted(r#"{"command":["git","push"]}"#), |request| {
        RecordKind::EffectStarted { key, attempt, recovery, mutates, tool, compensation, request }
    });
    Draft { request: Some(Digest::of(b"git push")), ..draft }
}

/// The end of a first attempt.
pub(crate) fn effect_ended(name: &str, outcome: Outcome) -> Draft {
    effect_attempt_ended(name, 1, outcome)
}

pub(crate) fn effect_attempt_ended(name: &str, attempt: u32, outcome: Outcome) -> Draft {
    let key = name.parse().unwrap();
    match outcome {
        Outcome::Open => panic!("an open attempt has no end"),
        Outcome::Done => Draft::with_value(salted("abc123\nto origin"), |output| RecordKind::EffectDone {
            key,
            attempt,
            output,
            truncated: false,
        }),
        Outcome::Failed(disposition) => Draft::with_value(salted("no route"), |error| {
            RecordKind::EffectFailed { key, attempt, disposition, exit_code: Some(1), error }
        }),
        Outcome::Reconciled(verdict) => {
            Draft::bare(RecordKind::EffectReconciled { key, attempt, verdict, by: person(), value: None })
        }
    }
}

/// The first two records of a job.
pub(crate) fn admitted(input: &str) -> Vec<Draft> {
    let job_admitted = Draft::with_value(salted(input), |input| RecordKind::JobAdmitted {
        session: SessionId(job_id().0),
        agent: "release-notes".parse::<AgentName>().unwrap(),
        declaration: Digest::of(b"{}"),
        bundle: None,
        input,
        by: person(),
        key: None,
        labels: [("team".to_owned(), "web".to_owned())].into(),
        deadline: DeadlineSetting::CeilingS(3_600),
        priority: 1,
        not_before: None,
        traceparent: None,
        sender: None,
        layover: None,
    });
    vec![
        job_admitted,
        Draft::bare(RecordKind::PlanFrozen { recovery: automatic(), hops: 8, rungs: Vec::new() }),
    ]
}

/// Writes a journal in memory, each group under its epoch and run, a second apart.
pub(crate) struct Journal {
    job: JobId,
    head: Head,
    pub(crate) records: Vec<SealedRecord>,
}

impl Journal {
    pub(crate) fn of(job: JobId) -> Self {
        Self { job, head: Head::genesis(), records: Vec::new() }
    }

    pub(crate) fn write(mut self, epoch: u64, run: u32, drafts: Vec<Draft>) -> Self {
        let header = Header {
            tenant: Tenant::default_tenant(),
            job: self.job,
            generation: Generation(1),
            epoch: Epoch(epoch),
            run: Run(run),
        };
        let at = second(i64::try_from(self.records.len()).unwrap());
        let sealed = seal_records(&header, self.head, at, drafts).unwrap();
        for record in &sealed {
            self.head = Head { seq: record.seq, hash: record.hash };
        }
        self.records.extend(sealed);
        self
    }

    pub(crate) const fn head(&self) -> Head {
        self.head
    }
}
