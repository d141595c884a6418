//! What is known of a job, for whoever decides: read from the view `job_facts`, all of a job in one snapshot. Here is also
//! the one reading of that view's columns, which `job` shares.

use jiff::Timestamp;
use sqlx::PgExecutor;
use tenure_core::{
    admission::Amount,
    chain::Head,
    effect::{Doubts, EffectRef, StepsToUndo},
    id::{Digest, Epoch, Generation, JobId, Run, Seq, SessionId, Tenant, Term},
    limits::DOUBTS_MAX,
    plan::{JobFacts, LeaseFacts, LeaseNotice, SetAside},
    record::{NewValue, Record, RecordKind, SaltedValue, ValueRef},
    recovery::Interruption,
    wait::WaitFacts,
};
use uuid::Uuid;

use crate::{
    Store, StoreError,
    effect::StoredDoubt,
    halt::read_standing_halts,
    stored::{Reader, from_bigint, from_integer, instant, to_bigint},
    timestamp::Stamp,
};

/// What is known of one job; an error where it stands there in a form that this release does not know.
pub type FoundFacts = Result<JobFacts, StoreError>;

impl Store {
    /// Reads the facts of some jobs in one statement, in the order asked; nothing where there is no such job. A job that
    /// cannot be read is an error of its own: it takes nothing from the others.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_facts(
        &self,
        wanted: &[(Tenant, JobId)],
    ) -> Result<Vec<Option<FoundFacts>>, StoreError> {
        let attempted = "reading the facts of jobs";
        let rows = read_rows(&self.pool, attempted, wanted).await?;
        Ok(rows.into_iter().map(|row| row.map(|row| row.into_facts(Reader(attempted)))).collect())
    }

    /// The facts of those that are there and can be read; what cannot is named in a warning.
    pub(crate) async fn read_readable_facts(
        &self,
        wanted: &[(Tenant, JobId)],
    ) -> Result<Vec<JobFacts>, StoreError> {
        let found = self.read_facts(wanted).await?;
        let readable = |((tenant, job), found): (&(Tenant, JobId), Option<FoundFacts>)| {
            found?.inspect_err(|error| warn_unreadable(tenant.as_str(), *job, error)).ok()
        };
        Ok(wanted.iter().zip(found).filter_map(readable).collect())
    }
}

/// Names a job that is passed over because this release cannot read it.
pub(crate) fn warn_unreadable(tenant: &str, job: JobId, error: &StoreError) {
    tracing::warn!(tenant, %job, %error, "a job cannot be read and is passed over");
}

/// Reads the rows of some jobs, in the order asked.
pub(crate) async fn read_rows(
    executor: impl PgExecutor<'_>,
    attempted: &'static str,
    wanted: &[(Tenant, JobId)],
) -> Result<Vec<Option<FactsRow>>, StoreError> {
    let mut found: Vec<_> = wanted.iter().map(|_| None).collect();
    if wanted.is_empty() {
        return Ok(found);
    }
    let numbers: Vec<_> = (0..wanted.len()).map(|no| to_bigint(no as u64)).collect();
    let tenants: Vec<_> = wanted.iter().map(|(tenant, _)| tenant.as_str().to_owned()).collect();
    let jobs: Vec<_> = wanted.iter().map(|(_, job)| job.0).collect();
    let rows = sqlx::query_file_as!(
        FactsRow,
        "queries/jobs/read_facts.sql",
        &numbers,
        &tenants,
        &jobs,
        to_bigint(DOUBTS_MAX as u64)
    )
    .fetch_all(executor)
    .await
    .map_err(StoreError::while_doing(attempted))?;
    for row in rows {
        if let Some(place) = usize::try_from(row.no).ok().and_then(|no| found.get_mut(no)) {
            *place = Some(row);
        }
    }
    Ok(found)
}

