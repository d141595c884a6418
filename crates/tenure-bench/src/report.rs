//! What the run says: a table for people, the bars, and one line of JSON for programs. The bars are for the disk; the row
//! in memory shows what is left when no disk is waited for.

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde_json::{Value, json};

use crate::{meter::CpuMs, row::Row};

/// Durable records a second, at least so many for each row of the bare database.
const RECORDS_RATIO_MIN: f64 = 0.10;
/// Jobs a second, at least so many for each commit of the bare database.
const JOBS_RATIO_MIN: f64 = 0.20;
/// Statements of one record, at most.
const STATEMENTS_PER_RECORD_MAX: f64 = 0.3;
/// Statements of one job under load, at most.
const STATEMENTS_PER_JOB_MAX: f64 = 2.0;
/// What an idle start may take beside one commit, in ms.
const START_BESIDE_COMMIT_MAX_MS: f64 = 3.0;

/// Prints the rows side by side.
pub(crate) fn print_table(rows: &[&Row]) {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(
        ["".to_owned()].into_iter().chain(rows.iter().map(|row| row.name.to_owned())).collect::<Vec<_>>(),
    );
    for (name, read) in LINES {
        table.add_row([name.to_owned()].into_iter().chain(rows.iter().map(|row| read(row))));
    }
    println!("{table}");
}

type Line = (&'static str, fn(&Row) -> String);

const LINES: [Line; 14] = [
    ("fdatasync of 8 KiB, before and after", |row| {
        format!("{:.0} and {:.0} µs", row.fsync_us[0], row.fsync_us[1])
    }),
    ("bare rows/s, 100 a statement", |row| format!("{:.0}", row.records.bare)),
    ("durable records/s", |row| format!("{:.0} = {:.3} ×", row.records.ours, row.records.ratio)),
    ("bare commits/s, 16 clients", |row| format!("{:.0}", row.jobs.bare)),
    ("jobs/s", |row| format!("{:.0} = {:.3} ×", row.jobs.ours, row.jobs.ratio)),
    ("one commit alone", |row| format!("{:.2} ms", row.commit_ms)),
    ("idle submit to start, p50 and p99", |row| {
        format!("{:.2} and {:.2} ms", row.start_p50_ms, row.start_p99_ms)
    }),
    ("statements of a record", |row| format!("{:.4}", row.record.statements)),
    ("statements of a job", |row| format!("{:.4}", row.job.statements)),
    ("commits of a record, of a job", |row| format!("{:.4}, {:.4}", row.record.commits, row.job.commits)),
    ("log of a record", |row| format!("{:.0} bytes", row.record.wal_bytes)),
    ("log of a job", |row| format!("{:.0} bytes", row.job.wal_bytes)),
    ("processor of a record", |row| write_cpu(row.record.cpu_ms)),
    ("processor of a job", |row| write_cpu(row.job.cpu_ms)),
];

fn write_cpu(cpu: CpuMs) -> String {
    let (total, CpuMs { coordinator, postgres, bench }) = (cpu.total(), cpu);
    format!("{total:.4} ms (coordinator {coordinator:.4}, database {postgres:.4}, worker {bench:.4})")
}

/// The bars that were missed, each with what it was and what it should be.
pub(crate) fn find_missed_bars(row: &Row) -> Vec<String> {
    let start_max_ms = row.commit_ms + START_BESIDE_COMMIT_MAX_MS;
    let bars = [
        at_least("records_ratio", row.records.ratio, RECORDS_RATIO_MIN),
        at_least("jobs_ratio", row.jobs.ratio, JOBS_RATIO_MIN),
        at_most("statements_per_record", row.record.statements, STATEMENTS_PER_RECORD_MAX),
        at_most("statements_per_job", row.job.statements, STATEMENTS_PER_JOB_MAX),
        at_most("idle_start_ms.p50", row.start_p50_ms, start_max_ms),
    ];
    bars.into_iter().flatten().collect()
}

fn at_least(name: &str, found: f64, bar: f64) -> Option<String> {
    // Also what is not a number misses.
    (!matches!(found.partial_cmp(&bar), Some(std::cmp::Ordering::Greater | std::cmp::Ordering::Equal)))
        .then(|| format!("{name} is {found:.3}, and at least {bar:.3} is wanted"))
}

fn at_most(name: &str, found: f64, bar: f64) -> Option<String> {
    (!matches!(found.partial_cmp(&bar), Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)))
        .then(|| format!("{name} is {found:.3}, and at most {bar:.3} is wanted"))
}

