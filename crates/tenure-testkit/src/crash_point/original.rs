//! The job whose crash points are taken, with everything that rebuilding it needs: its records with what lies beside them, and
//! what its admission took from its declaration. Reads through the store alone. Neighbours: `replay` writes it, `databases` has
//! the databases to write it into.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use tenure_core::{
    declaration::Declaration,
    effect::EffectKey,
    handler::handler_label,
    id::{Digest, JobId, Seq, Tenant},
    plan::JobFacts,
    record::{Record, RecordKind, SaltedValue},
};
use tenure_store::{
    BlobPlace, EffectFilter, JobRow, LiveBlob, NewBundle, NewDeclaration, Store, StoredBlob, StoredRecord,
};

use super::{databases::Databases, gift::OriginalGift};

/// Rows a page.
const PAGE: u32 = 500;

/// A job that ran.
pub(super) struct Original {
    pub(super) job: JobRow,
    pub(super) facts: JobFacts,
    pub(super) declaration: NewDeclaration,
    pub(super) bundle: Option<NewBundle>,
    /// Labels that its worker must have.
    pub(super) requires: Vec<String>,
    pub(super) records: Vec<OriginalRecord>,
    /// What it gave to agents.
    pub(super) gifts: Vec<OriginalGift>,
    /// Databases for its points, of those that were rebuilt and are not needed any more. They end with it.
    pub(super) databases: Databases,
}

/// One of its records.
pub(super) struct OriginalRecord {
    pub(super) record: Record,
    pub(super) value: Option<SaltedValue>,
    /// Of an announcement: the digest of what is performed.
    pub(super) request: Option<Digest>,
    /// Of a worker's append: its number, and the digest of what was sent.
    pub(super) sent: Option<(u64, Digest)>,
    /// Where its value is, where no row takes it.
    pub(super) blob: Option<(BlobPlace, StoredBlob)>,
}

/// The digests of what effects are performed with, by key and attempt.
type Requests = BTreeMap<(EffectKey, u32), Digest>;

impl Original {
    pub(super) async fn read(store: &Store, tenant: &Tenant, job: JobId) -> Result<Self> {
        let row = store.read_job(tenant, job).await?.context("there is no such job")?;
        let wanted = [(tenant.clone(), job)];
        let facts = store.read_facts(&wanted).await?.pop().flatten().context("it has no facts")??;
        let documents = store.read_declarations(&[(tenant.clone(), row.declaration)]).await?;
        let document = documents.into_iter().next().flatten().context("its declaration is gone")?;
        let read = Declaration::parse(&document)?;
        let mut requires = read.requires();
        requires.extend(read.handler().map(|version| handler_label(&row.agent, &version)));
        let present = store.read_agent(tenant, &row.agent).await?;
        let bundle = present
            .and_then(|agent| Some(NewBundle { digest: agent.bundle?, document: agent.bundle_document? }));
        let declaration = NewDeclaration { agent: row.agent.clone(), digest: row.declaration, document };
        let records = read_records(store, tenant, job).await?;
        let mut gifts = Vec::new();
        for given in store.list_gifts(tenant, job).await? {
            gifts.push(OriginalGift::read(store, tenant, given).await?);
        }
        ensure!(records.len() > 1, "its journal has {} records", records.len());
        let databases = Databases::default();
        Ok(Self { job: row, facts, declaration, bundle, requires, records, gifts, databases })
    }
}

async fn read_records(store: &Store, tenant: &Tenant, job: JobId) -> Result<Vec<OriginalRecord>> {
    let requests = read_requests(store, tenant, job).await?;
    let sent = read_sent(store, tenant, job).await?;
    let (mut records, mut next) = (Vec::new(), Some(Seq(1)));
    while let Some(from) = next {
        let page = store.read_records(tenant, job, from, &[], PAGE).await?;
        for stored in page.records {
            let mut one = OriginalRecord::read(stored, &requests, &sent)?;
            one.blob = find_blob(store, tenant, &one.record.kind).await?;
            records.push(one);
        }
        next = page.next;
    }
    Ok(records)
}

async fn read_requests(store: &Store, tenant: &Tenant, job: JobId) -> Result<Requests> {
    let (mut requests, mut next) = (Requests::new(), Some(Seq(0)));
    while let Some(after) = next {
        let page = store.list_effects(tenant, job, EffectFilter::All, after, PAGE).await?;
        requests.extend(page.effects.into_iter().map(|row| ((row.key, row.last.attempt), row.last.request)));
        next = page.next;
    }
    Ok(requests)
}

async fn read_sent(store: &Store, tenant: &Tenant, job: JobId) -> Result<BTreeMap<Seq, (u64, Digest)>> {
    let (mut sent, mut from) = (BTreeMap::new(), Seq(1));
    loop {
        let tail = store.read_tail(tenant, job, from).await?.context("its journal is gone")?;
        sent.extend(tail.rows.iter().filter_map(|row| Some((row.seq, (row.n?, row.request?)))));
        match tail.rows.last().filter(|_| tail.more) {
            Some(last) => from = last.seq.next(),
            None => return Ok(sent),
        }
    }
}

/// The blob that a record names; none: it names none, or it is gone.
async fn find_blob(
    store: &Store,
    tenant: &Tenant,
    kind: &RecordKind,
) -> Result<Option<(BlobPlace, StoredBlob)>> {
    let named = match kind {
        RecordKind::JobAdmitted { input, .. } => Some(*input),
        RecordKind::JobConcluded { result, .. } => *result,
        _ => None,
    };
    let Some(reference) = named.filter(|named| named.is_blob()) else { return Ok(None) };
    let Some(found) = store.find_blob(tenant, reference.sha256).await? else { return Ok(None) };
    let place = BlobPlace { tenant: tenant.clone(), blob: found.blob };
    let stored = |live: LiveBlob| StoredBlob { reference, salt: live.salt, content: live.content };
    Ok(found.live.map(|live| (place, stored(live))))
}

impl OriginalRecord {
    fn read(stored: StoredRecord, requests: &Requests, sent: &BTreeMap<Seq, (u64, Digest)>) -> Result<Self> {
        let seq = stored.seq;
        let record = stored.parse().with_context(|| format!("reading record {seq}"))?;
        let value = match (stored.value, stored.salt) {
            (Some(value), Some(salt)) => {
                let salt = salt.try_into().ok().with_context(|| format!("the salt of record {seq}"))?;
                Some(SaltedValue { value, salt })
            }
            (None | Some(_), None) | (None, Some(_)) => None,
        };
        let announced = match &record.kind {
            RecordKind::EffectStarted { key, attempt, .. } => requests.get(&(key.clone(), *attempt)).copied(),
            _ => None,
        };
        Ok(Self { record, value, request: announced, sent: sent.get(&seq).copied(), blob: None })
    }
}
