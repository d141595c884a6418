//! Several coordinators: one that is killed, asked to stop, or frozen with a grant in its hands costs no job anything, and
//! what happens at one starts work at another without a poll. Polls are longer than a test's patience where none may help.

use std::{
    fs,
    net::TcpListener,
    process::{Child, Stdio},
};

use nix::sys::signal::{Signal, kill};
use tenure_postgres::Options;
use tenure_testkit::{Cluster, Proxy, Treatment, wait_for};

use crate::fixture::{Fleet, PATIENCE, program, wait_for_line, wait_for_log};

const AGENTS: &str = r#"
[agents.patient]
script = '''
echo "$TENURE_RUN" >> SHARED/starts
tenure note "started"
while [ ! -e SHARED/go ]; do sleep 0.05; done
'''
[agents.quick]
command = ["true"]
"#;

/// Longer than the patience.
const NEVER: [&str; 2] = ["--poll-interval", "5m"];

/// Two coordinators, `c1` and `c2`, with these arguments.
async fn start(first: &[&str], second: &[&str]) -> Fleet {
    let mut cluster = Cluster::start_database(program(), Options::default()).await.unwrap();
    let url = cluster.postgres.url("postgres");
    cluster.start_coordinator_with("c1", &url, first).await.unwrap();
    cluster.start_coordinator_with("c2", &url, second).await.unwrap();
    Fleet::with_cluster(cluster, AGENTS)
}

