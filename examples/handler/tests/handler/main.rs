//! The example as somebody runs it, and its worker frozen and unwilling, with real processes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use tenure_example_handler::stage::Stage;

fn assert_done_once(stage: &Stage, job: &str) {
    let mut executed = stage.lines("executed");
    executed.sort();
    assert_eq!(executed, ["add up", "pay", "write the label"]);
    assert_eq!(stage.lines("payments").len(), 1);
    assert_eq!(stage.count_records(job, "step_finished").unwrap(), 2);
    assert_eq!(stage.count_records(job, "effect_done").unwrap(), 1);
}

#[test]
fn an_order_whose_worker_is_killed_between_two_steps_is_finished_by_another_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-example-handler")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let shown: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&shown["run"], &shown["payments"], &shown["steps_finished"]),
        (&2.into(), &1.into(), &2.into())
    );
}

/// Frozen past its lease, and thawed when another worker has finished its job.
async fn freeze_the_holder(with_guardian: bool) {
    let mut stage = Stage::start(5).await.unwrap();
    stage.start_worker("w1").unwrap();
    let job = stage.submit(false).unwrap();
    let holder = stage.wait_until_paid(&job).await;
    let mut frozen = vec![stage.pid(&holder).unwrap()];
    if with_guardian {
        frozen.insert(0, stage.guardian(&holder).unwrap());
    }
    for pid in &frozen {
        stage.signal(*pid, Signal::SIGSTOP).unwrap();
    }
    stage.start_worker("w2").unwrap();
    stage.approve().unwrap();
    let fulfilled = stage.wait_for_success(&job).await.unwrap();
    assert_eq!(fulfilled.run, 2);
    for pid in &frozen {
        // Where its guardian was awake, the worker is gone by now.
        let _ = stage.signal(*pid, Signal::SIGCONT);
    }
    stage.wait_until_ended(&holder).await;
    assert_done_once(&stage, &job);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_frozen_past_its_lease_performs_nothing_more() {
    freeze_the_holder(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_frozen_with_its_guardian_performs_nothing_more_when_both_are_thawed() {
    freeze_the_holder(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_stop_by_the_local_deadline_is_ended_with_its_process() {
    let mut stage = Stage::start(5).await.unwrap();
    stage.start_worker("w1").unwrap();
    let job = stage.submit(true).unwrap();
    let holder = stage.wait_until_paid(&job).await;
    stage.cluster.kill_coordinator("c1").unwrap();
    stage.wait_until_ended(&holder).await;
    stage.cluster.restart_coordinator("c1").await.unwrap();
    stage.start_worker("w2").unwrap();
    stage.approve().unwrap();
    assert_eq!(stage.wait_for_success(&job).await.unwrap().run, 2);
    assert_done_once(&stage, &job);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_holds_its_thread_is_ended_with_its_process_once_a_cancel_was_not_heeded() {
    let mut stage = Stage::start(5).await.unwrap();
    stage.start_worker("w1").unwrap();
    let job = stage.submit(true).unwrap();
    let holder = stage.wait_until_paid(&job).await;
    stage.cluster.run(&["cancel", &job, "--why", "it is not wanted any more"]).unwrap();
    stage.wait_until_ended(&holder).await;
    stage.wait_for_record(&job, "child_gone").await;
    assert_eq!(stage.lines("executed"), ["add up", "pay"]);
    assert_eq!(stage.count_records(&job, "run_started").unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_holds_its_thread_past_its_timeout_is_ended_and_its_job_goes_on_elsewhere() {
    let mut stage = Stage::start(5).await.unwrap();
    stage.set_timeout("10s").unwrap();
    stage.start_worker("w1").unwrap();
    let job = stage.submit(true).unwrap();
    let holder = stage.wait_until_paid(&job).await;
    stage.wait_until_ended(&holder).await;
    stage.start_worker("w2").unwrap();
    stage.approve().unwrap();
    assert_eq!(stage.wait_for_success(&job).await.unwrap().run, 2);
    assert_done_once(&stage, &job);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_guardian_is_killed_ends_with_it() {
    let mut stage = Stage::start(5).await.unwrap();
    stage.start_worker("w1").unwrap();
    let job = stage.submit(false).unwrap();
    let holder = stage.wait_until_paid(&job).await;
    stage.signal(stage.guardian(&holder).unwrap(), Signal::SIGKILL).unwrap();
    stage.wait_until_ended(&holder).await;
    stage.start_worker("w2").unwrap();
    stage.approve().unwrap();
    assert_eq!(stage.wait_for_success(&job).await.unwrap().run, 2);
    assert_done_once(&stage, &job);
}
