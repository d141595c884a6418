//! Effects under kills, in the short form: fifty jobs with one seed. `make chaos-effects` has a thousand.

use std::process::Command;

use crate::fixture::program;

#[test]
fn workers_killed_at_record_boundaries_double_and_lose_no_effect_and_every_doubt_is_listed() {
    program();
    let output = Command::new(env!("CARGO_BIN_EXE_chaos-effects"))
        .args(["--seed", "1", "--jobs", "50"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(summary["jobs"], 50, "{said}");
    for count in ["duplicated", "lost", "unlisted"] {
        assert_eq!(summary[count], 0, "{count}: {said}");
    }
    println!("{said}");
}
