//! No two children of one job are alive at the same time, whoever is killed or frozen. The agent leaves a `setsid`
//! process behind that writes heartbeats: it has to be silent before the next run's first line.

use std::fs;

use nix::sys::signal::{Signal, kill};

use tenure_testkit::wait_for;

use crate::fixture::{Fleet, PATIENCE, wait_for_line};

const AGENTS: &str = r#"
[agents.leaver]
script = '''
beats="SHARED/$TENURE_RUN"
date +%s%N >> "$beats"
setsid sh -c 'while :; do date +%s%N >> "$1"; sleep 0.02; done' beats "$beats" &
tenure note "run $TENURE_RUN is on its way"
while [ ! -e SHARED/go ]; do sleep 0.05; done
'''
"#;

/// Two workers with the shortest term, one of which holds the job.
async fn start_leaver() -> (Fleet, uuid::Uuid, String) {
    let quick: &[&str] = &["--slots", "2", "--ttl", "5s"];
    let fleet = Fleet::start(AGENTS, &[("w1", quick), ("w2", quick)]).await;
    let job = fleet.submit("leaver", "");
    wait_for_line(&fleet.shared().join("1")).await;
    wait_for("the first note", PATIENCE, async || match fleet.notes(job).await {
        notes if notes.is_empty() => Err("no note"),
        _ => Ok(()),
    })
    .await;
    let holder = fleet.wait_for_holder(job).await;
    (fleet, job, holder)
}

/// Lets the next run finish, and holds the two heartbeat files against each other.
async fn assert_silent_before_the_next_run(fleet: &Fleet, job: uuid::Uuid) {
    wait_for_line(&fleet.shared().join("2")).await;
    fs::write(fleet.shared().join("go"), "").unwrap();
    fleet.wait_for_state(job, "succeeded").await;
    let (last, first) = (beats(fleet, 1).pop().unwrap(), beats(fleet, 2)[0]);
    assert!(last < first, "run 1 still wrote at {last}, and run 2 began at {first}");
    let brief = fleet.notes(job).await;
    assert_eq!(brief, ["run 1 is on its way", "run 2 is on its way"]);
}

/// The whole lines of a run's heartbeat file.
fn beats(fleet: &Fleet, run: u32) -> Vec<u128> {
    let text = fs::read_to_string(fleet.shared().join(run.to_string())).unwrap();
    let (whole, _) = text.rsplit_once('\n').unwrap();
    whole.lines().map(|line| line.parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_worker_leaves_no_child_when_the_next_run_begins() {
    let (mut fleet, job, holder) = start_leaver().await;
    fleet.cluster.kill_worker(&holder, &[]).unwrap();
    assert_silent_before_the_next_run(&fleet, job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_guardian_leaves_no_child_when_the_next_run_begins() {
    let (fleet, job, holder) = start_leaver().await;
    let guardians = fleet.cluster.guardian_pids(&holder).unwrap();
    assert_eq!(guardians.len(), 1);
    kill(guardians[0], Signal::SIGKILL).unwrap();
    assert_silent_before_the_next_run(&fleet, job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_and_guardian_killed_at_once_leave_no_child_when_the_next_run_begins() {
    let (mut fleet, job, holder) = start_leaver().await;
    let guardians = fleet.cluster.guardian_pids(&holder).unwrap();
    assert_eq!(guardians.len(), 1);
    fleet.cluster.kill_worker(&holder, &guardians).unwrap();
    assert_silent_before_the_next_run(&fleet, job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_worker_leaves_no_child_when_the_next_run_begins_and_takes_work_when_thawed() {
    let (mut fleet, job, holder) = start_leaver().await;
    fleet.cluster.freeze_worker(&holder).unwrap();
    assert_silent_before_the_next_run(&fleet, job).await;
    fleet.cluster.thaw_worker(&holder).unwrap();
    let other = if holder == "w1" { "w2" } else { "w1" };
    fleet.cluster.kill_worker(other, &[]).unwrap();
    let next = fleet.submit("leaver", "");
    fleet.wait_for_state(next, "succeeded").await;
}
