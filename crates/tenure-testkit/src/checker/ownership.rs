//! No record is accepted under an epoch at or below one that was superseded: positions have no gaps, epochs never fall along
//! a chain, every claim takes a higher epoch than everything before it, and a live lease has the epoch of the last claim.

use anyhow::{Context as _, Result};
use sqlx::PgPool;
use uuid::Uuid;

use super::{Concern, Finding};

const RECORDS: &str = "
    SELECT job, seq, epoch, kind,
           lag(seq) OVER chain AS seq_before, lag(epoch) OVER chain AS epoch_before
    FROM journal
    WINDOW chain AS (PARTITION BY tenant, job ORDER BY seq)
    ORDER BY tenant, job, seq";

const LEASES: &str = "
    SELECT l.job, l.epoch, coalesce(max(r.epoch), 0)
    FROM leases AS l
    LEFT JOIN journal AS r ON r.tenant = l.tenant AND r.job = l.job AND r.kind = 'run_started'
    WHERE l.released_at IS NULL
    GROUP BY l.tenant, l.job, l.epoch
    HAVING l.epoch IS DISTINCT FROM max(r.epoch)";

#[derive(sqlx::FromRow)]
struct Row {
    job: Uuid,
    seq: i64,
    epoch: i64,
    kind: String,
    seq_before: Option<i64>,
    epoch_before: Option<i64>,
}

/// Looks at every chain and every live lease.
///
/// # Errors
/// The database cannot be read.
pub async fn check_ownership(database: &PgPool) -> Result<Vec<Finding>> {
    let rows: Vec<Row> = sqlx::query_as(RECORDS).fetch_all(database).await.context("reading the journals")?;
    let mut findings: Vec<Finding> = rows.iter().filter_map(judge).collect();
    let leases: Vec<(Uuid, i64, i64)> =
        sqlx::query_as(LEASES).fetch_all(database).await.context("reading the leases")?;
    findings.extend(leases.into_iter().map(|(job, lease, claim)| {
        let words = format!("its live lease has epoch {lease}, and its last claim {claim}");
        Finding::new(Concern::Ownership, job, words)
    }));
    Ok(findings)
}

fn judge(row: &Row) -> Option<Finding> {
    let Row { seq, epoch, .. } = row;
    let (seq_before, epoch_before) = (row.seq_before.unwrap_or(0), row.epoch_before.unwrap_or(0));
    let words = if *seq != seq_before + 1 {
        format!("seq {seq} follows seq {seq_before}")
    } else if *epoch < epoch_before {
        format!("seq {seq} has epoch {epoch}, which {epoch_before} had superseded")
    } else if row.kind == "run_started" && *epoch == epoch_before {
        format!("seq {seq} claims under epoch {epoch}, which was taken")
    } else {
        return None;
    };
    Some(Finding::new(Concern::Ownership, row.job, words))
}
