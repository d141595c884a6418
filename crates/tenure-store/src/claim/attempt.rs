//! One transaction of a claim: lock and read, compose, write.

use std::{collections::BTreeMap, time::Instant};

use jiff::Timestamp;
use sqlx::{PgConnection, query_file};
use tenure_core::{
    admission::{RunAdmission, admit_run},
    chain::Head,
    deadline::Deadline,
    handler::list_handler_labels,
    handover::Cause,
    id::{AgentName, Epoch, JobId, Run, SessionId, Tenant},
    limits::QUEUE_SLACK,
    record::{Draft, Header, KeptValue, Record, RecordKind, SealedRecord, seal_records},
};
use uuid::Uuid;

use super::{ATTEMPTED, ClaimOutcome, ClaimRequest, Claimed, Floors};
use crate::{
    Store, StoreError,
    connection::begin,
    facts::{read_amount, read_head, warn_unreadable},
    stored::{Reader, from_bigint, from_integer, instant, to_bigint, to_integer},
    timestamp::Stamp,
};

/// What one transaction brought.
pub(super) struct Attempt {
    pub(super) outcome: ClaimOutcome,
    /// Jobs that a limit of their session refuses, or whose declaration or bundle is not held any more.
    pub(super) denied: Vec<DeniedRow>,
    /// The numbers in the queue of what could not be read.
    pub(super) unreadable: Vec<i64>,
    /// True where jobs were found, and the guard let none of them as far as the limits.
    pub(super) admitted_none: bool,
}

/// A job that gets no run: a limit of its session refuses, or its declaration or bundle is not held any more.
pub(super) struct DeniedRow {
    pub(super) tenant: Tenant,
    pub(super) job: JobId,
    pub(super) queue_no: i64,
}

/// What is made of the rows that were picked.
#[derive(Default)]
struct Composed {
    candidates: Vec<Candidate>,
    denied: Vec<DeniedRow>,
    unreadable: Vec<i64>,
}

/// A run that will have begun once its record is written.
struct Candidate {
    claimed: Claimed,
    before: Head,
    record: SealedRecord,
    queue_no: i64,
}

impl Store {
    pub(super) async fn attempt_claim(&self, request: &ClaimRequest) -> Result<Attempt, StoreError> {
        let limit = (request.limit as usize).min(request.secret_hashes.len());
        if limit == 0 {
            return Ok(Attempt {
                outcome: ClaimOutcome { floors: request.floors, ..ClaimOutcome::default() },
                denied: Vec::new(),
                unreadable: Vec::new(),
                admitted_none: false,
            });
        }
        let passed_over = self.unreadable.list(Instant::now());
        let mut connection = self.take(ATTEMPTED).await?;
        let mut transaction = begin(&mut connection, ATTEMPTED).await?;
        let picked = pick_jobs(&mut transaction, request, limit, &passed_over).await?;
        let (full, floors) = (picked.len() == limit, raise_floors(request.floors, &picked));
        let Composed { candidates, mut denied, unreadable } = compose(request, picked);
        let written = write_claims(&mut transaction, request, &candidates).await?;
        transaction.commit().await.map_err(StoreError::while_doing(ATTEMPTED))?;
        let admitted_none = written.is_empty() && !candidates.is_empty();
        let mut claimed = Vec::with_capacity(candidates.len());
        for (no, Candidate { claimed: run, queue_no, .. }) in candidates.into_iter().enumerate() {
            match written.get(&no) {
                Some(true) => claimed.push(run),
                Some(false) => denied.push(DeniedRow { tenant: run.tenant, job: run.job, queue_no }),
                None => {}
            }
        }
        let outcome = ClaimOutcome { claimed, floors, full, ..ClaimOutcome::default() };
        Ok(Attempt { outcome, denied, unreadable, admitted_none })
    }
}

async fn pick_jobs(
    connection: &mut PgConnection,
    request: &ClaimRequest,
    limit: usize,
    passed_over: &[i64],
) -> Result<Vec<PickedRow>, StoreError> {
    // From the most urgent priority down: the order of the queue.
    let priorities: Vec<i16> = vec![3, 2, 1, 0];
    let floors: Vec<_> = request.floors.0.iter().rev().map(|floor| to_bigint(*floor)).collect();
    let tenants = request.tenants.to_texts();
    let agents: Vec<_> = request.agents.iter().map(AgentName::to_string).collect();
    let mut picked = sqlx::query_file_as!(
        PickedRow,
        "queries/ready/pick_jobs.sql",
        &priorities,
        &floors,
        &tenants,
        &agents,
        &request.labels,
        to_bigint(limit as u64),
        passed_over,
        &list_handler_labels(&request.labels)
    )
    .fetch_all(connection)
    .await
    .map_err(StoreError::while_doing(ATTEMPTED))?;
    picked.sort_by_key(|row| (std::cmp::Reverse(row.priority), row.queue_no));
    Ok(picked)
}

