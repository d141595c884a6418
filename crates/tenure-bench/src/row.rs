//! One row of the result: everything on one disk, with the floor taken in turn with it, in rounds. A rate and its floor are
//! divided within a round, and the round in the middle counts: what else happens on the machine, and the moods of the
//! disk, meet both alike. Neighbours: `records`, `jobs`, `idle`, `floor` measure; `report` judges.

use std::{path::Path, time::Duration};

use anyhow::Result;

use crate::{
    fleet::Fleet,
    floor::{measure_commits_per_s, measure_rows_per_s, prepare_floor},
    fsync::measure_fsync_us,
    idle::measure_starts,
    jobs::measure_jobs,
    meter::{Counters, Meter},
    records::measure_records,
    statements::print_statements,
    statistics::{median, percentile},
};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    rounds: u32,
    records: u64,
    jobs: u64,
    starts: u64,
    floor: Duration,
}

impl Size {
    /// What counts.
    pub(crate) const FULL: Self =
        Self { rounds: 3, records: 100_000, jobs: 12_000, starts: 100, floor: Duration::from_millis(1_500) };
    /// Enough to see that it works.
    pub(crate) const SHORT: Self =
        Self { rounds: 1, records: 4_000, jobs: 500, starts: 20, floor: Duration::from_millis(200) };
}

/// A piece of work that was measured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    /// Records, or jobs.
    pub(crate) items: u64,
    /// From its begin to its end.
    pub(crate) seconds: f64,
    /// What it took.
    pub(crate) counted: Counters,
}

impl Work {
    /// Items a second.
    pub(crate) fn per_s(&self) -> f64 {
        self.items() / self.seconds
    }

    #[expect(clippy::cast_precision_loss, reason = "a million at most")]
    fn items(&self) -> f64 {
        self.items as f64
    }

    fn add(&mut self, more: &Self) {
        self.items += more.items;
        self.seconds += more.seconds;
        self.counted += more.counted;
    }

    /// What one item took.
    pub(crate) fn per_item(&self) -> Counters {
        self.counted / self.items()
    }
}

/// A rate beside its floor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// Ours, a second.
    pub(crate) ours: f64,
    /// The bare database's, a second.
    pub(crate) bare: f64,
    /// Ours divided by the floor of the same round.
    pub(crate) ratio: f64,
}

/// One row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Where its database was.
    pub(crate) name: &'static str,
    /// fdatasync of 8 KiB, before and after.
    pub(crate) fsync_us: [f64; 2],
    /// Records.
    pub(crate) records: Rate,
    /// Jobs.
    pub(crate) jobs: Rate,
    /// One commit alone.
    pub(crate) commit_ms: f64,
    /// From a submission to its grant: the median.
    pub(crate) start_p50_ms: f64,
    /// The same, for the hundredth that waited longest.
    pub(crate) start_p99_ms: f64,
    /// What a record took.
    pub(crate) record: Counters,
    /// What a job took.
    pub(crate) job: Counters,
}

/// What the rounds gave.
#[derive(Default)]
struct Rounds {
    records: Vec<(f64, f64)>,
    jobs: Vec<(f64, f64)>,
    commits_ms: Vec<f64>,
    starts_ms: Vec<f64>,
    record_work: Work,
    job_work: Work,
}

/// Measures on the disk of this directory.
pub(crate) async fn measure_row(
    name: &'static str,
    program: &Path,
    parent: &Path,
    size: Size,
    statements: bool,
) -> Result<Row> {
    eprintln!("measuring: {name} ({})", parent.display());
    let fleet = Fleet::start(program, parent, statements).await?;
    prepare_floor(&fleet).await?;
    let before_us = measure_fsync_us(fleet.directory())?;
    let mut rounds = Rounds::default();
    for _ in 0..size.rounds {
        rounds.measure(&fleet, size).await?;
    }
    if statements {
        print_statements(&fleet).await?;
    }
    let after_us = measure_fsync_us(fleet.directory())?;
    Ok(Row {
        name,
        fsync_us: [before_us, after_us],
        records: Rate::of_rounds(&rounds.records),
        jobs: Rate::of_rounds(&rounds.jobs),
        commit_ms: median(&rounds.commits_ms),
        start_p50_ms: median(&rounds.starts_ms),
        start_p99_ms: percentile(&rounds.starts_ms, 0.99),
        record: rounds.record_work.per_item(),
        job: rounds.job_work.per_item(),
    })
}

impl Rounds {
    /// Each floor before and after what stands on it.
    async fn measure(&mut self, fleet: &Fleet, size: Size) -> Result<()> {
        let mut meter = Meter::start(fleet).await?;
        let rows_before = measure_rows_per_s(fleet, size.floor).await?;
        meter.write_checkpoint().await?;
        let records = measure_records(fleet, &mut meter, size.records).await?;
        let rows_after = measure_rows_per_s(fleet, size.floor).await?;
        let commits_before = measure_commits_per_s(fleet, size.floor).await?;
        meter.write_checkpoint().await?;
        let jobs = measure_jobs(fleet, &mut meter, size.jobs).await?;
        let commits_after = measure_commits_per_s(fleet, size.floor).await?;
        let starts = measure_starts(fleet, size.starts).await?;
        self.starts_ms.extend(starts.starts_ms);
        self.commits_ms.extend(starts.commits_ms);
        self.records.push((records.per_s(), f64::midpoint(rows_before, rows_after)));
        self.jobs.push((jobs.per_s(), f64::midpoint(commits_before, commits_after)));
        self.record_work.add(&records);
        self.job_work.add(&jobs);
        Ok(())
    }
}

impl Rate {
    fn of_rounds(rounds: &[(f64, f64)]) -> Self {
        let middle = |read: fn(&(f64, f64)) -> f64| median(&rounds.iter().map(read).collect::<Vec<_>>());
        Self {
            ours: middle(|(ours, _)| *ours),
            bare: middle(|(_, bare)| *bare),
            ratio: middle(|(ours, bare)| ours / bare),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_a_round_and_not_of_two_middles() {
        let rate = Rate::of_rounds(&[(10.0, 100.0), (30.0, 100.0), (20.0, 400.0)]);
        assert_eq!((rate.ours, rate.bare, rate.ratio), (20.0, 100.0, 0.1));
    }

    #[test]
    fn what_one_item_took_counts_the_work_of_all_rounds() {
        let mut all = Work::default();
        for statements in [30.0, 10.0] {
            let counted = Counters { statements, ..Counters::default() };
            all.add(&Work { items: 10, seconds: 1.0, counted });
        }
        assert_eq!((all.per_item().statements, all.per_s()), (2.0, 10.0));
    }
}
