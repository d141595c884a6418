//! A job that is written through the store, as a coordinator writes it: two runs, of which the first is interrupted, with a
//! note and effects that are done, looked up and left open.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use sqlx::PgPool;
use tenure_core::{
    chain::Head,
    credential::Tenants,
    effect::{Compensation, Disposition, EffectKey, EffectRecovery},
    handover::Cause,
    id::{Digest, Epoch, Generation, JobId, Run, Seq, SessionId, Tenant, WorkerName},
    job::State,
    plan::{Changes, Fencing, JobChange, LeaseChange, ReadyChange},
    principal::Principal,
    record::{DeadlineSetting, Draft, Header, RecordKind, SaltedValue, SealedRecord, seal_records},
    recovery::{GoneProof, Interruption, Pays, Policy, RecoveryPolicy, Restart},
};
use tenure_store::{
    Append, AppendOutcome, ClaimRequest, Floors, Guard, NewDeclaration, NewJob, NewTerm, Store, StoreOptions,
};
use tenure_testkit::{CrashPoint, RebuiltJob, TestDatabase, crash_points};
use uuid::Uuid;

const DOCUMENT: &[u8] = br#"{"command":["charge"]}"#;

/// The job, and where its writer stands.
pub(crate) struct Story {
    pub(crate) pool: PgPool,
    store: Store,
    job: JobId,
    head: Head,
    epoch: Epoch,
    run: Run,
    number: u64,
    _database: TestDatabase,
}

impl Story {
    /// Writes all of it.
    pub(crate) async fn write() -> Self {
        let mut story = Self::submit().await;
        story.claim("w1").await;
        story.say(vec![Draft::with_value(salted("on its way"), |text| RecordKind::Note { text })]).await;
        story.say(vec![started("charge", 1, EffectRecovery::Idempotent, true)]).await;
        story.say(vec![done("charge", 1)]).await;
        story.say(vec![started("mail", 1, EffectRecovery::Probe, true)]).await;
        story.interrupt().await;
        story.claim("w2").await;
        // What a probe found, and the next announcement, in one append.
        story.say(vec![reconciled("mail", 1), started("mail", 2, EffectRecovery::Probe, true)]).await;
        story.say(vec![done("mail", 2)]).await;
        story.say(vec![started("look", 1, EffectRecovery::Retry, false)]).await;
        story.say(vec![done("look", 1)]).await;
        story.conclude().await;
        story
    }

    pub(crate) async fn points(&self) -> Vec<CrashPoint> {
        crash_points(&self.store, &tenant(), self.job).await.unwrap()
    }

    /// Claims the rebuilt job as a fleet never does: under an epoch that leaves so many out.
    pub(crate) async fn claim_in(&self, rebuilt: &RebuiltJob, left_out: Epoch) {
        let mut other = self.follow(rebuilt).await;
        other.epoch = Epoch(rebuilt.epoch.0 + left_out.0 + 1);
        other.run = Run(3);
        let cause = Cause::Dispatch;
        let worker = name("w3");
        let (term, attach) = (tenure_core::id::Term(1), tenure_core::id::Attach(1));
        other.force(Draft::bare(RecordKind::RunStarted { worker, term, attach, attempt: 3, cause })).await;
    }

    /// Announces the effect again that was done.
    pub(crate) async fn announce_again_in(&self, rebuilt: &RebuiltJob) {
        let mut other = self.follow(rebuilt).await;
        other.force(started("charge", 2, EffectRecovery::Idempotent, true)).await;
    }

    /// The same story at the end of what was rebuilt.
    async fn follow(&self, rebuilt: &RebuiltJob) -> Self {
        let store = Store::connect(rebuilt.url(), StoreOptions::default()).await.unwrap();
        let tail = store.read_tail(&tenant(), self.job, Seq(1)).await.unwrap().unwrap();
        Self {
            pool: rebuilt.pool.clone(),
            store,
            job: self.job,
            head: tail.head,
            epoch: tail.head_epoch,
            run: tail.head_run,
            number: 100,
            _database: TestDatabase::create_empty().await.unwrap(),
        }
    }

    async fn submit() -> Self {
        let database = TestDatabase::create().await.unwrap();
        let store = Store::connect(database.url(), StoreOptions::default()).await.unwrap();
        let (pool, by) = (database.connect(2).await.unwrap(), Principal::asserted("somebody"));
        let agent = "charge".parse().unwrap();
        let declaration = NewDeclaration { agent, document: DOCUMENT.to_vec(), digest: Digest::of(DOCUMENT) };
        store.apply_agents(&tenant(), &[declaration], None, &by, false).await.unwrap();
        let new = new_job(by);
        store.submit_jobs(std::slice::from_ref(&new)).await.unwrap();
        let last = new.records.last().unwrap();
        let head = Head { seq: last.seq, hash: last.hash };
        Self { pool, store, job: new.job, head, epoch: Epoch(0), run: Run(0), number: 0, _database: database }
    }

