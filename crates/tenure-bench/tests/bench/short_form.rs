//! The benchmark, in its short form: it measures a real fleet with its stand-in worker, and ends with the line that
//! programs read. How fast anything was is not looked at.

use std::{path::Path, process::Command};

use serde_json::Value;

const FIGURES: [&str; 13] = [
    "fsync_us",
    "records_per_s",
    "records_ratio",
    "jobs_per_s",
    "jobs_ratio",
    "statements_per_record",
    "statements_per_job",
    "commits_per_record",
    "wal_bytes_per_record",
    "wal_bytes_per_job",
    "cpu_ms_per_job",
    "bare_rows_per_s",
    "bare_commits_per_s",
];

#[test]
fn it_measures_both_rows_and_shares_statements_among_jobs_and_records() {
    let bench = Path::new(env!("CARGO_BIN_EXE_tenure-bench"));
    let tenure = bench.with_file_name("tenure");
    assert!(tenure.exists(), "{} is not there: cargo build --bin tenure", tenure.display());
    let output = Command::new(bench).arg("--short").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    for row in [&line, &line["shm"]] {
        for figure in FIGURES {
            assert!(row[figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {row}");
        }
        assert!(row["idle_start_ms"]["p50"].as_f64() <= row["idle_start_ms"]["p99"].as_f64(), "{row}");
        let record_bytes = row["wal_bytes_per_record"].as_f64().unwrap();
        assert!(
            record_bytes < row["wal_bytes_per_job"].as_f64().unwrap(),
            "a job has several records: {row}"
        );
        // One by one they would be 1 and more than 3.
        assert!(row["statements_per_record"].as_f64().unwrap() < 0.3, "{row}");
        assert!(row["statements_per_job"].as_f64().unwrap() < 2.0, "{row}");
    }
}
