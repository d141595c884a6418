//! A job has one final state and never leaves it: a record that seals it is the last of its journal, and its row says the
//! same.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;
use sqlx::PgPool;
use tenure_core::job::State;
use uuid::Uuid;

use super::{Concern, Finding};

const CONCLUSIONS: &str = "
    SELECT r.job, r.seq, r.bytes, max(a.seq) AS last
    FROM journal AS r
    JOIN journal AS a ON a.tenant = r.tenant AND a.job = r.job
    WHERE r.kind = 'job_concluded'
    GROUP BY r.tenant, r.job, r.seq, r.bytes
    ORDER BY r.tenant, r.job, r.seq";

/// Looks at every conclusion and at every row in a final state.
///
/// # Errors
/// The database cannot be read, or a stored state is none.
pub async fn check_conclusions(database: &PgPool) -> Result<Vec<Finding>> {
    let conclusions: Vec<(Uuid, i64, Vec<u8>, i64)> =
        sqlx::query_as(CONCLUSIONS).fetch_all(database).await.context("reading the conclusions")?;
    let jobs: Vec<(Uuid, String)> = sqlx::query_as("SELECT job, state FROM jobs")
        .fetch_all(database)
        .await
        .context("reading the jobs")?;
    let mut findings = Vec::new();
    let mut sealed: BTreeMap<Uuid, State> = BTreeMap::new();
    for (job, seq, bytes, last) in conclusions {
        let record: Value = serde_json::from_slice(&bytes).context("reading a conclusion")?;
        let outcome = State::parse(record["outcome"].as_str().unwrap_or_default())?;
        if !outcome.is_sealed() {
            continue;
        }
        if seq < last {
            let words = format!("it was {outcome} at seq {seq}, and its journal goes on to {last}");
            findings.push(Finding::new(Concern::Conclusion, job, words));
        }
        sealed.insert(job, outcome);
    }
    for (job, state) in jobs {
        let state = State::parse(&state)?;
        let words = match sealed.get(&job) {
            Some(outcome) if *outcome != state => format!("its journal says {outcome}, and its row {state}"),
            None if state.is_sealed() => format!("its row says {state}, and its journal does not"),
            Some(_) | None => continue,
        };
        findings.push(Finding::new(Concern::Conclusion, job, words));
    }
    Ok(findings)
}
