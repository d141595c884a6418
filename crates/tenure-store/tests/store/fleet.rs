//! What the tests submit, claim and append with: one tenant, its agent, workers and jobs, all written through the store.
//! Tests say only what matters to them; the rest is from here.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use sqlx::PgPool;
use tenure_core::{
    chain::Head,
    credential::Tenants,
    handover::Cause,
    id::{
        AgentName, Attach, Digest, Epoch, Generation, JobId, Run, Seq, SessionId, Tenant, Term, WorkerName,
    },
    job::State,
    plan::{Changes, Fencing, JobChange, JobFacts, LeaseChange, ReadyChange},
    principal::Principal,
    record::{DeadlineSetting, Draft, Header, RecordKind, SaltedValue, SealedRecord, seal_records},
    recovery::{GoneProof, Interruption, Policy, RecoveryPolicy},
};
use tenure_store::{
    Append, AppendOutcome, ClaimOutcome, ClaimRequest, Claimed, EagerClaim, Floors, Guard, NewDeclaration,
    NewJob, NewTerm, Store, StoreOptions, StoredRecord, Submitted,
};
use tenure_testkit::TestDatabase;
use uuid::Uuid;

pub(crate) const AGENT: &str = "notes";
pub(crate) const DOCUMENT: &[u8] = br#"{"command":["notes"]}"#;
pub(crate) const POLICY: RecoveryPolicy = RecoveryPolicy {
    policy: Policy::Automatic,
    max_attempts: 2,
    max_losses: 10,
    backoff_first_ms: 1_000,
    backoff_max_ms: 300_000,
    final_exit_codes: Vec::new(),
    unwind_on_failure: false,
};

/// A migrated database with one declared agent.
pub(crate) struct Fleet {
    pub(crate) store: Store,
    /// For looking, and for holding locks.
    pub(crate) pool: PgPool,
    pub(crate) db: TestDatabase,
    pub(crate) tenant: Tenant,
}

/// A worker's term with its current attach.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) name: WorkerName,
    pub(crate) term: Term,
    pub(crate) attach: Attach,
    pub(crate) answer: u64,
}

/// Where a writer stands in a job's journal.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    pub(crate) tenant: Tenant,
    pub(crate) job: JobId,
    pub(crate) generation: Generation,
    pub(crate) epoch: Epoch,
    pub(crate) run: Run,
    pub(crate) head: Head,
    pub(crate) n: u64,
}

impl Fleet {
    pub(crate) async fn start() -> Self {
        Self::on(TestDatabase::create().await.unwrap()).await
    }

    pub(crate) async fn on(db: TestDatabase) -> Self {
        let store = Store::connect(db.url(), StoreOptions::default()).await.unwrap();
        let pool = db.connect(8).await.unwrap();
        let fleet = Self { store, pool, db, tenant: Tenant::default_tenant() };
        let declaration =
            NewDeclaration { agent: agent(AGENT), document: DOCUMENT.to_vec(), digest: Digest::of(DOCUMENT) };
        fleet.store.apply_agents(&fleet.tenant, &[declaration], None, &by(), false).await.unwrap();
        fleet
    }

    /// A second coordinator's connections.
    pub(crate) async fn second_store(&self) -> Store {
        Store::connect(self.db.url(), StoreOptions::default()).await.unwrap()
    }

    pub(crate) async fn attach(&self, name: &str) -> Worker {
        let name: WorkerName = name.parse().unwrap();
        let secret_hash = Digest::of(name.as_str().as_bytes());
        let registered = self.store.register_worker(&new_term(&name, secret_hash)).await.unwrap();
        let attached = self
            .store
            .attach_worker(&name, registered.term, secret_hash, &Tenants::All)
            .await
            .unwrap()
            .unwrap();
        Worker { name, term: registered.term, attach: attached.attach, answer: registered.answer }
    }

    /// A job that is not stored yet.
    pub(crate) fn new_job(&self) -> NewJob {
        new_job(&self.tenant, b"the input")
    }

    /// Stores a job that waits in the queue.
    pub(crate) async fn submit(&self) -> NewJob {
        let job = self.new_job();
        self.submit_as(job).await
    }

    pub(crate) async fn submit_as(&self, job: NewJob) -> NewJob {
        let outcomes = self.store.submit_jobs(std::slice::from_ref(&job)).await.unwrap();
        assert!(matches!(outcomes[..], [Submitted::Admitted { .. }]), "{outcomes:?}");
        job
    }