impl Fleet {
    fn submit_to(&self, coordinator: &str, agent: &str) -> uuid::Uuid {
        let endpoint = self.cluster.endpoint(coordinator).unwrap();
        let output = self.cluster.tenure_at(&endpoint, &["submit", agent]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    fn begin_to_submit(&self, coordinator: &str, agent: &str) -> Child {
        let endpoint = self.cluster.endpoint(coordinator).unwrap();
        let mut submitting = self.cluster.tenure_at(&endpoint, &["submit", agent]);
        submitting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn start_worker_at(&mut self, coordinator: &str) {
        let endpoint = self.cluster.endpoint(coordinator).unwrap();
        self.cluster.start_worker_at("w1", &endpoint, &["--slots", "2"]).unwrap();
    }

    fn starts(&self) -> usize {
        fs::read_to_string(self.shared().join("starts")).unwrap_or_default().lines().count()
    }

    fn let_go(&self) {
        fs::write(self.shared().join("go"), "").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_coordinator_was_killed_is_finished_by_the_worker_of_another() {
    let mut fleet = start(&NEVER, &NEVER).await;
    fleet.start_worker_at("c2");
    let job = fleet.submit_to("c1", "patient");
    fleet.cluster.kill_coordinator("c1").unwrap();
    wait_for_line(&fleet.shared().join("starts")).await;
    fleet.let_go();
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(fleet.starts(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_at_another_coordinator_needs_no_poll() {
    let mut fleet = start(&NEVER, &NEVER).await;
    fleet.start_worker_at("c2");
    for _ in 0..3 {
        let job = fleet.submit_to("c1", "quick");
        fleet.wait_for_state(job, "succeeded").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_every_notification_lost_a_start_comes_with_the_poll() {
    let mut cluster = Cluster::start_database(program(), Options::default()).await.unwrap();
    let url = cluster.postgres.url("postgres");
    // Notifications do not cross databases.
    let elsewhere = cluster.postgres.url("template1");
    cluster.start_coordinator_with("c1", &url, &NEVER).await.unwrap();
    let deaf = ["--poll-interval", "1s", "--listen-database-url", &elsewhere];
    cluster.start_coordinator_with("c2", &url, &deaf).await.unwrap();
    let mut fleet = Fleet::with_cluster(cluster, AGENTS);
    fleet.start_worker_at("c2");
    for _ in 0..3 {
        let job = fleet.submit_to("c1", "quick");
        fleet.wait_for_state(job, "succeeded").await;
    }
    wait_for_log(
        &fleet.cluster.log_path("c2"),
        "the listener does not hear what this coordinator itself sends",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_run_nor_waiting_client_notices_that_every_coordinator_was_restarted_in_turn() {
    let mut fleet = start(&NEVER, &NEVER).await;
    fleet.cluster.start_worker("w1", &[]).unwrap();
    let mut waiting = fleet.cluster.tenure(&["submit", "patient", "--wait"]);
    let mut waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_line(&fleet.shared().join("starts")).await;
    for name in ["c1", "c2", "c1", "c2"] {
        fleet.cluster.stop_coordinator(name).await.unwrap();
        fleet.cluster.restart_coordinator(name).await.unwrap();
    }
    assert!(waiting.try_wait().unwrap().is_none(), "the client gave up");
    fleet.let_go();
    let output = tokio::task::spawn_blocking(|| waiting.wait_with_output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let job: uuid::Uuid = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert_eq!(fleet.starts(), 1);
    let kinds = fleet.kinds(job).await;
    assert_eq!(kinds, ["job_admitted", "plan_frozen", "run_started", "note", "job_concluded"]);
}

/// A cluster whose `c1` reaches its database through a proxy.
async fn start_through_proxy() -> (Fleet, Proxy) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = Options { tcp_port: Some(port), ..Options::default() };
    let mut cluster = Cluster::start_database(program(), options).await.unwrap();
    let direct = cluster.postgres.url("postgres");
    let proxy = Proxy::start(([127, 0, 0, 1], port).into()).await.unwrap();
    let tcp = cluster.postgres.tcp_url("postgres").unwrap().unwrap();
    let through = tcp.replace(&format!(":{port}/"), &format!(":{}/", proxy.address().port()));
    let listen = ["--listen-database-url", &direct];
    cluster.start_coordinator_with("c1", &through, &listen).await.unwrap();
    (Fleet::with_cluster(cluster, AGENTS), proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_in_the_hands_of_a_frozen_coordinator_comes_too_late_when_it_thaws() {
    let mut fleet = start(&[], &[]).await;
    let coordinator = Proxy::start(fleet.cluster.coordinator_address("c1").unwrap()).await.unwrap();
    fleet.cluster.start_worker_at("w1", &coordinator.endpoint(), &["--slots", "2"]).unwrap();
    wait_until_claimed_at_once(&fleet).await;

    // The claim is committed, and c1 is frozen before it hears of that.
    close_gate(&fleet).await;
    let mut submitting = fleet.begin_to_submit("c1", "patient");
    wait_for_submission_at_gate(&fleet).await;
    fleet.cluster.freeze_coordinator("c1").unwrap();
    open_gate(&fleet).await;
    let job = wait_for_lease(&fleet).await;
    let granted = format!("granted a run job={job}");
    assert!(!fleet.log("c1").contains(&granted));

    // The worker moves on, says that it knows of no such run, and is granted another.
    coordinator.redirect(fleet.cluster.coordinator_address("c2").unwrap());
    coordinator.cut();
    wait_for_line(&fleet.shared().join("starts")).await;

    fleet.cluster.thaw_coordinator("c1").unwrap();
    wait_for_log(&fleet.cluster.log_path("c1"), &granted).await;
    fleet.let_go();
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(fleet.starts(), 1, "the late grant was refused");
    let kinds = fleet.kinds(job).await;
    let expected = [
        "job_admitted",
        "plan_frozen",
        "run_started",
        "grant_released",
        "run_started",
        "note",
        "job_concluded",
    ];
    assert_eq!(kinds, expected);
    assert!(submitting.wait().unwrap().success());
}

/// Returns once a submission at `c1` is claimed by the statement that stores it, which takes no number in the queue.
async fn wait_until_claimed_at_once(fleet: &Fleet) {
    let queue_number = async || {
        let statement = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM queue_numbers";
        sqlx::query_scalar::<_, i64>(statement).fetch_one(&fleet.cluster.database).await.unwrap()
    };
    wait_for("a job that took no number in the queue", PATIENCE, async || {
        let before = queue_number().await;
        let job = fleet.submit_to("c1", "quick");
        fleet.wait_for_state(job, "succeeded").await;
        let after = queue_number().await;
        if after == before { Ok(()) } else { Err(after) }
    })
    .await;
}

/// From now on claims wait inside their statement. A lock would not do: the database gives up waiting for one after a second,
/// and a test on a busy machine is slower.
async fn close_gate(fleet: &Fleet) {
    let gate = "
        CREATE TABLE gate (closed boolean);
        INSERT INTO gate VALUES (true);
        CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                WHILE EXISTS (SELECT FROM gate) LOOP PERFORM pg_sleep(0.01); END LOOP;
                RETURN NEW;
            END $$;
        CREATE TRIGGER wait_at_gate BEFORE INSERT OR UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION wait_at_gate();";
    sqlx::raw_sql(gate).execute(&fleet.cluster.database).await.unwrap();
}

async fn open_gate(fleet: &Fleet) {
    sqlx::query("DELETE FROM gate").execute(&fleet.cluster.database).await.unwrap();
}

async fn wait_for_submission_at_gate(fleet: &Fleet) {
    wait_for("the submission to be claimed", PATIENCE, async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(pid) FROM pg_stat_activity
             WHERE wait_event = 'PgSleep' AND query LIKE '-- Stores a batch of submissions%' AND pid <> pg_backend_pid()",
        )
        .fetch_one(&fleet.cluster.database)
        .await
        .unwrap();
        if waiting > 0 { Ok(()) } else { Err("none") }
    })
    .await;
}

/// The one job, once somebody holds it.
async fn wait_for_lease(fleet: &Fleet) -> uuid::Uuid {
    wait_for("a lease", PATIENCE, async || {
        let row: Option<(uuid::Uuid,)> = sqlx::query_as("SELECT job FROM leases WHERE released_at IS NULL")
            .fetch_optional(&fleet.cluster.database)
            .await
            .unwrap();
        row.map(|(job,)| job).ok_or("none")
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_coordinator_that_still_waits_for_its_database() {
    let (mut fleet, database) = start_through_proxy().await;
    database.treat(Treatment::Stall);
    let mut submitting = fleet.begin_to_submit("c1", "quick");
    wait_for_log(&fleet.cluster.log_path("c1"), "the database does not answer").await;
    let pid = fleet.cluster.coordinator_pid("c1").unwrap();
    kill(pid, Signal::SIGTERM).unwrap();
    wait_for_log(&fleet.cluster.log_path("c1"), "the coordinator drains").await;
    fleet.cluster.stop_coordinator("c1").await.unwrap();
    assert!(!fleet.log("c1").contains("the grace is over"), "it waited out its grace");
    let _ = submitting.kill();
    let _ = submitting.wait();
}

impl Fleet {
    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.cluster.log_path(name)).unwrap_or_default()
    }
}