/// Everything below the highest number that was picked is gone from the queue, held by another claim, or not for this
/// filter; what becomes visible late is within the slack, and a full pass finds the rest.
fn raise_floors(mut floors: Floors, picked: &[PickedRow]) -> Floors {
    for row in picked {
        let priority = usize::try_from(row.priority).unwrap_or_default();
        if let Some(floor) = floors.0.get_mut(priority) {
            *floor = (*floor).max(from_bigint(row.queue_no).saturating_sub(QUEUE_SLACK));
        }
    }
    floors
}

/// Composes the records; what gets no run is put aside, and what cannot be read is named and left.
fn compose(request: &ClaimRequest, picked: Vec<PickedRow>) -> Composed {
    let mut composed = Composed::default();
    for row in picked {
        let (tenant, job, queue_no) = (row.tenant.clone(), JobId(row.job), row.queue_no);
        if let Err(error) = composed.take(request, row) {
            warn_unreadable(&tenant, job, &error);
            composed.unreadable.push(queue_no);
        }
    }
    composed
}

impl Composed {
    fn take(&mut self, request: &ClaimRequest, row: PickedRow) -> Result<(), StoreError> {
        if !row.plan_frozen {
            return Err(Reader(ATTEMPTED).unknown("frozen plan", "none".to_owned()));
        }
        if row.denied == Some(true) || row.document.is_none() || !row.bundle_held || row.is_refused()? {
            let tenant = Reader(ATTEMPTED).tenant(row.tenant)?;
            self.denied.push(DeniedRow { tenant, job: JobId(row.job), queue_no: row.queue_no });
        } else {
            let secret_index = self.candidates.len();
            self.candidates.push(row.into_candidate(request, secret_index)?);
        }
        Ok(())
    }
}

/// By number: true for each run that began, false for each that a limit of its session refused.
async fn write_claims(
    connection: &mut PgConnection,
    request: &ClaimRequest,
    candidates: &[Candidate],
) -> Result<BTreeMap<usize, bool>, StoreError> {
    if candidates.is_empty() {
        return Ok(BTreeMap::new());
    }
    let of = |read: fn(&Candidate) -> i64| candidates.iter().map(read).collect::<Vec<_>>();
    let bytes = |read: fn(&Candidate) -> &[u8]| candidates.iter().map(read).collect::<Vec<_>>();
    let numbers: Vec<_> = (0..candidates.len()).map(|no| to_bigint(no as u64)).collect();
    let tenants: Vec<_> = candidates.iter().map(|one| one.claimed.tenant.to_string()).collect();
    let jobs: Vec<_> = candidates.iter().map(|one| one.claimed.job.0).collect();
    let runs: Vec<_> = candidates.iter().map(|one| to_integer(one.claimed.run.0)).collect();
    let times: Vec<_> = candidates.iter().map(|one| Stamp(one.record.at)).collect();
    let sessions: Vec<_> = candidates.iter().map(|one| one.claimed.session.0).collect();
    let prices: Vec<_> = candidates.iter().map(|one| one.claimed.cause.price()).collect();
    let counts: Vec<_> = prices.iter().map(|price| price.counts).collect();
    let checks_money: Vec<_> = prices.iter().map(|price| price.checks_money).collect();
    let secrets: Vec<_> =
        candidates.iter().map(|one| &request.secret_hashes[one.claimed.secret_index].0[..]).collect();
    let rows = query_file!(
        "queries/ready/claim_jobs.sql",
        request.worker.as_str(),
        to_bigint(request.term.0),
        to_bigint(request.attach.0),
        to_bigint(request.generation.0),
        &numbers,
        &tenants,
        &jobs,
        &of(|one| to_bigint(one.record.seq.0)),
        &bytes(|one| &one.before.hash.0) as _,
        &of(|one| to_bigint(one.record.epoch.0)),
        &runs,
        &times as _,
        &bytes(|one| &one.record.bytes) as _,
        &bytes(|one| &one.record.hash.0) as _,
        &secrets as _,
        &sessions,
        &counts,
        &checks_money
    )
    .fetch_all(connection)
    .await
    .map_err(StoreError::while_doing(ATTEMPTED))?;
    Ok(rows.into_iter().filter_map(|row| Some((usize::try_from(row.no).ok()?, row.claimed))).collect())
}

