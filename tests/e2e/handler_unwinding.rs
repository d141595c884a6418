//! Groups of effects and functions that undo, with workers that are really killed: a job comes by every boundary of what it does,
//! and at each of them its worker gets SIGKILL and another takes the job over. What was done is asked of a ledger outside.

use std::fs;

use tenure_testkit::{Ledger, wait_for};
use uuid::Uuid;

use crate::fixture::{Fleet, PATIENCE, program};

const AGENTS: &str = r#"
[defaults]
stop-grace = "1s"
recovery = { max-attempts = 30, max-losses = 30, backoff = { first = "10ms", max = "10ms" } }
limits = { hops = 60 }
[agents.grouper]
handler = "1"
[agents.waiter]
handler = "1"
"#;

struct Scene {
    fleet: Fleet,
    ledger: Ledger,
    _directory: tempfile::TempDir,
}

impl Scene {
    /// Everything that comes by one of these boundaries is held there.
    async fn start(boundaries: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ledger = Ledger::start(&directory.path().join("ledger.jsonl")).await.unwrap();
        let mut fleet = Fleet::start(AGENTS, &[]).await;
        let shared = fleet.shared().to_str().unwrap().to_owned();
        for boundary in boundaries {
            fs::write(fleet.shared().join(format!("hold-{boundary}")), "").unwrap();
        }
        let worker = program().with_file_name("group-worker");
        for name in ["w1", "w2"] {
            fleet.cluster.start_own_worker(name, &worker, &[&ledger.url(), &shared]).unwrap();
        }
        Self { fleet, ledger, _directory: directory }
    }

    async fn wait_until_reached(&self, boundary: &str) {
        wait_for(&format!("{boundary} to be reached"), PATIENCE, async || {
            let text = fs::read_to_string(self.fleet.shared().join("reached")).unwrap_or_default();
            if text.lines().any(|line| line == boundary) { Ok(()) } else { Err(text) }
        })
        .await;
    }

    /// Kills the worker of a job at each of these boundaries, in this order, and lets the next run by.
    async fn kill_at_each(&mut self, job: Uuid, boundaries: &[&str]) {
        for boundary in boundaries {
            self.wait_until_reached(boundary).await;
            let holder = self.fleet.wait_for_holder(job).await;
            self.fleet.cluster.kill_worker(&holder, &[]).unwrap();
            fs::remove_file(self.fleet.shared().join(format!("hold-{boundary}"))).unwrap();
            self.fleet.cluster.restart_worker(&holder).unwrap();
        }
    }

    fn texts(&self) -> Vec<String> {
        self.ledger.entries().unwrap().into_iter().map(|entry| entry.text).collect()
    }

    async fn count(&self, job: Uuid, kind: &str) -> usize {
        self.fleet.kinds(job).await.iter().filter(|found| *found == kind).count()
    }

    fn verify(&self, job: Uuid) {
        assert!(self.fleet.cluster.run(&["verify", &job.to_string()]).unwrap().contains("verified"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_worker_is_killed_at_each_boundary_is_decided_once_and_performed_once() {
    let boundaries = [
        "announced-reserve",
        "performed-reserve",
        "recorded-reserve",
        "announced-charge",
        "performed-charge",
        "recorded-charge",
        // Between these two it is decided.
        "announced-notify",
        "performed-notify",
        "recorded-notify",
    ];
    let mut scene = Scene::start(&boundaries).await;
    let job = scene.fleet.submit("grouper", "true");
    scene.kill_at_each(job, &boundaries).await;
    scene.fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(scene.texts(), ["reserve", "charge", "notify"]);
    assert_eq!(scene.count(job, "group_settled").await, 1);
    assert!(scene.count(job, "run_started").await > boundaries.len(), "each kill took a run");
    scene.verify(job);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_worker_is_killed_at_each_boundary_of_its_reversal_is_reversed_once() {
    let boundaries = [
        "recorded-charge",
        // Between these two it is decided.
        "announced-undo-charge",
        "performed-undo-charge",
        "announced-undo-reserve",
        "performed-undo-reserve",
    ];
    let mut scene = Scene::start(&boundaries).await;
    let job = scene.fleet.submit("grouper", "false");
    scene.kill_at_each(job, &boundaries).await;
    scene.fleet.wait_for_state(job, "failed").await;
    assert_eq!(
        scene.texts(),
        ["reserve", "charge", "undo charge", "undo reserve"],
        "and nobody was notified"
    );
    assert_eq!(scene.count(job, "group_settled").await, 1);
    assert!(scene.count(job, "run_started").await > boundaries.len(), "each kill took a run");
    scene.verify(job);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_that_undo_a_cancelled_job_do_so_once_although_the_worker_is_killed_at_each_boundary() {
    let boundaries = [
        "announced-undo-mail",
        "performed-undo-mail",
        "announced-undo-push",
        "performed-undo-push",
        "announced-undo-tag",
        "performed-undo-tag",
    ];
    let mut scene = Scene::start(&boundaries).await;
    let job = scene.fleet.submit("waiter", "\"idempotent\"");
    scene.wait_until_reached("waiting").await;
    scene.fleet.cluster.run(&["cancel", &job.to_string(), "--why", "no longer wanted"]).unwrap();
    scene.kill_at_each(job, &boundaries).await;
    scene.fleet.wait_for_state(job, "cancelled").await;
    assert_eq!(scene.texts(), ["tag", "push", "mail", "undo mail", "undo push", "undo tag"]);
    assert_eq!(scene.count(job, "unwind_started").await, 1);
    scene.verify(job);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undoing_function_that_was_killed_and_nobody_can_decide_waits_for_a_person_and_goes_on_then() {
    let boundaries = ["performed-undo-push"];
    let mut scene = Scene::start(&boundaries).await;
    let job = scene.fleet.submit("waiter", "\"ask\"");
    let id = job.to_string();
    scene.wait_until_reached("waiting").await;
    scene.fleet.cluster.run(&["cancel", &id, "--why", "no longer wanted"]).unwrap();
    scene.kill_at_each(job, &boundaries).await;
    scene.fleet.wait_for_state(job, "quarantined").await;
    let undecided = scene.fleet.cluster.run(&["undecided", &id]).unwrap();
    assert!(undecided.contains("undo:push") && !undecided.contains("undo:mail"), "{undecided}");
    assert_eq!(scene.texts(), ["tag", "push", "mail", "undo mail", "undo push"], "nobody went on");
    let answer = ["reconcile", &id, "undo:push", "--done", "null", "--why", "the ledger has it"];
    scene.fleet.cluster.run(&answer).unwrap();
    scene.fleet.cluster.run(&["reopen", &id, "--why", "it is answered"]).unwrap();
    scene.fleet.wait_for_state(job, "cancelled").await;
    assert_eq!(scene.texts(), ["tag", "push", "mail", "undo mail", "undo push", "undo tag"]);
    scene.verify(job);
}
