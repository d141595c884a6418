//! The demo believes the ledger and not the fleet: one line too many, and it fails.

use std::{
    fs::OpenOptions,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use serde_json::Value;

/// The fewest jobs with which every worker has one; the usual number takes long beside other tests.
const JOBS: &str = "4";

#[test]
fn one_line_added_to_the_ledger_by_hand_makes_the_demo_fail() {
    for program in ["tenure", "tenure-ledger"] {
        let path = std::path::Path::new(env!("CARGO_BIN_EXE_tenure-demo")).with_file_name(program);
        assert!(path.exists(), "{} is not there: `make test` builds it", path.display());
    }
    let mut demo = Command::new(env!("CARGO_BIN_EXE_tenure-demo"))
        .env("JOBS", JOBS)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = Vec::new();
    for line in BufReader::new(demo.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(path) = line.strip_prefix("the ledger is ") {
            add_line(path);
        }
        printed.push(line);
    }
    let status = demo.wait().unwrap();
    let summary: Value = serde_json::from_str(printed.last().unwrap()).unwrap();
    let shown = printed.join("\n");
    assert!(!status.success(), "{shown}");
    assert_eq!(summary["duplicated"], 1, "{shown}");
    assert_eq!(summary["ledger_entries"], 5, "{shown}");
    // What was added is all that is wrong.
    assert_eq!((&summary["lost"], &summary["succeeded"]), (&Value::from(0), &Value::from(4)), "{shown}");
}

fn add_line(path: &str) {
    let entry = r#"{"number":0,"text":"somebody else was here","at":"2026-01-01T00:00:00Z"}"#;
    let mut ledger = OpenOptions::new().append(true).open(path).unwrap();
    writeln!(ledger, "{entry}").unwrap();
}
