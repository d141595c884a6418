//! Writes a prefix of a job's journal as the job wrote it: submitted, claimed, appended, one record after the other, each through
//! the method of the store that wrote it the first time. What follows from a record in the derived rows is derived from it and
//! from the one behind it: before a claim the job waits in the queue with that claim's cause, and a verdict gives up the lease.
//! A job that was accepted under another declaration is rebuilt under the one that it is held to at last.
//!
//! Every record is compared with the original's: it says the same but for what belongs to the database, the generation and, of
//! a claim, the term. Neighbours: `original` read it, `rebuilt` is what comes of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use tenure_core::{
    admission::Limit,
    chain::Head,
    credential::Tenants,
    handover::Cause,
    id::{Attach, Digest, Epoch, Generation, Seq, Term, WorkerName},
    job::State,
    limits::{BUDGET_DEFAULT_MICROS, RUN_CAP_DEFAULT},
    plan::{Changes, Fencing, JobChange, LeaseChange, ReadyChange},
    principal::Principal,
    record::{Draft, Header, Record, RecordKind, SealedRecord, seal_records},
    recovery::{Interruption, Pays},
    unwinding::Unwinding,
};
use tenure_store::{
    Append, AppendOutcome, ClaimRequest, Floors, Guard, NewJob, NewTerm, Store, StoreOptions, Submitted,
};

use super::{
    original::{Original, OriginalRecord},
    rebuilt::RebuiltJob,
};

/// Connections that write a prefix: one record is written after the other.
const WRITING_CONNECTIONS: u32 = 1;

/// Connections that look into what was written.
const LOOKING_CONNECTIONS: u32 = 2;

/// Longer than writing a prefix takes: no sweep is there, and nobody renews.
const TERM_TTL: Duration = Duration::from_secs(60);

/// Who applies the declaration.
const BY: &str = "tenure-testkit";

/// Records that an admission writes in one statement.
const ADMITTING: usize = 2;

/// The job as it stands while it is written.
struct Replay<'a> {
    original: &'a Original,
    store: Store,
    generation: Generation,
    head: Head,
    /// The epoch of its live lease.
    lease: Option<Epoch>,
    /// The cause with which it waits in the queue.
    queued: Option<Cause>,
    unwinding: Option<Unwinding>,
    attempts: u32,
    losses: u32,
    hops_left: u32,
    /// The last booking of the present run.
    booking: Option<Seq>,
    terms: BTreeMap<WorkerName, (Term, Attach)>,
}

/// Writes the first `appended` records into a fresh database, and sets down the run that was under way.
pub(super) async fn replay_prefix(original: &Arc<Original>, appended: usize) -> Result<RebuiltJob> {
    let database = original.databases.take().await?;
    let options = StoreOptions { connections_max: WRITING_CONNECTIONS, ..StoreOptions::default() };
    let store = Store::connect(database.url(), options).await?;
    let generation = store.read_installation().await?.generation;
    let mut replay = Replay {
        original,
        store,
        generation,
        head: Head::genesis(),
        lease: None,
        queued: None,
        unwinding: None,
        attempts: 0,
        losses: 0,
        hops_left: 0,
        booking: None,
        terms: BTreeMap::new(),
    };
    replay.write(appended).await?;
    replay.store.close().await;
    let pool = database.connect(LOOKING_CONNECTIONS).await?;
    let (job, epoch) = (&original.job, original.records[appended - 1].record.epoch);
    let (tenant, original) = (job.tenant.clone(), Arc::clone(original));
    Ok(RebuiltJob { tenant, job: job.job, epoch, appended, pool, database: Some(database), original })
}

