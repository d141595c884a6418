//! The guardian's report to a real gRPC server: only after the group was empty, with the run's secret.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_proto::v1::run_end::How;
use tenure_worker::guardian::{BootInstant, Fencing, OUTCOME_FILE};
use tonic::Status;

use super::coordinator::{Coordinator, Recorded};
use super::scene::{Scene, is_living, wait_for, wait_until};

const SECRET: [u8; 32] = [0x5e; 32];

fn identity(endpoints: &[&str], ttl_ms: u64) -> Value {
    json!({
        "tenant": "default",
        "job": "01936f2a-0000-7000-8000-00000000c0de",
        "epoch": 4,
        "generation": 2,
        "secret": "5e".repeat(32),
        "endpoints": endpoints,
        "ttl_ms": ttl_ms,
    })
}

fn run_with_heartbeat(scene: &Scene) -> String {
    scene.leave_heartbeat() + "trap '' TERM; while :; do sleep 0.05; done"
}

async fn await_report(coordinator: &Coordinator) -> Recorded {
    wait_until("a report", || if coordinator.reports().is_empty() { Err("none".to_owned()) } else { Ok(()) })
        .await;
    coordinator.reports().remove(0)
}

fn assert_is_report_of_a_healthy_child(recorded: &Recorded) {
    assert_eq!(recorded.living, Vec::<String>::new(), "the report came before the group was empty");
    let report = &recorded.report;
    assert_eq!((report.tenant.as_str(), report.epoch, report.generation), ("default", 4, 2));
    assert_eq!(report.job_id, "01936f2a-0000-7000-8000-00000000c0de");
    assert_eq!(&report.secret[..], SECRET);
    assert!(report.ended_by_guardian);
    assert!(matches!(report.end.as_ref().unwrap().how, Some(How::ContactLost(_))), "{:?}", report.end);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_workers_guardian_reports_and_leaves_nothing() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let coordinator = Coordinator::start(&scene.path("")).await;
        let plan = json!({ "report": identity(&[&coordinator.endpoint], 30_000) });
        let worker = scene.start_worker(&run_with_heartbeat(&scene), plan);
        scene.await_heartbeat();
        worker.signal(Signal::SIGKILL);
        assert_is_report_of_a_healthy_child(&await_report(&coordinator).await);
        let guardian = scene.identity().guardian;
        wait_until("the guardian to go", || {
            if is_living(guardian.pid) { Err("it is there".to_owned()) } else { Ok(()) }
        })
        .await;
        assert!(!scene.run_directory.path().join(OUTCOME_FILE).exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_workers_guardian_reports_after_the_deadline() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let coordinator = Coordinator::start(&scene.path("")).await;
        let plan = json!({ "deadline_in_ms": 2_500, "report": identity(&[&coordinator.endpoint], 30_000) });
        let worker = scene.start_worker(&run_with_heartbeat(&scene), plan);
        scene.await_heartbeat();
        worker.signal(Signal::SIGSTOP);
        assert_is_report_of_a_healthy_child(&await_report(&coordinator).await);
        worker.signal(Signal::SIGCONT);
        assert_eq!(worker.await_line("ended"), "ended ContactLost");
        worker.reap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_of_its_own_is_reported_as_it_was() {
    let scene = Scene::new(Fencing::Kernel);
    let coordinator = Coordinator::start(&scene.path("")).await;
    // This worker goes without having the end acknowledged.
    let plan = json!({ "forget": false, "report": identity(&[&coordinator.endpoint], 30_000) });
    let worker = scene.start_worker("exit 65", plan);
    assert_eq!(worker.await_line("ended"), "ended ExitCode(65)");
    let report = await_report(&coordinator).await.report;
    assert!(!report.ended_by_guardian);
    assert_eq!(report.end.unwrap().how, Some(How::ExitCode(65)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_is_left_to_a_worker_that_is_only_silent_until_the_local_deadline() {
    let scene = Scene::new(Fencing::Kernel);
    let coordinator = Coordinator::start(&scene.path("")).await;
    let plan = json!({ "deadline_in_ms": 8_000, "report": identity(&[&coordinator.endpoint], 30_000) });
    let earliest = BootInstant::now().plus(Duration::from_secs(8));
    let (ready, go) = (scene.path("ready"), scene.path("go"));
    let script =
        format!("touch {}; while ! test -e {}; do sleep 0.02; done; exit 0", ready.display(), go.display());
    let worker = scene.start_worker(&script, plan);
    wait_until("the child to run", || ready.exists().then_some(()).ok_or_else(|| "not yet".to_owned())).await;
    worker.signal(Signal::SIGSTOP);
    std::fs::write(go, "").unwrap();
    let report = await_report(&coordinator).await.report;
    assert!(BootInstant::now() >= earliest, "the worker could still have come back with the result");
    assert!(!report.ended_by_guardian);
    assert_eq!(report.end.unwrap().how, Some(How::ExitCode(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_end_is_not_reported() {
    let scene = Scene::new(Fencing::Kernel);
    let coordinator = Coordinator::start(&scene.path("")).await;
    let plan = json!({ "report": identity(&[&coordinator.endpoint], 30_000) });
    let worker = scene.start_worker("exit 0", plan);
    let guardian = scene.identity().guardian.pid;
    worker.await_line("ended");
    worker.reap();
    wait_until("the guardian to go", || {
        if is_living(guardian) { Err("it is there".to_owned()) } else { Ok(()) }
    })
    .await;
    assert!(coordinator.reports().is_empty(), "{:?}", coordinator.reports());
    assert!(!scene.run_directory.path().join(OUTCOME_FILE).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_down_is_passed_over() {
    let scene = Scene::new(Fencing::Kernel);
    let coordinator = Coordinator::start(&scene.path("")).await;
    let plan = json!({ "report": identity(&["http://127.0.0.1:1", &coordinator.endpoint], 30_000) });
    let worker = scene.start_worker(&run_with_heartbeat(&scene), plan);
    scene.await_heartbeat();
    worker.signal(Signal::SIGKILL);
    assert_is_report_of_a_healthy_child(&await_report(&coordinator).await);
}

fn await_outcome(scene: &Scene) -> String {
    let path = scene.run_directory.path().join(OUTCOME_FILE);
    wait_for("the outcome in the run directory", || {
        std::fs::read_to_string(&path).map_err(|error| error.to_string())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_nobody_takes_is_left_without_the_secret() {
    let scene = Scene::new(Fencing::Kernel);
    let plan = json!({ "report": identity(&["http://127.0.0.1:1"], 1_000) });
    let worker = scene.start_worker(&run_with_heartbeat(&scene), plan);
    scene.await_heartbeat();
    worker.signal(Signal::SIGKILL);
    let left = tokio::task::block_in_place(|| await_outcome(&scene));
    assert!(
        left.contains("contact_lost") && left.contains("00000000c0de") && left.contains("127.0.0.1:1"),
        "{left}"
    );
    assert!(!left.contains(&"5e".repeat(32)), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_ends_the_reporting_and_is_left() {
    let scene = Scene::new(Fencing::Kernel);
    let refusal = Status::permission_denied("the secret is not this run's");
    let coordinator = Coordinator::start_refusing(&scene.path(""), refusal).await;
    let plan = json!({ "report": identity(&[&coordinator.endpoint], 60_000) });
    let worker = scene.start_worker(&run_with_heartbeat(&scene), plan);
    scene.await_heartbeat();
    worker.signal(Signal::SIGKILL);
    let left = tokio::task::block_in_place(|| await_outcome(&scene));
    assert!(left.contains("the secret is not this run's"), "{left}");
    assert_eq!(coordinator.reports().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_is_neither_in_arguments_nor_in_an_environment() {
    let scene = Scene::new(Fencing::Guardian);
    let mut process = scene.runner().start_process(
        scene.spec("sleep 60"),
        tenure_worker::runner::GuardLink {
            report: Some(serde_json::from_value(identity(&["http://127.0.0.1:1"], 1_000)).unwrap()),
            ..super::scene::unbounded_link()
        },
    );
    process.wait_started().await.unwrap();
    let identity = scene.identity();
    for pid in [identity.guardian.pid, identity.child.pid] {
        for file in ["cmdline", "environ"] {
            // An ordinary user may not even look into its guardian's environment.
            let text = match std::fs::read(format!("/proc/{pid}/{file}")) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(error) => error.kind().to_string(),
            };
            assert!(!text.contains("5e5e5e5e"), "{file} of {pid}: {text}");
        }
    }
    process.handle().kill();
    super::scene::finish(process).await;
}
