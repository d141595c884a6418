//! Partitions by month of the job id's time. They are made ahead, by `migrate` and by a background task; there is no
//! default partition, because it forbids detaching without a lock. A partition is made as a table of its own and then
//! attached, which lets writers go on: `CREATE TABLE … PARTITION OF` would lock them out.

mod month;

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::{AssertSqlSafe, PgConnection, query_file};
use tenure_core::limits::{PARTITIONS_AHEAD_MONTHS, PARTITIONS_MAX};

use crate::{Store, StoreError, connection::begin};
use month::Month;

/// The tables that are partitioned by the job's id.
const PARTITIONED: [&str; 5] = ["jobs", "journal", "effects", "output", "testimony"];

/// The key of the advisory lock under which partitions are made: "tenure p" in ASCII.
const MAKING_LOCK: i64 = 0x7465_6e75_7265_2070;

/// What `ensure_partitions` found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionReport {
    /// Months (as `2026_11`) that were made.
    pub made: Vec<String>,
    /// Live months after it.
    pub live: u32,
    /// True where there are more than `limits::PARTITIONS_MAX`: every statement pays for each of them.
    pub too_many: bool,
}

impl Store {
    /// Makes the partitions for the month of `now` (and of the day before it) and the ones ahead, and those of months that
    /// have jobs and were made before a table was there. Harmless to repeat and to race.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn ensure_partitions(&self, now: Timestamp) -> Result<PartitionReport, StoreError> {
        let attempted = "making partitions";
        let mut connection = self.take(attempted).await?;
        let mut transaction = begin(&mut connection, attempted).await?;
        let report = make_missing(&mut transaction, now).await.map_err(StoreError::while_doing(attempted))?;
        transaction.commit().await.map_err(StoreError::while_doing(attempted))?;
        Ok(report)
    }
}

async fn make_missing(connection: &mut PgConnection, now: Timestamp) -> sqlx::Result<PartitionReport> {
    let mut present = list_partitions(connection).await?;
    let ahead = Month::around(now, PARTITIONS_AHEAD_MONTHS);
    let mut made = Vec::new();
    if wanted_months(&present, &ahead).iter().any(|month| is_missing(&present, *month)) {
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(MAKING_LOCK).execute(&mut *connection).await?;
        // Whoever held the lock before may have made them.
        present = list_partitions(connection).await?;
        for month in wanted_months(&present, &ahead) {
            if is_missing(&present, month) {
                make_month(connection, &present, month).await?;
                made.push(month.to_string());
            }
        }
        present = list_partitions(connection).await?;
    }
    let live = present.iter().filter(|name| name.starts_with("jobs_")).count();
    Ok(PartitionReport {
        made,
        live: u32::try_from(live).unwrap_or(u32::MAX),
        too_many: live > PARTITIONS_MAX as usize,
    })
}

async fn list_partitions(connection: &mut PgConnection) -> sqlx::Result<BTreeSet<String>> {
    let parents = PARTITIONED.map(str::to_owned);
    let rows =
        query_file!("queries/partitions/list_partitions.sql", &parents[..]).fetch_all(connection).await?;
    Ok(rows.into_iter().map(|row| row.partition).collect())
}

/// The months ahead, and those whose jobs are there.
fn wanted_months(present: &BTreeSet<String>, ahead: &[Month]) -> BTreeSet<Month> {
    let of_jobs = present.iter().filter_map(|name| Month::parse(name.strip_prefix("jobs_")?));
    of_jobs.chain(ahead.iter().copied()).collect()
}

fn is_missing(present: &BTreeSet<String>, month: Month) -> bool {
    PARTITIONED.iter().any(|table| !present.contains(&format!("{table}_{month}")))
}

async fn make_month(
    connection: &mut PgConnection,
    present: &BTreeSet<String>,
    month: Month,
) -> sqlx::Result<()> {
    for table in PARTITIONED {
        if present.contains(&format!("{table}_{month}")) {
            continue;
        }
        for sql in partition_statements(table, month) {
            // Made of fixed words and digits: names and bounds cannot be parameters.
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *connection).await?;
        }
    }
    Ok(())
}

fn partition_statements(table: &str, month: Month) -> Vec<String> {
    let partition = format!("{table}_{month}");
    let (from, to) = (month.first_id(), month.next().first_id());
    let fillfactor = fillfactor_of(table);
    vec![
        format!("CREATE TABLE {partition} (LIKE {table} INCLUDING ALL) WITH (fillfactor = {fillfactor})"),
        // With this constraint attaching needs no scan; it is not needed afterwards.
        format!("ALTER TABLE {partition} ADD CONSTRAINT in_month CHECK (job >= '{from}' AND job < '{to}')"),
        format!("ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES FROM ('{from}') TO ('{to}')"),
        format!("ALTER TABLE {partition} DROP CONSTRAINT in_month"),
    ]
}

/// How full new rows make a page, in percent.
fn fillfactor_of(table: &str) -> u32 {
    match table {
        // A row is written again by each claim and end. Room for one more version of each row of a page keeps these
        // updates HOT (at 80 a third of them were), and takes no more space than the versions that went elsewhere.
        "jobs" | "effects" => 50,
        // A record goes to the end. Without this a short one goes into what long ones left free in thousands of older pages,
        // and each page that is touched for the first time after a checkpoint is written whole: half the log of a job.
        "journal" => 90,
        _ => 100,
    }
}