/// A row of `job_facts`, as the driver reads it.
pub(crate) struct FactsRow {
    pub(crate) no: i64,
    pub(crate) tenant: String,
    pub(crate) job: Uuid,
    pub(crate) session: Uuid,
    pub(crate) agent: String,
    pub(crate) declaration: Vec<u8>,
    pub(crate) state: String,
    pub(crate) state_since: Stamp,
    pub(crate) reason: Option<String>,
    pub(crate) detail: Option<String>,
    pub(crate) run: i32,
    pub(crate) attempts: i32,
    pub(crate) losses: i32,
    pub(crate) hops_left: i32,
    pub(crate) runs: i32,
    pub(crate) run_cap: i32,
    pub(crate) spent_micros: i64,
    pub(crate) budget_micros: i64,
    pub(crate) priority: i16,
    pub(crate) labels: serde_json::Value,
    pub(crate) recovery: serde_json::Value,
    pub(crate) submitted_at: Stamp,
    pub(crate) cancel_seq: Option<i64>,
    pub(crate) concluded_seq: Option<i64>,
    pub(crate) concluded_hash: Option<Vec<u8>>,
    pub(crate) started_at: Stamp,
    pub(crate) deadline_at: Option<Stamp>,
    pub(crate) head_seq: i64,
    pub(crate) head_hash: Vec<u8>,
    pub(crate) head_epoch: i64,
    pub(crate) head_at: Stamp,
    pub(crate) head_kind: String,
    pub(crate) lease_epoch: Option<i64>,
    pub(crate) lease_run_epoch: Option<i64>,
    pub(crate) lease_worker: Option<String>,
    pub(crate) lease_term: Option<i64>,
    pub(crate) lease_granted_at: Option<Stamp>,
    pub(crate) lease_released: bool,
    pub(crate) lease_term_closed: bool,
    pub(crate) lease_fencing: String,
    pub(crate) abandon_seq: Option<i64>,
    pub(crate) abandoned_at: Option<Stamp>,
    pub(crate) refused: Option<serde_json::Value>,
    pub(crate) steer_seq: Option<i64>,
    pub(crate) steered_at: Option<Stamp>,
    pub(crate) not_before: Option<Stamp>,
    pub(crate) submitted_by: Option<String>,
    /// The halts that stand against it; a listing does not look.
    pub(crate) halts: Option<serde_json::Value>,
    pub(crate) interruption_bytes: Option<Vec<u8>>,
    pub(crate) unwinding: Option<serde_json::Value>,
    /// The record that says why a job is set aside, where it is, and the result that is kept with it.
    pub(crate) quarantine_bytes: Option<Vec<u8>>,
    pub(crate) kept_result: Option<Vec<u8>>,
    pub(crate) kept_salt: Option<Vec<u8>>,
    /// The record that concluded it, where no result lies beside it.
    pub(crate) kept_bytes: Option<Vec<u8>>,
    /// A listing does not look, here and below.
    pub(crate) unheld_bundle: Option<Vec<u8>>,
    /// What it waits for, where it is suspended.
    pub(crate) wait_seq: Option<i64>,
    pub(crate) wait_name: Option<String>,
    pub(crate) wait_until: Option<Stamp>,
    pub(crate) wait_jobs: Option<i32>,
    pub(crate) wait_left: Option<i64>,
    pub(crate) plan_frozen: bool,
    /// What matters of the effects that mutate, where there are any; a listing leaves it out.
    pub(crate) effects: Option<serde_json::Value>,
    pub(crate) generation: Option<i64>,
    pub(crate) now: Stamp,
}