    pub(crate) async fn claim(&self, worker: &Worker, limit: u32) -> ClaimOutcome {
        self.store.claim_jobs(&claim_request(worker, limit)).await.unwrap()
    }

    /// A job under a lease of this worker.
    pub(crate) async fn run_job(&self, worker: &Worker) -> Holder {
        let job = self.submit().await;
        let outcome = self.claim(worker, 1).await;
        let claimed = &outcome.claimed[..];
        assert!(matches!(claimed, [one] if one.job == job.job), "claimed {claimed:?} instead of {}", job.job);
        Holder::of(&claimed[0])
    }

    pub(crate) async fn append(&self, append: Append) -> AppendOutcome {
        self.store.append_records(&[append]).await.unwrap().remove(0)
    }

    /// Lets a term lapse, as if its worker had been silent for long.
    pub(crate) async fn lapse(&self, worker: &Worker) {
        sqlx::query(
            "UPDATE terms SET expires_at = statement_timestamp() - interval '1 second',
                 renewed_at = statement_timestamp() - interval '31 seconds'
             WHERE worker = $1 AND term = $2",
        )
        .bind(worker.name.as_str())
        .bind(i64::try_from(worker.term.0).unwrap())
        .execute(&self.pool)
        .await
        .unwrap();
    }

    /// (seq, epoch, kind) of a job's journal, in order.
    pub(crate) async fn journal(&self, job: JobId) -> Vec<(i64, i64, String)> {
        sqlx::query_as("SELECT seq, epoch, kind FROM journal WHERE job = $1 ORDER BY seq")
            .bind(job.0)
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }

    /// What is known of a job.
    pub(crate) async fn facts(&self, job: JobId) -> JobFacts {
        let wanted = [(self.tenant.clone(), job)];
        self.store.read_facts(&wanted).await.unwrap().remove(0).unwrap().unwrap()
    }

    /// A job's records, page after page.
    pub(crate) async fn all_records(&self, job: JobId) -> Vec<StoredRecord> {
        let (mut records, mut next) = (Vec::new(), Some(Seq(1)));
        while let Some(from) = next {
            let page = self.store.read_records(&self.tenant, job, from, &[], 1_000).await.unwrap();
            records.extend(page.records);
            next = page.next;
        }
        records
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap()
    }

    /// Waits until a statement of another connection, whose header contains `text`, waits for a lock.
    pub(crate) async fn wait_until_blocked(&self, text: &str) {
        let pattern = format!("%{text}%");
        tenure_testkit::wait_for("a statement that waits for a lock", Duration::from_secs(30), async || {
            let seen: Vec<(String, Option<String>)> = sqlx::query_as(
                "SELECT left(query, 60), wait_event_type FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE $1",
            )
            .bind(&pattern)
            .fetch_all(&self.pool)
            .await
            .unwrap();
            if seen.iter().any(|(_, wait)| wait.as_deref() == Some("Lock")) { Ok(()) } else { Err(seen) }
        })
        .await;
    }
}

impl Holder {
    pub(crate) fn of(claimed: &Claimed) -> Self {
        Self {
            tenant: claimed.tenant.clone(),
            job: claimed.job,
            generation: claimed.generation,
            epoch: claimed.epoch,
            run: claimed.run,
            head: claimed.head,
            n: 0,
        }
    }

    pub(crate) fn seal(&self, drafts: Vec<Draft>) -> Vec<SealedRecord> {
        self.seal_under(self.epoch, drafts)
    }

    pub(crate) fn seal_under(&self, epoch: Epoch, drafts: Vec<Draft>) -> Vec<SealedRecord> {
        let header = Header {
            tenant: self.tenant.clone(),
            job: self.job,
            generation: self.generation,
            epoch,
            run: self.run,
        };
        seal_records(&header, self.head, now(), drafts).unwrap()
    }

    pub(crate) fn append_of(&self, records: Vec<SealedRecord>, changes: Changes) -> Append {
        Append {
            tenant: self.tenant.clone(),
            job: self.job,
            generation: self.generation,
            guard: Guard::Lease(self.epoch),
            head: self.head,
            records,
            n: None,
            request: None,
            changes,
            gift: None,
        }
    }

    /// The holder's next append: notes with these texts.
    pub(crate) fn notes(&mut self, texts: &[&str]) -> Append {
        self.n += 1;
        let records = self.seal(texts.iter().map(|text| note(text)).collect());
        let append = Append {
            n: Some(self.n),
            request: Some(Digest::of(texts.join("\n").as_bytes())),
            ..self.append_of(records, Changes::default())
        };
        self.advance(&append);
        append
    }