/// The last line.
pub(crate) fn write_json(disk: &Row, memory: &Row, missed: &[String]) -> Value {
    let mut line = write_row(disk);
    line["shm"] = write_row(memory);
    line["missed"] = json!(missed);
    line
}

fn write_row(row: &Row) -> Value {
    json!({
        "fsync_us": rounded(f64::midpoint(row.fsync_us[0], row.fsync_us[1]), 3),
        "records_per_s": rounded(row.records.ours, 0),
        "records_ratio": rounded(row.records.ratio, 4),
        "jobs_per_s": rounded(row.jobs.ours, 0),
        "jobs_ratio": rounded(row.jobs.ratio, 4),
        "idle_start_ms": { "p50": rounded(row.start_p50_ms, 3), "p99": rounded(row.start_p99_ms, 3) },
        "statements_per_record": rounded(row.record.statements, 5),
        "statements_per_job": rounded(row.job.statements, 5),
        "commits_per_record": rounded(row.record.commits, 5),
        "wal_bytes_per_record": rounded(row.record.wal_bytes, 0),
        "wal_bytes_per_job": rounded(row.job.wal_bytes, 0),
        "cpu_ms_per_job": rounded(row.job.cpu_ms.total(), 4),
        "cpu_ms_per_record": rounded(row.record.cpu_ms.total(), 4),
        "bare_rows_per_s": rounded(row.records.bare, 0),
        "bare_commits_per_s": rounded(row.jobs.bare, 0),
        "commit_ms": rounded(row.commit_ms, 3),
    })
}

/// Rounds to so many digits behind the point.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{meter::Counters, row::Rate};

    /// A row that meets every bar exactly.
    pub(crate) fn row() -> Row {
        let counters = |statements| Counters {
            statements,
            commits: 0.1,
            wal_bytes: 1_000.0,
            cpu_ms: CpuMs { coordinator: 0.1, postgres: 0.2, bench: 0.1 },
        };
        Row {
            name: "disk",
            fsync_us: [100.0, 200.0],
            records: Rate { ours: 10.0, bare: 100.0, ratio: 0.10 },
            jobs: Rate { ours: 20.0, bare: 100.0, ratio: 0.20 },
            commit_ms: 0.5,
            start_p50_ms: 3.5,
            start_p99_ms: 9.0,
            record: counters(0.3),
            job: counters(2.0),
        }
    }

    #[test]
    fn each_bar_is_met_at_its_value_and_missed_just_beyond() {
        assert_eq!(find_missed_bars(&row()), Vec::<String>::new());
        let worsenings: [fn(&mut Row); 6] = [
            |row| row.records.ratio = 0.099,
            |row| row.jobs.ratio = 0.199,
            |row| row.record.statements = 0.301,
            |row| row.job.statements = 2.001,
            |row| row.start_p50_ms = 3.501,
            |row| row.records.ratio = f64::NAN,
        ];
        for worsen in worsenings {
            let mut row = row();
            worsen(&mut row);
            assert_eq!(find_missed_bars(&row).len(), 1);
        }
    }

    #[test]
    fn the_last_line_has_every_figure_of_both_rows() {
        let line = write_json(&row(), &row(), &["a bar".to_owned()]);
        assert_eq!(line["missed"], json!(["a bar"]));
        for row in [&line, &line["shm"]] {
            assert_eq!(row["fsync_us"], json!(150.0));
            assert_eq!(row["idle_start_ms"], json!({ "p50": 3.5, "p99": 9.0 }));
            assert_eq!(row["cpu_ms_per_job"], json!(0.4));
        }
    }
}
