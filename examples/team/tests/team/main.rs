//! The example as somebody runs it, with real processes.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use serde_json::{Value, json};

#[test]
fn a_team_releases_once_and_asks_each_model_once_although_a_worker_is_killed_in_the_middle() {
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-example-team")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let shown: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&shown["released"], &shown["delivered"]), (&json!(1), &json!(["developer", "reviewer"])));
}
