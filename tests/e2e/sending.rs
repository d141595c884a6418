//! Work that runs give to agents, and what agents remember, on a real fleet: once however often a run repeats its script.

use std::fs;

use serde_json::Value;
use uuid::Uuid;

use crate::fixture::{Fleet, refusal_code, wait_for_line};

const QUICK: &[&str] = &["--slots", "4", "--ttl", "5s"];

/// (agent, state, hops_left) of all jobs, in the order of their ids.
async fn jobs(fleet: &Fleet) -> Vec<(String, String, i32)> {
    sqlx::query_as("SELECT agent, state, hops_left FROM jobs ORDER BY job")
        .fetch_all(&fleet.cluster.database)
        .await
        .unwrap()
}

fn read(fleet: &Fleet, name: &str) -> String {
    fs::read_to_string(fleet.shared().join(name)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_that_repeats_its_script_sends_each_piece_of_work_once() {
    let mut fleet = Fleet::start(
        r#"
[agents.analyst]
script = '''
{ tenure send developer "fix"; tenure send developer "fix"; tenure spawn auditor "look"; } > "SHARED/sent-$TENURE_RUN"
tenure remember "the fleet was busy"
cp "$TENURE_BRIEF" "SHARED/brief-$TENURE_RUN"
echo begun >> SHARED/begun
while [ "$TENURE_RUN" = 1 ]; do sleep 0.1; done
'''
[agents.developer]
script = '''cat "$TENURE_INPUT" > "$TENURE_RESULT"'''
[agents.auditor]
script = '''cat "$TENURE_INPUT" > "$TENURE_RESULT"'''
"#,
        &[("w1", QUICK), ("w2", QUICK)],
    )
    .await;
    let job = fleet.submit("analyst", "");
    wait_for_line(&fleet.shared().join("begun")).await;
    let holder = fleet.wait_for_holder(job).await;
    fleet.cluster.kill_worker(&holder, &[]).unwrap();
    fleet.wait_for_state(job, "succeeded").await;
    let sent = read(&fleet, "sent-1");
    assert_eq!((sent.lines().count(), &sent), (3, &read(&fleet, "sent-2")));
    for child in sent.lines() {
        let child: Uuid = child.parse().unwrap();
        fleet.wait_for_state(child, "succeeded").await;
        let told = fleet.cluster.run(&["job", &child.to_string()]).unwrap();
        assert!(told.contains("succeeded"), "{told}");
    }
    let found = jobs(&fleet).await;
    let hops: Vec<_> = found.iter().map(|(agent, _, hops)| (agent.as_str(), *hops)).collect();
    // The run that was lost with its worker paid no hop, and neither do what it sent.
    assert_eq!(hops, [("analyst", 8), ("developer", 7), ("developer", 7), ("auditor", 8)]);
    let brief = read(&fleet, "brief-2");
    assert!(sent.lines().all(|child| brief.contains(child)), "{brief}");
    // What a job remembers twice is kept once.
    let memory: Value =
        serde_json::from_str(&fleet.cluster.run(&["--json", "memory", "analyst"]).unwrap()).unwrap();
    let remembered = memory["memories"].as_array().unwrap();
    assert_eq!((remembered.len(), remembered[0]["text"].as_str()), (1, Some("the fleet was busy")));
    assert_eq!(remembered[0]["job_id"], job.to_string());
    fleet.cluster.run(&["erase", &job.to_string(), "--output", "--why", "it is private"]).unwrap();
    let empty = fleet.cluster.run(&["--json", "memory", "analyst"]).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&empty).unwrap()["memories"], serde_json::json!([]));
    fleet.cluster.run(&["verify", &job.to_string()]).unwrap();
}

/// Provokes `MEMORY_TOO_LARGE`.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_given_is_refused_by_its_code_and_the_run_goes_on() {
    let fleet = Fleet::start(
        r#"
[agents.analyst]
limits = { hops = 1 }
script = '''
refused() { "$@" 2>> SHARED/refused > SHARED/printed && exit 9; true; }
refused tenure --json spawn nobody "fix"
refused tenure --json send analyst "  "
head -c 300000 /dev/zero | tr '\0' x > SHARED/large
refused tenure --json send analyst @SHARED/large
refused tenure --json send analyst "one hop is left"
refused tenure --json remember ""
head -c 5000 /dev/zero | tr '\0' x > SHARED/long
refused tenure --json remember "$(cat SHARED/long)"
printf %s "$TENURE_SOCKET" > SHARED/socket
echo went on > "$TENURE_RESULT"
'''
"#,
        &[("w1", QUICK)],
    )
    .await;
    let job = fleet.submit("analyst", "");
    fleet.wait_for_state(job, "succeeded").await;
    let refused = read(&fleet, "refused");
    let codes: Vec<String> = refused
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|refusal| refusal["code"].as_str().unwrap().to_owned())
        .collect();
    let expected = [
        "UNKNOWN_AGENT",
        "INVALID_ARGUMENT",
        "INPUT_TOO_LARGE",
        "HOPS_EXHAUSTED",
        "REASON_MISSING",
        "MEMORY_TOO_LARGE",
    ];
    assert_eq!(codes, expected, "{refused}");
    assert_eq!(jobs(&fleet).await.len(), 1);
    assert_eq!(fleet.kinds(job).await.iter().filter(|kind| *kind == "send_refused").count(), 1);
    // The run is over, and its socket with it; outside of any run there is none.
    let mut late = fleet.cluster.tenure(&["--json", "send", "analyst", "late"]);
    late.env("TENURE_SOCKET", read(&fleet, "socket"));
    assert_eq!(refusal_code(&late.output().unwrap()), "COORDINATOR_UNAVAILABLE");
    let outside = fleet.try_run(&["--json", "spawn", "analyst", "x"]);
    assert_eq!((refusal_code(&outside), outside.status.code()), ("NOT_INSIDE_RUN".to_owned(), Some(2)));
}
