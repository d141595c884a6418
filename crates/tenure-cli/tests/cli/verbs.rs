//! The verbs on a fleet: what they print for people and for programs, and what they end with.

use serde_json::Value;

use crate::{
    dev_fleet::{DevFleet, Home},
    program::end,
};

fn lines_of_json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn short(job: &str) -> String {
    format!("…{}", &job[job.len() - 6..])
}

#[test]
fn jobs_are_submitted_read_and_judged() {
    let home = Home::make();
    let fleet = home.start();
    reads_one_job(&fleet);
    tells_a_job_that_failed(&fleet);
    tells_a_wait_that_ran_out(&fleet);
    refuses_a_key_with_another_payload(&fleet);
    refuses_an_unknown_agent(&fleet);
    lists_what_there_is(&fleet);
}

fn reads_one_job(fleet: &DevFleet) {
    let submitted = fleet.run(&["submit", "greet", "--input", "world", "--label", "team=a", "--wait"]);
    assert_eq!(submitted.code, 0, "{submitted:?}");
    assert!(submitted.stderr.contains("no deadline was given"), "{submitted:?}");
    let job = submitted.stdout.trim();
    let shown = fleet.ok(&["job", &short(job)]);
    let first_three: Vec<&str> = shown.lines().take(3).collect();
    assert!(first_three[0].starts_with("succeeded for "), "{shown}");
    assert!(first_three[0].ends_with("waiting for nothing"), "{shown}");
    assert!(first_three[1].starts_with("held by nobody, epoch 1, run 1, attempt 1"), "{shown}");
    assert!(first_three[2].starts_with(&format!("next: tenure result {}", short(job))), "{shown}");
    let json: Value = serde_json::from_str(&fleet.ok(&["--json", "job", job])).unwrap();
    assert_eq!((&json["id"], &json["state"]), (&job.into(), &"succeeded".into()));
    assert_eq!(json["labels"]["team"], "a");
    let records = lines_of_json(&fleet.ok(&["--json", "watch", job]));
    let kinds: Vec<&str> = records.iter().map(|record| record["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["job_admitted", "plan_frozen", "run_started", "note", "job_concluded"]);
    assert_eq!(records[3]["value"], "saw world");
    let notes = lines_of_json(&fleet.ok(&["--json", "journal", job, "--kind", "note"]));
    assert_eq!(notes.len(), 1);
    let output = fleet.run(&["output", job]);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(fleet.ok(&["output", job, "--stderr"]), "err\n");
    assert_eq!(fleet.ok(&["output", job, "-f"]), "out\n");
    assert_eq!(fleet.ok(&["result", job]), "world");
    assert!(fleet.ok(&["verify", job]).starts_with(&format!("{job}  verified: 5 records")));
}

/// Provokes `JOB_NOT_SUCCEEDED`.
fn tells_a_job_that_failed(fleet: &DevFleet) {
    let failed = fleet.run(&["--json", "submit", "fail", "--wait"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    let admitted: Value = serde_json::from_str(&failed.stdout).unwrap();
    let error = failed.stderr.lines().last().unwrap();
    let error: Value = serde_json::from_str(error).unwrap();
    assert_eq!(error["code"], "JOB_NOT_SUCCEEDED");
    assert_eq!(error["details"]["state"], "failed");
    let none = fleet.run(&["--json", "result", admitted["job_id"].as_str().unwrap()]);
    assert_eq!((none.code, none.error()["code"].as_str()), (1, Some("RESULT_NOT_FOUND")));
}

/// Provokes `WAIT_RAN_OUT`.
fn tells_a_wait_that_ran_out(fleet: &DevFleet) {
    let waited = fleet.run(&["-q", "submit", "hold", "--wait", "--timeout", "100ms"]);
    assert_eq!(waited.code, 3, "{waited:?}");
    assert!(waited.stderr.contains("code WAIT_RAN_OUT"), "{waited:?}");
}

fn refuses_a_key_with_another_payload(fleet: &DevFleet) {
    let first = fleet.submit(&["hold", "--key", "k", "--input", "1"]);
    assert_eq!(fleet.submit(&["hold", "--key", "k", "--input", "1"]), first);
    let reused = fleet.run(&["--json", "submit", "hold", "--key", "k", "--input", "2"]);
    assert_eq!((reused.code, reused.error()["code"].as_str()), (1, Some("KEY_REUSED")));
}

fn refuses_an_unknown_agent(fleet: &DevFleet) {
    let unknown = fleet.run(&["--json", "submit", "nobody"]);
    assert_eq!((unknown.code, unknown.error()["code"].as_str()), (1, Some("UNKNOWN_AGENT")));
    assert!(unknown.stdout.is_empty(), "{unknown:?}");
}

fn lists_what_there_is(fleet: &DevFleet) {
    let agents: Value = serde_json::from_str(&fleet.ok(&["--json", "agents"])).unwrap();
    let names: Vec<&str> =
        agents["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fail", "greet", "hold"]);
    let workers: Value = serde_json::from_str(&fleet.ok(&["--json", "workers"])).unwrap();
    assert_eq!(workers["workers"][0]["name"], "dev-1");
    assert!(fleet.ok(&["workers"]).contains("dev-1"));
    let page: Value = serde_json::from_str(&fleet.ok(&["--json", "jobs", "--limit", "1"])).unwrap();
    assert_eq!(page["jobs"].as_array().unwrap().len(), 1);
    let cursor = page["cursor"].as_str().unwrap();
    let next: Value = serde_json::from_str(&fleet.ok(&["--json", "jobs", "--cursor", cursor])).unwrap();
    assert_ne!(next["jobs"][0]["id"], page["jobs"][0]["id"]);
    let failed = fleet.ok(&["jobs", "--state", "failed,exhausted"]);
    assert_eq!(failed.lines().count(), 2, "a heading and one job: {failed}");
}

#[test]
fn a_set_is_counted_before_it_is_acted_on() {
    let home = Home::make();
    let fleet = home.start();
    let batch = home.path().join("batch.ndjson");
    let lines = "{\"agent\":\"hold\",\"input\":\"1\"}\n\n{\"agent\":\"nobody\"}\n{\"input\":\"2\",\"labels\":{\"n\":\"2\"}}\n";
    std::fs::write(&batch, lines).unwrap();
    let submitted = fleet.run(&["submit", "hold", "--batch", batch.to_str().unwrap()]);
    assert_eq!(submitted.code, 1, "one line is refused: {submitted:?}");
    assert!(submitted.stderr.contains("UNKNOWN_AGENT"), "{submitted:?}");
    let jobs: Vec<&str> = submitted.stdout.lines().collect();
    assert_eq!(jobs.len(), 2, "{submitted:?}");

    let counted = fleet.run(&["cancel", "--agent", "hold", "--dry-run", "--why", "test"]);
    assert_eq!((counted.code, counted.stdout.lines().count()), (0, 2), "{counted:?}");
    assert!(counted.stderr.contains("2 jobs (2 ready)"), "{counted:?}");
    let unasked = fleet.run(&["cancel", "--agent", "hold", "--why", "test"]);
    assert_eq!(unasked.code, 2, "nobody can be asked: {unasked:?}");
    assert!(unasked.stderr.contains("--yes"), "{unasked:?}");
    let one = fleet.ok(&["cancel", "--label", "n=2", "--why", "test", "--yes"]);
    assert_eq!(one, format!("{}  cancelled\n", jobs[1]));
    let rest = fleet.ok(&["cancel", "--agent", "hold", "--why", "test", "--yes"]);
    assert_eq!(rest, format!("{}  cancelled\n", jobs[0]), "what is sealed is not in the set");

    let again = fleet.run(&["--json", "recover", jobs[0], jobs[1], "--why", "test"]);
    assert_eq!(again.code, 1, "{again:?}");
    let codes: Vec<Value> =
        lines_of_json(&again.stderr).into_iter().map(|error| error["code"].clone()).collect();
    assert_eq!(codes, ["VERB_NOT_ALLOWED", "VERB_NOT_ALLOWED"], "each is tried");
}

#[test]
fn a_reader_that_leaves_a_stream_is_no_error() {
    let home = Home::make();
    let fleet = home.start();
    let job = fleet.submit(&["hold"]);
    let mut command = fleet.command(&["watch", &job]);
    // A pipe whose reader is gone before the first line.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    assert!(child.wait().unwrap().success());
    let mut unknown = fleet.command(&["watch", "ffffffffffff"]);
    unknown.arg("--json");
    assert_eq!(end(unknown).error()["code"], "JOB_NOT_FOUND");
}
