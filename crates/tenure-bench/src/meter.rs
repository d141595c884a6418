//! Counters, read before and after a piece of work: statements, commits and bytes of log on the database's side, and the
//! processor's time of everybody who took part.
//!
//! Statements are those that `pg_stat_statements` counts in the fleet's database, whoever sent them, begin and commit
//! included. Commits are transactions that wrote: numbers that the server gave to transactions. The processor's time is
//! that of the coordinator, of the server with all its processes, and of this program, which is the worker and the
//! submitter; they are kept apart. Neighbours: `fleet`.

use std::{
    fs,
    ops::{AddAssign, Div, Sub},
};

use anyhow::{Context as _, Result};
use nix::{
    sys::resource::{UsageWho, getrusage},
    sys::time::TimeValLike as _,
    unistd::{SysconfVar, sysconf},
};
use sqlx::PgConnection;

use crate::fleet::Fleet;

/// What the server has counted in the fleet's database.
const COUNTERS: &str = "SELECT
    (
        SELECT coalesce(sum(s.calls), 0)::double precision
        FROM pg_stat_statements AS s
        JOIN pg_database AS d ON d.oid = s.dbid
        WHERE d.datname = 'tenure'
    ),
    pg_snapshot_xmax(pg_current_snapshot())::text::double precision,
    (pg_current_wal_insert_lsn() - '0/0')::double precision";

/// Processor's time in ms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CpuMs {
    /// Of the coordinator.
    pub(crate) coordinator: f64,
    /// Of the server with all its processes.
    pub(crate) postgres: f64,
    /// Of this program.
    pub(crate) bench: f64,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counters {
    /// Statements.
    pub(crate) statements: f64,
    /// Transactions that wrote.
    pub(crate) commits: f64,
    /// Bytes of the write-ahead log.
    pub(crate) wal_bytes: f64,
    /// Processor's time.
    pub(crate) cpu_ms: CpuMs,
}

/// Reads the counters of a fleet.
pub(crate) struct Meter<'f> {
    fleet: &'f Fleet,
    connection: PgConnection,
}

impl<'f> Meter<'f> {
    /// A meter with a connection of its own.
    pub(crate) async fn start(fleet: &'f Fleet) -> Result<Self> {
        Ok(Self { fleet, connection: fleet.connect_database("postgres").await? })
    }

    /// Writes a checkpoint, so that none falls into what is measured next.
    pub(crate) async fn write_checkpoint(&mut self) -> Result<()> {
        sqlx::query("CHECKPOINT").execute(&mut self.connection).await?;
        Ok(())
    }

    /// The counters as they stand.
    pub(crate) async fn read(&mut self) -> Result<Counters> {
        let (statements, commits, wal_bytes) =
            sqlx::query_as::<_, (f64, f64, f64)>(COUNTERS).fetch_one(&mut self.connection).await?;
        Ok(Counters { statements, commits, wal_bytes, cpu_ms: read_cpu_ms(self.fleet)? })
    }
}

fn read_cpu_ms(fleet: &Fleet) -> Result<CpuMs> {
    let tick_ms = 1e3 / tick_hz()?;
    let (coordinator, postmaster) = (fleet.coordinator_pid()?, fleet.postmaster_pid()?);
    let mut postgres = 0;
    for process in fs::read_dir("/proc")?.flatten() {
        // A process that ended meanwhile is counted by its parent from then on.
        let Ok(stat) = fs::read_to_string(process.path().join("stat")) else { continue };
        let Some(times) = Times::parse(&stat) else { continue };
        if times.parent == postmaster {
            postgres += times.own_ticks;
        } else if times.pid == postmaster {
            postgres += times.own_ticks + times.ended_children_ticks;
        }
    }
    let stat = fs::read_to_string(format!("/proc/{coordinator}/stat"))?;
    let own = Times::parse(&stat).context("reading the coordinator's times")?;
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let bench_us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    #[expect(clippy::cast_precision_loss, reason = "ticks and microseconds of minutes")]
    Ok(CpuMs {
        coordinator: own.own_ticks as f64 * tick_ms,
        postgres: postgres as f64 * tick_ms,
        bench: bench_us as f64 / 1e3,
    })
}

fn tick_hz() -> Result<f64> {
    let hz = sysconf(SysconfVar::CLK_TCK)?.context("the system does not tell its clock's ticks")?;
    #[expect(clippy::cast_precision_loss, reason = "a hundred")]
    Ok(hz as f64)
}

/// What `/proc/PID/stat` says of a process's time.
#[derive(Debug, PartialEq)]
struct Times {
    pid: u32,
    parent: u32,
    own_ticks: u64,
    ended_children_ticks: u64,
}

impl Times {
    /// The program's name may contain anything, so fields are counted from its closing bracket.
    fn parse(stat: &str) -> Option<Self> {
        let (before, after) = stat.rsplit_once(')')?;
        let pid = before.split_once(' ')?.0.parse().ok()?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            own_ticks: ticks(11)? + ticks(12)?,
            ended_children_ticks: ticks(13)? + ticks(14)?,
        })
    }
}

impl CpuMs {
    /// All together.
    pub(crate) fn total(self) -> f64 {
        self.coordinator + self.postgres + self.bench
    }
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            statements: self.statements - earlier.statements,
            commits: self.commits - earlier.commits,
            wal_bytes: self.wal_bytes - earlier.wal_bytes,
            cpu_ms: CpuMs {
                coordinator: self.cpu_ms.coordinator - earlier.cpu_ms.coordinator,
                postgres: self.cpu_ms.postgres - earlier.cpu_ms.postgres,
                bench: self.cpu_ms.bench - earlier.cpu_ms.bench,
            },
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        self.statements += more.statements;
        self.commits += more.commits;
        self.wal_bytes += more.wal_bytes;
        self.cpu_ms.coordinator += more.cpu_ms.coordinator;
        self.cpu_ms.postgres += more.cpu_ms.postgres;
        self.cpu_ms.bench += more.cpu_ms.bench;
    }
}

impl Div<f64> for Counters {
    type Output = Self;

    fn div(self, items: f64) -> Self {
        Self {
            statements: self.statements / items,
            commits: self.commits / items,
            wal_bytes: self.wal_bytes / items,
            cpu_ms: CpuMs {
                coordinator: self.cpu_ms.coordinator / items,
                postgres: self.cpu_ms.postgres / items,
                bench: self.cpu_ms.bench / items,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_a_name_with_brackets_and_blanks() {
        let stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0";
        let expected = Times { pid: 42, parent: 7, own_ticks: 120, ended_children_ticks: 7 };
        assert_eq!(Times::parse(stat), Some(expected));
    }

    #[test]
    fn a_difference_a_sum_and_a_quotient_take_every_counter() {
        let all = |value| Counters {
            statements: value,
            commits: value,
            wal_bytes: value,
            cpu_ms: CpuMs { coordinator: value, postgres: value, bench: value },
        };
        let mut sum = all(5.0) - all(3.0);
        sum += all(1.0);
        assert_eq!(sum, all(3.0));
        assert_eq!(sum / 3.0, all(1.0));
        assert_eq!(sum.cpu_ms.total(), 9.0);
    }
}
