//! What a job gave to agents, as it is written again with the record that gave it: the new job with its own first records, and the
//! declaration that it is held to. Neighbours: `original` reads it, `replay` writes it.

use anyhow::{Context as _, Result, bail};
use tenure_core::{
    chain::Head,
    declaration::Declaration,
    id::{Digest, Epoch, Generation, JobId, Run, Seq, Tenant},
    limits::{BUDGET_DEFAULT_MICROS, RUN_CAP_DEFAULT},
    record::{Draft, Header, RecordKind, SaltedValue, seal_records},
};
use tenure_store::{Gift, GiftRow, NewDeclaration, NewJob, Store};

/// Records that an admission writes.
const ADMITTING: u32 = 2;

/// Work that a job gave.
pub(super) struct OriginalGift {
    /// The record that gave it.
    pub(super) seq: Seq,
    /// What the new job is held to.
    pub(super) declaration: NewDeclaration,
    gift: Gift,
    drafts: Vec<Draft>,
    at: jiff::Timestamp,
}

impl OriginalGift {
    pub(super) async fn read(store: &Store, tenant: &Tenant, given: GiftRow) -> Result<Self> {
        let row = store.read_job(tenant, given.child).await?.context("a job that was given work is gone")?;
        let documents = store.read_declarations(&[(tenant.clone(), row.declaration)]).await?;
        let document = documents.into_iter().next().flatten().context("its declaration is gone")?;
        let requires = Declaration::parse(&document)?.requires();
        let page = store.read_records(tenant, given.child, Seq(1), &[], ADMITTING).await?;
        let (mut drafts, mut at) = (Vec::new(), None);
        for stored in page.records {
            let record = stored.parse()?;
            at = at.or(Some(record.at));
            let salt = stored.salt.and_then(|salt| salt.try_into().ok());
            let value = stored.value.zip(salt).map(|(value, salt)| SaltedValue { value, salt });
            drafts.push(Draft { kind: record.kind, value, request: None, phase: record.phase });
        }
        let [admitted, frozen] = &drafts[..] else { bail!("its journal has no admission") };
        let RecordKind::JobAdmitted { bundle, by, deadline, traceparent, .. } = &admitted.kind else {
            bail!("its first record is no admission");
        };
        let RecordKind::PlanFrozen { recovery, hops, .. } = &frozen.kind else {
            bail!("it has no frozen plan")
        };
        let new = NewJob {
            tenant: tenant.clone(),
            job: given.child,
            session: row.session,
            generation: Generation::NONE,
            submitted_by: by.actor.clone(),
            agent: row.agent.clone(),
            declaration: row.declaration,
            bundle: *bundle,
            recovery: recovery.clone(),
            hops: *hops,
            run_cap: RUN_CAP_DEFAULT,
            budget_micros: BUDGET_DEFAULT_MICROS,
            deadline: *deadline,
            priority: row.priority,
            labels: row.labels.clone(),
            requires,
            not_before: None,
            cause: tenure_core::handover::Cause::Dispatch,
            traceparent: traceparent.clone(),
            key: None,
            records: Vec::new(),
            claim: None,
        };
        let declaration = NewDeclaration { agent: row.agent, digest: row.declaration, document };
        let gift = Gift { new, key: given.key, depth: given.depth, delivery: None };
        let at = at.context("its journal has no admission")?;
        Ok(Self { seq: given.seq, declaration, gift, drafts, at })
    }

    /// What it is known by.
    pub(super) const fn key_hash(&self) -> Digest {
        self.gift.key.hash
    }

    /// The job that came of it.
    pub(super) const fn child(&self) -> JobId {
        self.gift.new.job
    }

    /// The same in a database of this generation.
    pub(super) fn compose(&self, generation: Generation) -> Result<Gift> {
        let mut gift = self.gift.clone();
        let header = Header {
            tenant: gift.new.tenant.clone(),
            job: gift.new.job,
            generation,
            epoch: Epoch(0),
            run: Run(0),
        };
        gift.new.records = seal_records(&header, Head::genesis(), self.at, self.drafts.clone())?;
        gift.new.generation = generation;
        Ok(gift)
    }
}