struct PickedRow {
    tenant: String,
    job: Uuid,
    priority: i16,
    queue_no: i64,
    cause: serde_json::Value,
    session: Uuid,
    agent: String,
    run: i32,
    declaration: Vec<u8>,
    labels: serde_json::Value,
    traceparent: Option<String>,
    started_at: Stamp,
    deadline_at: Option<Stamp>,
    runs: i32,
    run_cap: i32,
    spent_micros: i64,
    budget_micros: i64,
    denied: Option<bool>,
    document: Option<Vec<u8>>,
    bundle_held: bool,
    plan_frozen: bool,
    input: Option<Vec<u8>>,
    /// The record that names the input, where that is not in its row.
    admitted: Option<Vec<u8>>,
    head_seq: i64,
    head_hash: Vec<u8>,
    head_epoch: i64,
    head_at: Stamp,
    now: Stamp,
}

impl PickedRow {
    /// True where a limit of its session stands against the run, as this was read: what was used meanwhile is met by the claim.
    fn is_refused(&self) -> Result<bool, StoreError> {
        let cause: Cause = Reader(ATTEMPTED).json("cause", self.cause.clone())?;
        let price = cause.price();
        let deadline = Deadline::new(self.started_at.0, None);
        let run = RunAdmission {
            budget_micros: price.checks_money.then(|| read_amount(self.spent_micros, self.budget_micros)),
            runs: price.counts.then(|| read_amount(self.runs.into(), self.run_cap.into())),
            ..RunAdmission::at(self.now.0, deadline)
        };
        Ok(admit_run(&run).is_err())
    }

    fn into_candidate(self, request: &ClaimRequest, secret_index: usize) -> Result<Candidate, StoreError> {
        let reader = Reader(ATTEMPTED);
        let before = read_head(reader, self.head_seq, &self.head_hash)?;
        let cause: Cause = reader.json("cause", self.cause)?;
        let header = Header {
            tenant: reader.tenant(self.tenant)?,
            job: JobId(self.job),
            generation: request.generation,
            epoch: Epoch(from_bigint(self.head_epoch)).next(),
            run: Run(from_integer(self.run)).next(),
        };
        let attempt = cause.attempt();
        let record = seal_claim(request, &header, before, self.head_at.0, &cause)?;
        let document =
            self.document.ok_or_else(|| reader.unknown("declaration", hex::encode(&self.declaration)))?;
        let claimed = Claimed {
            session: SessionId(self.session),
            agent: reader.parse("agent", self.agent)?,
            run: header.run,
            epoch: header.epoch,
            generation: header.generation,
            head: Head { seq: record.seq, hash: record.hash },
            head_at: record.at,
            attempt,
            cause,
            declaration: reader.digest(&self.declaration)?,
            document,
            input: find_input(reader, self.input, self.admitted)?,
            started_at: self.started_at.0,
            deadline_at: instant(self.deadline_at),
            now: self.now.0,
            traceparent: self.traceparent,
            labels: reader.json("labels", self.labels)?,
            secret_index,
            job: header.job,
            tenant: header.tenant,
        };
        Ok(Candidate { claimed, before, record, queue_no: self.queue_no })
    }
}

/// Where the input is: in the row, or where the record says.
fn find_input(
    reader: Reader,
    beside: Option<Vec<u8>>,
    admitted: Option<Vec<u8>>,
) -> Result<KeptValue, StoreError> {
    if let Some(value) = beside {
        return Ok(KeptValue::Beside(value));
    }
    let bytes = admitted.unwrap_or_default();
    match serde_json::from_slice(&bytes) {
        Ok(Record { kind: RecordKind::JobAdmitted { input, .. }, .. }) => Ok(KeptValue::find(input, None)),
        Ok(_) | Err(_) => {
            Err(reader.unknown("record of an admission", String::from_utf8_lossy(&bytes).into_owned()))
        }
    }
}

fn seal_claim(
    request: &ClaimRequest,
    header: &Header,
    head: Head,
    head_at: Timestamp,
    cause: &Cause,
) -> Result<SealedRecord, StoreError> {
    let draft = Draft::bare(RecordKind::RunStarted {
        worker: request.worker.clone(),
        term: request.term,
        attach: request.attach,
        attempt: cause.attempt(),
        cause: cause.clone(),
    });
    // Time never goes back along the chain.
    let sealed = seal_records(header, head, request.at.max(head_at), vec![draft]);
    let mut sealed = sealed.map_err(|source| StoreError::seal(ATTEMPTED, source))?;
    sealed.pop().ok_or_else(|| Reader(ATTEMPTED).unknown("record of a claim", "none".to_owned()))
}
