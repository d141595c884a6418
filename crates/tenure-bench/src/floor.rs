//! The floor: what the same server does without Tenure, in a database and a table of its own. Rows a second in statements
//! of 100, committed rows a second one by one from 16 clients, and how long one commit takes when nobody else is there.
//! Nothing is read from Tenure's tables, and nothing is written to them.

use std::time::{Duration, Instant};

use anyhow::Result;
use sqlx::PgConnection;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::fleet::Fleet;

/// A row as plain as one that a queue would keep.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS rows (
    id uuid PRIMARY KEY, kind text NOT NULL, payload bytea NOT NULL, at timestamptz NOT NULL DEFAULT statement_timestamp()
)";
const INSERT_ONE: &str = "INSERT INTO rows (id, kind, payload) VALUES ($1, $2, $3)";
const INSERT_MANY: &str =
    "INSERT INTO rows (id, kind, payload) SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[])";

/// Rows of one statement.
const STATEMENT_ROWS: usize = 100;
/// Clients that write rows in such statements: as many as a coordinator has lanes.
const ROWS_CLIENTS: usize = 4;
/// Clients that commit rows one by one.
const COMMITS_CLIENTS: usize = 16;
/// The size of a row's payload.
const PAYLOAD_BYTES: usize = 200;

/// What a client does over and over.
#[derive(Debug, Clone, Copy)]
enum Write {
    OneRow,
    ManyRows,
}

/// Makes the table.
pub(crate) async fn prepare_floor(fleet: &Fleet) -> Result<()> {
    let mut connection = fleet.connect_database("bare").await?;
    sqlx::query(TABLE).execute(&mut connection).await?;
    Ok(())
}

/// Rows a second, written in statements of 100.
pub(crate) async fn measure_rows_per_s(fleet: &Fleet, time: Duration) -> Result<f64> {
    let statements = count_per_s(fleet, ROWS_CLIENTS, time, Write::ManyRows).await?;
    #[expect(clippy::cast_precision_loss, reason = "a hundred")]
    let rows = STATEMENT_ROWS as f64;
    Ok(statements * rows)
}

/// Commits of one row a second, from 16 clients at once.
pub(crate) async fn measure_commits_per_s(fleet: &Fleet, time: Duration) -> Result<f64> {
    count_per_s(fleet, COMMITS_CLIENTS, time, Write::OneRow).await
}

/// Commits one row at a time, alone.
pub(crate) struct Committer(PgConnection);

impl Committer {
    /// With a connection of its own.
    pub(crate) async fn connect(fleet: &Fleet) -> Result<Self> {
        Ok(Self(fleet.connect_database("bare").await?))
    }

    /// How long one commit takes, in ms.
    pub(crate) async fn commit_ms(&mut self) -> Result<f64> {
        let begun = Instant::now();
        Write::OneRow.carry_out(&mut self.0).await?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    }
}

impl Write {
    async fn carry_out(self, connection: &mut PgConnection) -> Result<()> {
        let payload = &[0x5a_u8; PAYLOAD_BYTES][..];
        match self {
            Self::OneRow => {
                let query = sqlx::query(INSERT_ONE).bind(Uuid::now_v7()).bind("note").bind(payload);
                query.execute(connection).await?;
            }
            Self::ManyRows => {
                let ids: Vec<Uuid> = (0..STATEMENT_ROWS).map(|_| Uuid::now_v7()).collect();
                let (kinds, payloads) = (vec!["note"; STATEMENT_ROWS], vec![payload; STATEMENT_ROWS]);
                sqlx::query(INSERT_MANY).bind(ids).bind(kinds).bind(payloads).execute(connection).await?;
            }
        }
        Ok(())
    }
}

/// How often a second so many clients together write, each on a connection of its own that has done it once.
async fn count_per_s(fleet: &Fleet, clients: usize, time: Duration, write: Write) -> Result<f64> {
    let mut connections = Vec::with_capacity(clients);
    for _ in 0..clients {
        let mut connection = fleet.connect_database("bare").await?;
        write.carry_out(&mut connection).await?;
        connections.push(connection);
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        tasks.spawn(async move {
            let mut times = 0_u32;
            while begun.elapsed() < time {
                write.carry_out(&mut connection).await?;
                times += 1;
            }
            anyhow::Ok(times)
        });
    }
    let mut times = 0;
    for counted in tasks.join_all().await {
        times += counted?;
    }
    Ok(f64::from(times) / begun.elapsed().as_secs_f64())
}
