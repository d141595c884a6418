//! Strict replay of a handler: the same one agrees, and a changed one is told where it diverges; nothing is performed.

use std::{
    fs,
    process::{Child, Command, Output},
};

use uuid::Uuid;

use crate::fixture::{Fleet, program, refusal_code};

const AGENTS: &str = r#"
[agents.packer]
handler = "1"
"#;

/// The worker's program, beside `tenure`.
fn worker_program() -> String {
    program().with_file_name("replay-worker").to_str().unwrap().to_owned()
}

/// Ended with the test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_worker(fleet: &Fleet) -> Worker {
    let endpoint = format!("http://{}", fleet.cluster.coordinator_address("c1").unwrap());
    let data_dir = fleet.shared().join("worker");
    Worker(Command::new(worker_program()).arg(endpoint).arg(data_dir).spawn().unwrap())
}

fn replay(fleet: &Fleet, job: Uuid, change: &str) -> Output {
    let arguments =
        ["--json", "replay", &job.to_string(), "--strict", "--", &worker_program(), "nowhere", "nothing"];
    fleet.cluster.tenure(&arguments).env("CHANGED", change).output().unwrap()
}

/// Provokes `REPLAY_DIVERGED`.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_handler_is_told_where_it_diverges_and_nothing_is_performed_or_written() {
    let fleet = Fleet::start(AGENTS, &[]).await;
    let worker = start_worker(&fleet);
    let count = fleet.shared().join("executed");
    let job = fleet.submit("packer", &serde_json::to_string(&count).unwrap());
    fleet.wait_for_state(job, "succeeded").await;
    drop(worker);
    let kinds = fleet.kinds(job).await;
    let executed = fs::read_to_string(&count).unwrap();
    assert_eq!(executed, "weigh\nship\nlabel\n");

    let same = replay(&fleet, job, "");
    let said = String::from_utf8_lossy(&same.stderr).into_owned();
    assert!(same.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&same.stdout).unwrap();
    assert_eq!((&report["answered"], &report["divergence"]), (&3.into(), &serde_json::Value::Null));
    for (change, journal, handler) in [
        ("key", "the effect \\\"ship\\\"", "asks for the effect \\\"ship/again\\\""),
        ("payload", "the effect \\\"ship\\\" with", "asks for it with"),
        ("shorter", "the step \\\"label\\\"", "never asks for it and returns"),
        ("longer", "ends with a success there", "asks for the step \\\"bill\\\""),
        ("result", "ends with a success and its result", "returns another one"),
    ] {
        let changed = replay(&fleet, job, change);
        assert_eq!(refusal_code(&changed), "REPLAY_DIVERGED", "{change}");
        let said = String::from_utf8_lossy(&changed.stderr).into_owned();
        assert!(said.contains(journal) && said.contains(handler), "{change}: {said}");
    }
    assert_eq!(fleet.kinds(job).await, kinds, "nothing was written");
    assert_eq!(fs::read_to_string(&count).unwrap(), executed, "nothing was performed");
    let another = fleet
        .cluster
        .tenure(&["--json", "replay", &job.to_string(), "--strict", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(refusal_code(&another), "INVALID_ARGUMENT");
}