    /// The holder's next append: whatever these say.
    pub(crate) fn say(&mut self, drafts: Vec<Draft>) -> Append {
        self.n += 1;
        let records = self.seal(drafts);
        let append = Append {
            n: Some(self.n),
            request: Some(Digest::of(&records.last().unwrap().bytes)),
            ..self.append_of(records, Changes::default())
        };
        self.advance(&append);
        append
    }

    /// The end of the run with success.
    pub(crate) fn success(&mut self) -> Append {
        self.n += 1;
        let records = self.seal(vec![gone(self.epoch, GoneProof::Observed), concluded(State::Succeeded)]);
        let change = JobChange { state: Some(State::Succeeded), concluded: true, ..JobChange::default() };
        let changes = Changes { job: Some(change), lease: LeaseChange::Delete, ..Changes::default() };
        let append =
            Append { n: Some(self.n), request: Some(Digest::of(b"end")), ..self.append_of(records, changes) };
        self.advance(&append);
        append
    }

    /// The settlement by somebody else, under one epoch more: the run was interrupted, its child is gone, and the job is
    /// ready again.
    pub(crate) fn settlement(&self) -> Append {
        let interrupted = RecordKind::RunInterrupted {
            of_epoch: self.epoch,
            interruption: Interruption::WorkerLost,
            restart: None,
        };
        let drafts = vec![gone(self.epoch, GoneProof::TermLapsed), Draft::bare(interrupted)];
        let records = self.seal_under(self.epoch.next(), drafts);
        let change = JobChange { state: Some(State::Ready), losses: Some(1), ..JobChange::default() };
        let cause =
            Cause::Recovered { previous: self.run, interruption: Interruption::WorkerLost, attempt: 2 };
        let ready = ReadyChange::Insert { cause, not_before: None };
        self.append_of(
            records,
            Changes { job: Some(change), lease: LeaseChange::Delete, ready, ..Changes::default() },
        )
    }

    /// The settlement by somebody else where the child is not known to be gone: the lease stays, released.
    pub(crate) fn interruption(&self) -> Append {
        let interrupted = RecordKind::RunInterrupted {
            of_epoch: self.epoch,
            interruption: Interruption::WorkerLost,
            restart: None,
        };
        let records = self.seal_under(self.epoch.next(), vec![Draft::bare(interrupted)]);
        let change = JobChange {
            state: Some(State::Interrupted),
            reason: Some("child_unaccounted_for".to_owned()),
            ..JobChange::default()
        };
        self.append_of(
            records,
            Changes { job: Some(change), lease: LeaseChange::Release, ..Changes::default() },
        )
    }

    /// A cancel request at a living run: a notice under its epoch.
    pub(crate) fn cancel_notice(&mut self) -> Append {
        let asked = RecordKind::CancelRequested { by: by(), why: "enough".to_owned() };
        let records = self.seal(vec![Draft::bare(asked)]);
        let change = JobChange { cancel_requested_by_draft: Some(0), ..JobChange::default() };
        let append = self.append_of(records, Changes { job: Some(change), ..Changes::default() });
        self.advance(&append);
        append
    }

    pub(crate) fn advance(&mut self, append: &Append) {
        let last = append.records.last().unwrap();
        self.head = Head { seq: last.seq, hash: last.hash };
    }
}

pub(crate) fn by() -> Principal {
    Principal::asserted("somebody")
}

pub(crate) fn agent(name: &str) -> AgentName {
    name.parse().unwrap()
}

/// The clock of the machine, which is the database's.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap()
}

pub(crate) fn salted(text: &[u8]) -> SaltedValue {
    SaltedValue { value: text.to_vec(), salt: [7; 16] }
}

pub(crate) fn note(text: &str) -> Draft {
    Draft::with_value(salted(text.as_bytes()), |text| RecordKind::Note { text })
}

pub(crate) fn gone(of_epoch: Epoch, proof: GoneProof) -> Draft {
    Draft::bare(RecordKind::ChildGone { of_epoch, proof, by: by() })
}

pub(crate) fn concluded(outcome: State) -> Draft {
    Draft::with_value(salted(b"the result"), |result| RecordKind::JobConcluded {
        outcome,
        reason: None,
        result: Some(result),
        output_chunks: None,
    })
}

