//! Workers that leave in an orderly way: what runs on them is moved, and nothing is held against it.

use std::{collections::BTreeSet, fs};

use tenure_testkit::wait_for;
use uuid::Uuid;

use crate::fixture::{Fleet, PATIENCE, wait_for_log};

/// As long as the drain grace, so that a drain asks at once.
const AGENTS: &str = r#"
[agents.walker]
stop-grace = "25s"
script = '''
trap '' TERM
tenure effect done -- sh -c 'echo "$0" >> SHARED/done' "$TENURE_JOB"
tenure note "run $TENURE_RUN got here"
trap - TERM
sleep 2
sleep 2
'''
"#;

#[tokio::test(flavor = "multi_thread")]
async fn ten_rolling_restarts_lose_nothing_and_use_nothing_up() {
    let slots: &[&str] = &["--slots", "4"];
    let mut fleet = Fleet::start(AGENTS, &[("w0", slots), ("w1", slots), ("w2", slots)]).await;
    let jobs: Vec<Uuid> = (0..12).map(|_| fleet.submit("walker", "")).collect();
    for round in 0..10 {
        let name = format!("w{}", round % 3);
        fleet.cluster.stop_worker(&name).await.unwrap();
        fleet.cluster.start_worker(&name, slots).unwrap();
    }
    for job in &jobs {
        fleet.wait_for_state(*job, "succeeded").await;
    }
    // What was held against a run, with its job.
    let held: Vec<(Uuid, String)> = sqlx::query_as(
        "SELECT job, convert_from(bytes, 'UTF8') FROM journal WHERE kind IN ('run_interrupted', 'recovery_denied')",
    )
    .fetch_all(&fleet.cluster.database)
    .await
    .unwrap();
    assert!(held.is_empty(), "{held:#?}");
    let mut moved = 0;
    for job in &jobs {
        let kinds = fleet.kinds(*job).await;
        let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
        // Announced, and not begun because its run was asked to end: that did not happen, and a later run performs it.
        assert_eq!(count("effect_started"), 1 + count("effect_failed"), "{kinds:?}");
        assert_eq!(count("effect_done"), 1, "{kinds:?}");
        moved += count("run_handed_over");
        fleet.cluster.run(&["verify", &job.to_string()]).unwrap();
    }
    let used: Vec<(i32, i32, i32)> = sqlx::query_as("SELECT attempts, losses, hops_left FROM jobs")
        .fetch_all(&fleet.cluster.database)
        .await
        .unwrap();
    assert_eq!(used, vec![(0, 0, 8); jobs.len()]);
    assert!(moved > 0, "no restart met a run");
    let done = fs::read_to_string(fleet.shared().join("done")).unwrap();
    let wanted: BTreeSet<String> = jobs.iter().map(Uuid::to_string).collect();
    assert_eq!(done.lines().count(), jobs.len(), "each once");
    assert_eq!(done.lines().map(str::to_owned).collect::<BTreeSet<_>>(), wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_is_on_its_way_to_a_worker_that_leaves_is_given_back_and_costs_nothing() {
    let mut fleet = Fleet::start(AGENTS, &[]).await;
    let job = fleet.submit("walker", "");
    // Whoever claims waits for this.
    let mut claims = fleet.cluster.database.begin().await.unwrap();
    sqlx::query("LOCK TABLE leases IN SHARE MODE").execute(&mut *claims).await.unwrap();
    fleet.cluster.start_worker("w0", &[]).unwrap();
    wait_for_claim(&fleet).await;
    let log = fleet.cluster.log_path("w0");
    let let_claims_go = async {
        wait_for_log(&log, "the worker drains").await;
        claims.rollback().await.unwrap();
    };
    let (stopped, ()) = tokio::join!(fleet.cluster.stop_worker("w0"), let_claims_go);
    stopped.unwrap();
    fleet.cluster.start_worker("w1", &[]).unwrap();
    fleet.wait_for_state(job, "succeeded").await;
    let kinds = fleet.kinds(job).await;
    assert!(!kinds.iter().any(|kind| kind == "run_interrupted" || kind == "run_handed_over"), "{kinds:?}");
    let used: (i32, i32, i32) = sqlx::query_as("SELECT attempts, losses, hops_left FROM jobs")
        .fetch_one(&fleet.cluster.database)
        .await
        .unwrap();
    assert_eq!(used, (0, 0, 8));
    fleet.cluster.run(&["verify", &job.to_string()]).unwrap();
}

/// Waits until a claim waits for the table of leases.
async fn wait_for_claim(fleet: &Fleet) {
    wait_for("a claim to wait", PATIENCE, async || {
        let waiting: (i64,) = sqlx::query_as(
            "SELECT count(*) FROM pg_locks WHERE relation = 'leases'::regclass AND NOT granted",
        )
        .fetch_one(&fleet.cluster.database)
        .await
        .unwrap();
        if waiting.0 > 0 { Ok(()) } else { Err("none does") }
    })
    .await;
}