    async fn claim(&mut self, worker: &str) {
        let worker = name(worker);
        let secret_hash = Digest::of(b"a secret");
        let new = NewTerm {
            worker: worker.clone(),
            secret_hash,
            labels: Vec::new(),
            agents: Vec::new(),
            tenants: Tenants::one(tenant()),
            slots: 1,
            ttl: Duration::from_secs(30),
            fencing: Fencing::Guardian,
            version: "0.1.0".to_owned(),
        };
        let term = self.store.register_worker(&new).await.unwrap().term;
        let attach =
            self.store.attach_worker(&worker, term, secret_hash, &new.tenants).await.unwrap().unwrap().attach;
        let request = ClaimRequest {
            worker,
            term,
            attach,
            generation: Generation(1),
            tenants: Tenants::one(tenant()),
            agents: Vec::new(),
            labels: Vec::new(),
            limit: 1,
            floors: Floors::default(),
            at: now(),
            secret_hashes: vec![secret_hash],
        };
        let claimed = self.store.claim_jobs(&request).await.unwrap().claimed.remove(0);
        (self.head, self.epoch, self.run, self.number) = (claimed.head, claimed.epoch, claimed.run, 0);
    }

    async fn say(&mut self, drafts: Vec<Draft>) {
        self.append(self.epoch, drafts, Changes::default(), true).await;
    }

    async fn interrupt(&mut self) {
        let (interruption, previous) = (Interruption::WorkerLost, self.run);
        let restart = Restart { attempt: 2, pays: Pays::Loss, not_before: None };
        let by = Principal::asserted("the sweep");
        let gone = RecordKind::ChildGone { of_epoch: self.epoch, proof: GoneProof::TermLapsed, by };
        let interrupted = RecordKind::RunInterrupted {
            of_epoch: self.epoch,
            interruption: interruption.clone(),
            restart: Some(restart),
        };
        let job = JobChange { state: Some(State::Ready), losses: Some(1), ..JobChange::default() };
        let cause = Cause::Recovered { previous, interruption, attempt: 2 };
        let ready = ReadyChange::Insert { cause, not_before: None };
        let changes = Changes { job: Some(job), lease: LeaseChange::Delete, ready, ..Changes::default() };
        let drafts = vec![Draft::bare(gone), Draft::bare(interrupted)];
        self.append(self.epoch.next(), drafts, changes, false).await;
    }

    async fn conclude(&mut self) {
        let concluded = Draft::with_value(salted("the result"), |result| RecordKind::JobConcluded {
            outcome: State::Succeeded,
            reason: None,
            result: Some(result),
            output_chunks: Some(0),
        });
        let job = JobChange { state: Some(State::Succeeded), concluded: true, ..JobChange::default() };
        let changes = Changes { job: Some(job), lease: LeaseChange::Delete, ..Changes::default() };
        self.append(self.epoch, vec![concluded], changes, true).await;
    }

    fn seal(&self, epoch: Epoch, drafts: Vec<Draft>) -> Vec<SealedRecord> {
        let (job, generation, run) = (self.job, Generation(1), self.run);
        let header = Header { tenant: tenant(), job, generation, epoch, run };
        seal_records(&header, self.head, now(), drafts).unwrap()
    }

    async fn append(&mut self, epoch: Epoch, drafts: Vec<Draft>, changes: Changes, by_worker: bool) {
        let records = self.seal(epoch, drafts);
        self.number += 1;
        let append = Append {
            tenant: tenant(),
            job: self.job,
            generation: Generation(1),
            guard: Guard::Lease(self.epoch),
            head: self.head,
            n: by_worker.then_some(self.number),
            request: by_worker.then(|| Digest::of(&records[0].bytes)),
            changes,
            gift: None,
            records,
        };
        let told = self.store.append_records(std::slice::from_ref(&append)).await.unwrap();
        assert!(matches!(told[..], [AppendOutcome::Applied { .. }]), "{told:?}");
        let last = append.records.last().unwrap();
        self.head = Head { seq: last.seq, hash: last.hash };
    }