pub(crate) fn new_term(name: &WorkerName, secret_hash: Digest) -> NewTerm {
    NewTerm {
        worker: name.clone(),
        secret_hash,
        labels: vec!["git".to_owned(), "zone=eu".to_owned()],
        agents: Vec::new(),
        tenants: Tenants::one(Tenant::default_tenant()),
        slots: 4,
        ttl: Duration::from_secs(30),
        fencing: Fencing::Guardian,
        version: "0.1.0".to_owned(),
    }
}

pub(crate) fn claim_request(worker: &Worker, limit: u32) -> ClaimRequest {
    ClaimRequest {
        worker: worker.name.clone(),
        term: worker.term,
        attach: worker.attach,
        generation: Generation(1),
        tenants: Tenants::one(Tenant::default_tenant()),
        agents: Vec::new(),
        labels: vec!["git".to_owned(), "zone=eu".to_owned()],
        limit,
        floors: Floors::default(),
        at: now(),
        secret_hashes: (0..limit).map(|no| Digest::of(&no.to_be_bytes())).collect(),
    }
}

pub(crate) fn new_job(tenant: &Tenant, input: &[u8]) -> NewJob {
    let (job, session) = (JobId(Uuid::now_v7()), SessionId(Uuid::now_v7()));
    NewJob {
        tenant: tenant.clone(),
        job,
        session,
        submitted_by: by().actor,
        generation: Generation(1),
        agent: agent(AGENT),
        declaration: Digest::of(DOCUMENT),
        bundle: None,
        recovery: POLICY,
        hops: 8,
        run_cap: 64,
        budget_micros: 5_000_000,
        deadline: DeadlineSetting::CeilingS(3_600),
        priority: 1,
        labels: BTreeMap::new(),
        requires: Vec::new(),
        not_before: None,
        cause: Cause::Dispatch,
        traceparent: None,
        key: None,
        records: first_records(tenant, job, session, input),
        claim: None,
    }
}

fn first_records(tenant: &Tenant, job: JobId, session: SessionId, input: &[u8]) -> Vec<SealedRecord> {
    let admitted = Draft::with_value(salted(input), |input| RecordKind::JobAdmitted {
        session,
        agent: agent(AGENT),
        declaration: Digest::of(DOCUMENT),
        bundle: None,
        input,
        by: by(),
        key: None,
        labels: BTreeMap::new(),
        deadline: DeadlineSetting::CeilingS(3_600),
        priority: 1,
        not_before: None,
        traceparent: None,
        sender: None,
        layover: None,
    });
    let frozen = Draft::bare(RecordKind::PlanFrozen { recovery: POLICY, hops: 8, rungs: Vec::new() });
    let header =
        Header { tenant: tenant.clone(), job, generation: Generation(1), epoch: Epoch(0), run: Run(0) };
    seal_records(&header, Head::genesis(), now(), vec![admitted, frozen]).unwrap()
}

/// The eager claim of a job for a worker.
pub(crate) fn eager_claim(job: &NewJob, worker: &Worker) -> EagerClaim {
    let last = job.records.last().unwrap();
    let header = Header {
        tenant: job.tenant.clone(),
        job: job.job,
        generation: job.generation,
        epoch: Epoch(1),
        run: Run(1),
    };
    let started = RecordKind::RunStarted {
        worker: worker.name.clone(),
        term: worker.term,
        attach: worker.attach,
        attempt: 1,
        cause: Cause::Dispatch,
    };
    let head = Head { seq: last.seq, hash: last.hash };
    EagerClaim {
        worker: worker.name.clone(),
        term: worker.term,
        attach: worker.attach,
        secret_hash: Digest::of(b"secret"),
        record: seal_records(&header, head, now(), vec![Draft::bare(started)]).unwrap().remove(0),
    }
}

/// The seq that an append was given.
pub(crate) fn applied(outcome: &AppendOutcome) -> Option<Seq> {
    match outcome {
        AppendOutcome::Applied { seq } => Some(*seq),
        _ => None,
    }
}

/// A store whose statements wait longer for locks than those of a coordinator, for tests that hold one on purpose.
pub(crate) async fn patient_store(fleet: &Fleet) -> Store {
    let url = waiting_for_locks(fleet, Duration::from_secs(9));
    Store::connect_unprepared(&url, StoreOptions::default()).await.unwrap()
}

/// The database's address for connections that wait so long for locks.
pub(crate) fn waiting_for_locks(fleet: &Fleet, limit: Duration) -> String {
    let url = fleet.db.url();
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}options[lock_timeout]={}", limit.as_millis())
}
