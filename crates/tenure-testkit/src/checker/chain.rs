//! Every chain verifies, as the client verifies it, and the columns beside its bytes say what the bytes say.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;
use sqlx::PgPool;
use tenure_core::{
    chain::Head,
    id::{Digest, JobId, Seq},
    verify::{StoredRecord, verify_chain},
};
use uuid::Uuid;

use super::{Concern, Finding};

const RECORDS: &str = "
    SELECT tenant, job, seq, epoch, run, kind, bytes, hash, value, salt FROM journal ORDER BY tenant, job, seq";

const JOBS: &str = "SELECT tenant, job, concluded_seq, concluded_hash FROM jobs";

#[derive(sqlx::FromRow)]
struct Row {
    tenant: String,
    job: Uuid,
    seq: i64,
    epoch: i64,
    run: i32,
    kind: String,
    bytes: Vec<u8>,
    hash: Vec<u8>,
    value: Option<Vec<u8>>,
    salt: Option<Vec<u8>>,
}

#[derive(sqlx::FromRow)]
struct JobRow {
    tenant: String,
    job: Uuid,
    concluded_seq: Option<i64>,
    concluded_hash: Option<Vec<u8>>,
}

/// Verifies the chain of every job.
///
/// # Errors
/// The database cannot be read.
pub async fn check_chains(database: &PgPool) -> Result<Vec<Finding>> {
    // Jobs first: a record that comes between the two is at the end of its chain, and a head is never missed.
    let jobs: Vec<JobRow> = sqlx::query_as(JOBS).fetch_all(database).await.context("reading the jobs")?;
    let rows: Vec<Row> = sqlx::query_as(RECORDS).fetch_all(database).await.context("reading the journals")?;
    let mut findings: Vec<Finding> = rows.iter().filter_map(compare_columns).collect();
    let mut chains: BTreeMap<(String, Uuid), Vec<StoredRecord>> = BTreeMap::new();
    for row in rows {
        let (tenant, job, record) = row.into_record()?;
        chains.entry((tenant, job)).or_default().push(record);
    }
    for JobRow { tenant, job, concluded_seq, concluded_hash } in jobs {
        let concluded = match (concluded_seq, concluded_hash) {
            (Some(seq), Some(hash)) => Some(Head { seq: read_seq(seq)?, hash: read_hash(&hash)? }),
            _ => None,
        };
        let chain = chains.remove(&(tenant.clone(), job)).unwrap_or_default();
        if let Err(finding) = verify_chain(chain, concluded, &tenant.parse()?, JobId(job)) {
            findings.push(Finding::new(Concern::Chain, job, finding.to_string()));
        }
    }
    let orphans =
        chains.into_keys().map(|(_, job)| Finding::new(Concern::Chain, job, "it has records and no row"));
    findings.extend(orphans);
    Ok(findings)
}

/// What decides by a column must decide by what was hashed.
fn compare_columns(row: &Row) -> Option<Finding> {
    let record: Value = serde_json::from_slice(&row.bytes).ok()?;
    let same =
        record["epoch"] == row.epoch && record["run"] == row.run && record["kind"] == row.kind.as_str();
    let words = || format!("the columns of seq {} say something else than its bytes", row.seq);
    (!same).then(|| Finding::new(Concern::Chain, row.job, words()))
}

impl Row {
    fn into_record(self) -> Result<(String, Uuid, StoredRecord)> {
        let record = StoredRecord {
            seq: read_seq(self.seq)?,
            bytes: self.bytes,
            hash: read_hash(&self.hash)?,
            value: self.value,
            salt: self.salt,
        };
        Ok((self.tenant, self.job, record))
    }
}

fn read_seq(seq: i64) -> Result<Seq> {
    Ok(Seq(u64::try_from(seq).context("a negative seq")?))
}

fn read_hash(hash: &[u8]) -> Result<Digest> {
    Digest::from_slice(hash).context("a hash that has not 32 bytes")
}