impl FactsRow {
    pub(crate) fn into_facts(mut self, reader: Reader) -> Result<JobFacts, StoreError> {
        let effects = read_effects(self.effects.take(), reader)?;
        Ok(JobFacts {
            doubts: effects.doubts,
            steps: effects.steps,
            landed: effects.landed,
            compensated: effects.compensated,
            unwinding: self.unwinding.take().map(|found| reader.json("unwinding", found)).transpose()?,
            lease: self.lease(reader)?,
            halts: read_standing_halts(self.halts.take(), reader)?,
            submitted_by: self.submitted_by.take(),
            interruption: self.interruption(reader)?,
            set_aside: self.take_set_aside(reader)?,
            unheld_bundle: self.unheld_bundle.as_deref().map(|found| reader.digest(found)).transpose()?,
            wait: self.wait(reader)?,
            plan_frozen: self.plan_frozen,
            head: self.head(reader)?,
            tenant: reader.tenant(self.tenant)?,
            job: JobId(self.job),
            session: SessionId(self.session),
            agent: reader.parse("agent", self.agent)?,
            declaration: reader.digest(&self.declaration)?,
            recovery: reader.json("recovery policy", self.recovery)?,
            state: reader.state(self.state)?,
            reason: self.reason,
            run: Run(from_integer(self.run)),
            attempts: from_integer(self.attempts),
            losses: from_integer(self.losses),
            hops_left: from_integer(self.hops_left),
            runs: read_amount(self.runs.into(), self.run_cap.into()),
            budget_micros: read_amount(self.spent_micros, self.budget_micros),
            cancel_requested: self.cancel_seq.map(from_bigint).map(Seq),
            head_epoch: Epoch(from_bigint(self.head_epoch)),
            head_at: self.head_at.0,
            head_kind: self.head_kind,
            started_at: self.started_at.0,
            deadline_at: instant(self.deadline_at),
            generation: self.generation.map_or(Generation::NONE, |number| Generation(from_bigint(number))),
            now: self.now.0,
        })
    }

    /// True where a mutating effect that is not known not to have happened stands uncompensated.
    pub(crate) fn holds_landed_work(&self, reader: Reader) -> Result<bool, StoreError> {
        let effects = read_effects(self.effects.clone(), reader)?;
        Ok(effects.landed > 0 || !effects.doubts.is_empty())
    }

    pub(crate) fn head(&self, reader: Reader) -> Result<Head, StoreError> {
        read_head(reader, self.head_seq, &self.head_hash)
    }

    /// The lease, where there is one: its columns are there together or not at all.
    pub(crate) fn lease(&self, reader: Reader) -> Result<Option<LeaseFacts>, StoreError> {
        let (Some(epoch), Some(run_epoch), Some(worker), Some(term), Some(granted_at)) = (
            self.lease_epoch,
            self.lease_run_epoch,
            &self.lease_worker,
            self.lease_term,
            self.lease_granted_at,
        ) else {
            return Ok(None);
        };
        Ok(Some(LeaseFacts {
            epoch: Epoch(from_bigint(epoch)),
            run_epoch: Epoch(from_bigint(run_epoch)),
            worker: reader.parse("worker", worker.clone())?,
            term: Term(from_bigint(term)),
            live: !self.lease_released,
            term_closed: self.lease_term_closed,
            fencing: reader.fencing(self.lease_fencing.clone())?,
            granted_at: granted_at.0,
            abandon: read_notice(self.abandon_seq, self.abandoned_at),
            steer: read_notice(self.steer_seq, self.steered_at),
            refused: self
                .refused
                .clone()
                .map(|found| reader.json("refusal of a limit", found))
                .transpose()?,
        }))
    }

    /// The wait of a suspended job: its columns are there together or not at all.
    pub(crate) fn wait(&self, reader: Reader) -> Result<Option<WaitFacts>, StoreError> {
        let (Some(seq), Some(name), Some(until), Some(jobs), Some(left)) =
            (self.wait_seq, &self.wait_name, self.wait_until, self.wait_jobs, self.wait_left)
        else {
            return Ok(None);
        };
        Ok(Some(WaitFacts {
            seq: Seq(from_bigint(seq)),
            name: reader.parse("name of a wait", name.clone())?,
            until: until.0,
            jobs: from_integer(jobs).into(),
            left: from_bigint(left),
        }))
    }

