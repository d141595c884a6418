//! The example as somebody runs it, with real processes.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use serde_json::Value;

#[test]
fn an_order_is_paid_once_and_another_one_taken_back_once_although_workers_are_killed_in_the_middle() {
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-example-payment")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let shown: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let count = |what: &str| shown[what].as_array().map(Vec::len);
    assert_eq!((count("paid"), count("taken_back"), count("refused")), (Some(3), Some(4), Some(2)));
}
