//! Which statements took the database's time, for whoever wants to know where it goes.

use anyhow::Result;

use crate::fleet::Fleet;

/// Statements that are shown.
const SHOWN: i32 = 12;
/// The beginning of a statement that is shown, in characters: its header says what it does.
const SHOWN_CHARACTERS: i32 = 90;

const SLOWEST: &str = "SELECT
    s.calls, s.rows, s.total_plan_time, s.total_exec_time, s.wal_bytes::double precision,
    s.wal_fpi,
    left(regexp_replace(s.query, '[[:space:]]+', ' ', 'g'), $2)
FROM pg_stat_statements AS s
JOIN pg_database AS d ON d.oid = s.dbid
WHERE d.datname = 'tenure'
ORDER BY s.total_plan_time + s.total_exec_time DESC
LIMIT $1";

/// Prints those that took most, of everything since the server was started.
pub(crate) async fn print_statements(fleet: &Fleet) -> Result<()> {
    let mut connection = fleet.connect_database("postgres").await?;
    let rows = sqlx::query_as::<_, (i64, i64, f64, f64, f64, i64, String)>(SLOWEST)
        .bind(SHOWN)
        .bind(SHOWN_CHARACTERS)
        .fetch_all(&mut connection)
        .await?;
    println!("   calls      rows   plan ms   exec ms    log KiB  full pages  statement");
    for (calls, rows, plan_ms, exec_ms, wal_bytes, full_pages, query) in rows {
        let wal_kib = wal_bytes / 1024.0;
        println!("{calls:8} {rows:9} {plan_ms:9.0} {exec_ms:9.0} {wal_kib:10.0} {full_pages:11}  {query}");
    }
    Ok(())
}