    fn take_set_aside(&mut self, reader: Reader) -> Result<Option<SetAside>, StoreError> {
        const WHAT: &str = "record of a quarantine";
        let Some(bytes) = &self.quarantine_bytes else { return Ok(None) };
        let kind = serde_json::from_slice::<Record>(bytes).map(|record| record.kind);
        let (instead_of, reason, changed) = match kind {
            Ok(RecordKind::QuarantineDecided { instead_of, reason, changed, .. }) => {
                (instead_of, reason, changed)
            }
            Ok(other) => return Err(reader.unknown(WHAT, other.name().to_owned())),
            Err(error) => return Err(reader.unknown(WHAT, error.to_string())),
        };
        let result = match self.kept_result.take().zip(self.kept_salt.take()) {
            Some((value, salt)) => {
                let length = salt.len();
                let unknown = |_| reader.unknown("salt of a result", format!("{length} bytes"));
                Some(NewValue::Beside(SaltedValue { value, salt: salt.try_into().map_err(unknown)? }))
            }
            None => self.kept_bytes.take().and_then(|bytes| find_blob(&bytes)).map(NewValue::Blob),
        };
        Ok(Some(SetAside { instead_of, reason, result, changed }))
    }

    fn interruption(&self, reader: Reader) -> Result<Option<Interruption>, StoreError> {
        let Some(bytes) = &self.interruption_bytes else { return Ok(None) };
        match serde_json::from_slice::<Record>(bytes).map(|record| record.kind) {
            Ok(RecordKind::RunInterrupted { interruption, .. }) => Ok(Some(interruption)),
            Ok(other) => Err(reader.unknown("record of an interruption", other.name().to_owned())),
            Err(error) => Err(reader.unknown("record of an interruption", error.to_string())),
        }
    }

    /// When the job is to be started at the earliest, where it is delayed.
    pub(crate) fn delayed_until(&self) -> Option<Timestamp> {
        instant(self.not_before)
    }
}

/// A notice that a lease remembers: its columns are there together or not at all.
fn read_notice(seq: Option<i64>, since: Option<Stamp>) -> Option<LeaseNotice> {
    Some(LeaseNotice { seq: Seq(from_bigint(seq?)), since: since?.0 })
}

/// The result that a conclusion names, where it lies in the blob store; none: there was none, or it was erased.
fn find_blob(concluded: &[u8]) -> Option<ValueRef> {
    match serde_json::from_slice::<Record>(concluded).ok()?.kind {
        RecordKind::JobConcluded { result, .. } => result.filter(ValueRef::is_blob),
        _ => None,
    }
}

/// The effects of a job, in JSON that the statement composes.
#[derive(serde::Deserialize, Default)]
struct StoredEffects {
    doubts: Vec<StoredDoubt>,
    in_doubt: u64,
    undecided: u64,
    bar_undoing: u64,
    denied: u64,
    steps: Vec<EffectRef>,
    to_undo: u64,
    undeclared_steps: Vec<EffectRef>,
    undeclared: u64,
    landed: u64,
    compensated: u64,
}

/// What the facts hold of them.
struct EffectFacts {
    doubts: Doubts,
    steps: StepsToUndo,
    landed: u64,
    compensated: u64,
}

fn read_effects(found: Option<serde_json::Value>, reader: Reader) -> Result<EffectFacts, StoreError> {
    let found = found.map(|found| reader.json("facts of effects", found)).transpose()?;
    let mut found: StoredEffects = found.unwrap_or_default();
    let listed = found.doubts.into_iter().map(|doubt| doubt.into_doubt(reader)).collect::<Result<_, _>>()?;
    found.steps.truncate(DOUBTS_MAX);
    let (count, undecided, denied) = (found.in_doubt, found.undecided, found.denied);
    Ok(EffectFacts {
        doubts: Doubts { listed, count, undecided, bar_undoing: found.bar_undoing, denied },
        steps: StepsToUndo {
            listed: found.steps,
            count: found.to_undo,
            undeclared: found.undeclared_steps,
            undeclared_count: found.undeclared,
        },
        landed: found.landed,
        compensated: found.compensated,
    })
}

/// What was used of a limit.
pub(crate) fn read_amount(used: i64, limit: i64) -> Amount {
    Amount { used: from_bigint(used), limit: from_bigint(limit) }
}

pub(crate) fn read_head(reader: Reader, seq: i64, hash: &[u8]) -> Result<Head, StoreError> {
    let hash: Digest = reader.digest(hash)?;
    Ok(Head { seq: Seq(from_bigint(seq)), hash })
}