    /// Writes a record past everything that would stop it.
    async fn force(&mut self, draft: Draft) {
        let record = self.seal(self.epoch, vec![draft]).remove(0);
        let (value, salt) = record.value.map(|value| (value.value, value.salt.to_vec())).unzip();
        sqlx::query(
            "INSERT INTO journal (tenant, job, seq, generation, epoch, run, kind, at, bytes, hash, value, salt)
             VALUES ('default', $1, $2, 1, $3, $4, $5, now(), $6, $7, $8, $9)",
        )
        .bind(self.job.0)
        .bind(i64::try_from(record.seq.0).unwrap())
        .bind(i64::try_from(record.epoch.0).unwrap())
        .bind(i32::try_from(record.run.0).unwrap())
        .bind(record.kind)
        .bind(record.bytes)
        .bind(record.hash.0.to_vec())
        .bind(value)
        .bind(salt)
        .execute(&self.pool)
        .await
        .unwrap();
    }
}

fn new_job(by: Principal) -> NewJob {
    let (job, session) = (JobId(Uuid::now_v7()), SessionId(Uuid::now_v7()));
    let recovery = RecoveryPolicy {
        policy: Policy::Automatic,
        max_attempts: 2,
        max_losses: 10,
        backoff_first_ms: 1_000,
        backoff_max_ms: 300_000,
        final_exit_codes: Vec::new(),
        unwind_on_failure: false,
    };
    let submitted_by = by.actor.clone();
    let admitted = Draft::with_value(salted("the input"), |input| RecordKind::JobAdmitted {
        session,
        agent: "charge".parse().unwrap(),
        declaration: Digest::of(DOCUMENT),
        bundle: None,
        input,
        by,
        key: None,
        labels: BTreeMap::new(),
        deadline: DeadlineSetting::CeilingS(3_600),
        priority: 1,
        not_before: None,
        traceparent: None,
        sender: None,
        layover: None,
    });
    let frozen = RecordKind::PlanFrozen { recovery: recovery.clone(), hops: 8, rungs: Vec::new() };
    let header = Header { tenant: tenant(), job, generation: Generation(1), epoch: Epoch(0), run: Run(0) };
    let drafts = vec![admitted, Draft::bare(frozen)];
    NewJob {
        tenant: tenant(),
        job,
        session,
        submitted_by,
        generation: Generation(1),
        agent: "charge".parse().unwrap(),
        declaration: Digest::of(DOCUMENT),
        bundle: None,
        recovery,
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
        records: seal_records(&header, Head::genesis(), now(), drafts).unwrap(),
        claim: None,
    }
}

fn tenant() -> Tenant {
    Tenant::default_tenant()
}

fn name(worker: &str) -> WorkerName {
    worker.parse().unwrap()
}

fn key(text: &str) -> EffectKey {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap()
}

fn salted(text: &str) -> SaltedValue {
    SaltedValue { value: text.as_bytes().to_vec(), salt: *Uuid::now_v7().as_bytes() }
}

fn started(effect: &str, attempt: u32, recovery: EffectRecovery, mutates: bool) -> Draft {
    let announced = Draft::with_value(salted("[\"the command\"]"), |request| RecordKind::EffectStarted {
        key: key(effect),
        attempt,
        recovery,
        mutates,
        tool: effect.to_owned(),
        compensation: Compensation::Unnecessary,
        request,
    });
    Draft { request: Some(Digest::of(effect.as_bytes())), ..announced }
}

fn done(effect: &str, attempt: u32) -> Draft {
    let output = salted("42");
    Draft::with_value(output, |output| RecordKind::EffectDone {
        key: key(effect),
        attempt,
        output,
        truncated: false,
    })
}

fn reconciled(effect: &str, attempt: u32) -> Draft {
    let by = Principal::asserted("the probe");
    let (key, verdict) = (key(effect), Disposition::DidNotHappen);
    Draft::bare(RecordKind::EffectReconciled { key, attempt, verdict, by, value: None })
}

/// The kinds and epochs of the one journal in a database.
pub(crate) async fn kinds_and_epochs(pool: &PgPool) -> Vec<(String, i64)> {
    sqlx::query_as("SELECT kind, epoch FROM journal ORDER BY seq").fetch_all(pool).await.unwrap()
}

/// A record as it is stored; what follows from its predecessors, its hash, is left out.
#[derive(Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct RawRecord {
    pub(crate) kind: String,
    bytes: Vec<u8>,
    n: Option<i64>,
    request: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    salt: Option<Vec<u8>>,
}

pub(crate) async fn raw_records(pool: &PgPool) -> Vec<RawRecord> {
    sqlx::query_as("SELECT kind, bytes, n, request, value, salt FROM journal ORDER BY seq")
        .fetch_all(pool)
        .await
        .unwrap()
}