impl Replay<'_> {
    async fn write(&mut self, appended: usize) -> Result<()> {
        let (original, by) = (self.original, Principal::asserted(BY));
        let mut declarations = vec![original.declaration.clone()];
        for gift in &original.gifts {
            if declarations.iter().all(|known| known.agent != gift.declaration.agent) {
                declarations.push(gift.declaration.clone());
            }
        }
        let tenant = &original.job.tenant;
        self.store.apply_agents(tenant, &declarations, original.bundle.as_ref(), &by, false).await?;
        for one in &original.records[..appended] {
            self.bind_blob(one).await?;
        }
        let admitting = appended.min(ADMITTING);
        self.submit(admitting).await?;
        for place in admitting..appended {
            let one = &original.records[place];
            let next = original.records.get(place + 1).map(|next| &next.record.kind);
            let written = match &one.record.kind {
                RecordKind::RunStarted { worker, .. } => self.claim(&one.record, worker).await,
                _ => self.append(one, next).await,
            };
            written.with_context(|| format!("writing record {}", one.record.seq))?;
        }
        self.set_down(appended).await
    }

    /// Names the value that no row takes; its pieces stay where they are, in a blob store that both databases name.
    async fn bind_blob(&self, one: &OriginalRecord) -> Result<()> {
        let Some((place, stored)) = &one.blob else { return Ok(()) };
        self.store.begin_blob(place).await?;
        let is_bound = self.store.finish_blob(place, stored, Some(self.original.job.job)).await?;
        ensure!(is_bound, "the blob of record {} is not taken", one.record.seq);
        Ok(())
    }

    async fn submit(&mut self, admitting: usize) -> Result<()> {
        let admitted = &self.original.records[..admitting];
        let mut records = Vec::with_capacity(admitting);
        for one in admitted {
            let head = records.last().map_or(self.head, head_of);
            records.push(self.seal(one, head)?);
        }
        self.head = records.last().map_or(self.head, head_of);
        let new = self.compose_job(records)?;
        let outcome = self.store.submit_jobs(&[new]).await?;
        ensure!(matches!(outcome[..], [Submitted::Admitted { .. }]), "submitting it came to {outcome:?}");
        self.queued = Some(Cause::Dispatch);
        Ok(())
    }

    fn compose_job(&mut self, records: Vec<SealedRecord>) -> Result<NewJob> {
        let (job, facts) = (&self.original.job, &self.original.facts);
        let kind = |place: usize| self.original.records.get(place).map(|one| &one.record.kind);
        let Some(RecordKind::JobAdmitted { bundle, deadline, traceparent, by, .. }) = kind(0) else {
            bail!("its first record is no admission");
        };
        if let Some(RecordKind::PlanFrozen { hops, .. }) = kind(1) {
            self.hops_left = *hops;
        }
        Ok(NewJob {
            tenant: job.tenant.clone(),
            job: job.job,
            session: job.session,
            submitted_by: by.actor.clone(),
            generation: self.generation,
            agent: job.agent.clone(),
            declaration: job.declaration,
            bundle: *bundle,
            recovery: facts.recovery.clone(),
            hops: self.hops_left,
            run_cap: RUN_CAP_DEFAULT,
            budget_micros: BUDGET_DEFAULT_MICROS,
            deadline: *deadline,
            priority: job.priority,
            labels: job.labels.clone(),
            requires: self.original.requires.clone(),
            not_before: None,
            cause: Cause::Dispatch,
            traceparent: traceparent.clone(),
            key: None,
            records,
            claim: None,
        })
    }

    async fn claim(&mut self, record: &Record, worker: &WorkerName) -> Result<()> {
        let (term, attach) = self.attach(worker).await?;
        let tenants = Tenants::one(self.original.job.tenant.clone());
        let request = ClaimRequest {
            worker: worker.clone(),
            term,
            attach,
            generation: self.generation,
            tenants,
            agents: Vec::new(),
            labels: self.original.requires.clone(),
            limit: 1,
            floors: Floors::default(),
            at: record.at,
            secret_hashes: vec![Digest::of(&record.epoch.0.to_be_bytes())],
        };
        let outcome = self.store.claim_jobs(&request).await?;
        let [claimed] = &outcome.claimed[..] else { bail!("claiming it came to {outcome:?}") };
        let (was, is) =
            ((record.seq, record.epoch, record.run), (claimed.head.seq, claimed.epoch, claimed.run));
        ensure!(was == is, "the claim took {is:?} (seq, epoch, run), and the original had {was:?}");
        self.head = claimed.head;
        self.lease = Some(claimed.epoch);
        self.booking = None;
        self.queued = None;
        Ok(())
    }

    /// The term of a worker of the original.
    async fn attach(&mut self, worker: &WorkerName) -> Result<(Term, Attach)> {
        if let Some(known) = self.terms.get(worker) {
            return Ok(*known);
        }
        let secret_hash = Digest::of(worker.as_str().as_bytes());
        let new = NewTerm {
            worker: worker.clone(),
            secret_hash,
            labels: self.original.requires.clone(),
            agents: Vec::new(),
            tenants: Tenants::one(self.original.job.tenant.clone()),
            slots: 1,
            ttl: TERM_TTL,
            fencing: Fencing::Guardian,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let term = self.store.register_worker(&new).await?.term;
        let attached = self.store.attach_worker(worker, term, secret_hash, &new.tenants).await?;
        let attached =
            attached.map_err(|refused| anyhow::anyhow!("attaching it was refused: {refused:?}"))?;
        self.terms.insert(worker.clone(), (term, attached.attach));
        Ok((term, attached.attach))
    }

    async fn append(&mut self, one: &OriginalRecord, next: Option<&RecordKind>) -> Result<()> {
        let record = self.seal(one, self.head)?;
        let guard = self.lease.map_or(Guard::NoLease, Guard::Lease);
        let changes = self.derive_changes(&one.record, next);
        let given = self.original.gifts.iter().find(|gift| gift.seq == one.record.seq);
        let gift = given.map(|given| given.compose(self.generation).map(Box::new)).transpose()?;
        let append = Append {
            tenant: self.original.job.tenant.clone(),
            job: self.original.job.job,
            generation: self.generation,
            guard,
            head: self.head,
            n: one.sent.map(|(n, _)| n),
            request: one.sent.map(|(_, request)| request),
            changes,
            gift,
            records: vec![record.clone()],
        };
        let outcome = self.store.append_records(&[append]).await?;
        ensure!(matches!(outcome[..], [AppendOutcome::Applied { .. }]), "appending it came to {outcome:?}");
        self.head = head_of(&record);
        Ok(())
    }

    /// The record at its position, which says what the original says.
    fn seal(&self, one: &OriginalRecord, head: Head) -> Result<SealedRecord> {
        let was = &one.record;
        let header = Header {
            tenant: was.tenant.clone(),
            job: was.job,
            generation: self.generation,
            epoch: was.epoch,
            run: was.run,
        };
        let (value, request, phase) = (one.value.clone(), one.request, was.phase);
        let draft = Draft { kind: was.kind.clone(), value, request, phase };
        let mut sealed = seal_records(&header, head, was.at, vec![draft])?;
        let sealed = sealed.pop().context("nothing was sealed")?;
        let is: Record = serde_json::from_slice(&sealed.bytes)?;
        let same = Record { generation: was.generation, ..is.clone() };
        ensure!(same == *was, "it would be written as {is:?}, and was {was:?}");
        Ok(sealed)
    }

    /// What becomes of the derived rows with this record, given the one that comes after it.
    fn derive_changes(&mut self, record: &Record, next: Option<&RecordKind>) -> Changes {
        let mut changes = Changes::default();
        let mut job = JobChange::default();
        match &record.kind {
            RecordKind::RunInterrupted { restart: Some(restart), .. }
            | RecordKind::RunHandedOver { restart: Some(restart), .. }
            | RecordKind::Steered { restart: Some(restart), .. } => self.count(restart.pays, &mut job),
            kind @ RecordKind::UnwindStarted { .. } => {
                self.unwinding = Unwinding::begun_by(kind);
                (self.attempts, self.losses) = (0, 0);
                (job.attempts, job.losses) = (Some(0), Some(0));
                job.unwinding.clone_from(&self.unwinding);
            }
            // Where a limit or a verdict stands against it, no run follows, and nothing was drawn on.
            RecordKind::Resumed { .. } if starts_run(next) => self.count(Pays::Attempt, &mut job),
            RecordKind::Reopened { .. } if starts_run(next) => self.count(Pays::Nothing, &mut job),
            RecordKind::CancelRequested { .. } => job.cancel_requested_by_draft = Some(0),
            RecordKind::LimitRaised { limit: Limit::Hops, to, .. } => {
                self.hops_left = u32::try_from(*to).unwrap_or(u32::MAX);
                job.hops_left = Some(self.hops_left);
            }
            RecordKind::LayoverBooked { .. } => self.booking = Some(record.seq),
            RecordKind::Suspended { wait } => {
                job.state = Some(State::Suspended);
                changes.wait = Some(wait.clone());
                changes.lease = self.give_up_lease();
            }
            RecordKind::JobConcluded { outcome, reason, .. } => {
                job.state = Some(*outcome);
                job.reason = Some(reason.clone().unwrap_or_default());
                job.concluded = true;
                changes.layover = self.booking.filter(|_| *outcome == State::Succeeded);
                changes.lease = self.give_up_lease();
                if self.queued.take().is_some() {
                    changes.ready = ReadyChange::Delete;
                }
            }
            _ => {}
        }
        if let Some(RecordKind::RunStarted { cause, .. }) = next
            && self.queued.as_ref() != Some(cause)
        {
            job.state = Some(State::Ready);
            job.reason = Some(String::new());
            changes.lease = self.give_up_lease();
            let cause = cause.clone();
            changes.ready = match self.queued.replace(cause.clone()) {
                Some(_) => ReadyChange::Replace { cause },
                None => ReadyChange::Insert { cause, not_before: None },
            };
        }
        changes.job = (job != JobChange::default()).then_some(job);
        changes
    }

    fn give_up_lease(&mut self) -> LeaseChange {
        if self.lease.take().is_some() { LeaseChange::Delete } else { LeaseChange::Keep }
    }

    /// What a restart drew on.
    fn count(&mut self, pays: Pays, job: &mut JobChange) {
        let (attempts, losses, hops) = match pays {
            // Undoing meets no ceiling.
            Pays::Attempt if self.unwinding.is_some() => (1, 0, 0),
            Pays::Attempt => (1, 0, 1),
            Pays::Loss => (0, 1, 0),
            Pays::Hop => (0, 0, 1),
            Pays::Run => (0, 0, 0),
            Pays::Nothing => (1, 0, 0),
        };
        self.attempts += attempts;
        self.losses += losses;
        self.hops_left = self.hops_left.saturating_sub(hops);
        job.attempts = Some(self.attempts);
        job.losses = Some(self.losses);
        job.hops_left = Some(self.hops_left);
    }

    /// Leaves the run that was under way as a crash leaves it.
    async fn set_down(&self, appended: usize) -> Result<()> {
        let Some(epoch) = self.lease else { return Ok(()) };
        let prefix = &self.original.records[..appended];
        let started = prefix.iter().rev().find_map(|one| match &one.record.kind {
            RecordKind::RunStarted { attempt, .. } => Some((one.record.run, *attempt)),
            _ => None,
        });
        let (previous, attempt) = started.context("there is a lease and no claim")?;
        let (interruption, attempt) = (Interruption::WorkerLost, attempt + 1);
        let cause = match &self.unwinding {
            Some(unwinding) => Cause::Unwinding { instead_of: unwinding.state(), attempt },
            None => Cause::Recovered { previous, interruption, attempt },
        };
        let job = &self.original.job;
        let set_down = self.store.set_down_run(&job.tenant, job.job, epoch, &cause).await?;
        ensure!(set_down, "there is no live lease of epoch {epoch} to be given up");
        Ok(())
    }
}

const fn starts_run(next: Option<&RecordKind>) -> bool {
    matches!(next, Some(RecordKind::RunStarted { .. }))
}

fn head_of(record: &SealedRecord) -> Head {
    Head { seq: record.seq, hash: record.hash }
}
