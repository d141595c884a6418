//! Several coordinators on one database: what happens at one is known at the others at once, and by the poll where nothing is
//! heard. The polls are so long that whatever arrives within a test's patience was pushed.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use sqlx::postgres::PgListener;
use tenure_coordinator::{Coordinator, CoordinatorOptions, RunningCoordinator};
use tenure_core::{
    limits::{POLL_INTERVAL_MAX, POLL_INTERVAL_MIN},
    reason::Reason,
};
use tenure_proto::v1::{self, JobState, order::Order, run_end::How};
use tenure_store::{Listener, Store, StoreOptions};
use tenure_testkit::{TestDatabase, wait_for};

use crate::{
    fleet::{Fleet, PATIENCE, Way, reason},
    worker::{Worker, applied, introduction, register},
};

/// Two coordinators that hardly ever poll.
async fn start_two() -> (Fleet, RunningCoordinator, Way) {
    let fleet = Fleet::start_with(slow_poll).await;
    let (second, channel) = fleet.start_another().await;
    (fleet, second, channel)
}

fn slow_poll(options: &mut CoordinatorOptions) {
    options.poll_interval = POLL_INTERVAL_MAX;
}

async fn start_worker(channel: &Way, name: &str, credits: u32) -> Worker {
    let registration = register(channel, introduction(name)).await;
    let mut worker = Worker::attach(channel, &registration).await.unwrap();
    worker.want(credits).await;
    worker
}

/// Nothing waits for the worker at its coordinator: what it is granted from now on was pushed there.
async fn grant_once(fleet: &Fleet, worker: &mut Worker) {
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    assert_eq!(grant.run.clone().unwrap().job_id, job);
    applied(worker.end(&grant, 1, How::ExitCode(0)).await);
}

/// The shortest that there is.
const DEAF_TTL: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_job_that_was_submitted_at_one_coordinator_starts_at_another_without_a_poll() {
    let (fleet, _second, channel) = start_two().await;
    let mut worker = start_worker(&channel, "w1", 3).await;
    for _ in 0..3 {
        grant_once(&fleet, &mut worker).await;
    }
}

#[tokio::test]
async fn a_cancel_at_one_coordinator_is_told_to_a_worker_at_another() {
    let (fleet, _second, channel) = start_two().await;
    let mut worker = start_worker(&channel, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    fleet.cancel(&job).await.unwrap();
    let order = worker.hear_order().await;
    assert_eq!(order.run, grant.run);
    let Some(Order::Notice(notice)) = order.order else { panic!("a notice, and not {order:?}") };
    assert_eq!((notice.seq, notice.kind.as_str()), (grant.seq + 1, "cancel_requested"));
}

#[tokio::test]
async fn a_watch_at_one_coordinator_hears_what_another_writes() {
    let (fleet, _second, channel) = start_two().await;
    let mut worker = start_worker(&channel, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let request = v1::WatchJobRequest { job: job.clone(), from_seq: 1 };
    let mut watch = fleet.jobs().watch_job(request).await.unwrap().into_inner();
    let grant = worker.hear_grant().await;
    let mut kinds = Vec::new();
    let mut n = 1;
    while let Some(response) = tokio::time::timeout(PATIENCE, watch.message()).await.unwrap().unwrap() {
        kinds.push(response.record.unwrap().kind);
        match kinds.last().map(String::as_str) {
            Some("run_started") => drop(applied(worker.note(&grant, n, "a note").await)),
            Some("note") => drop(applied(worker.end(&grant, n, How::ExitCode(0)).await)),
            _ => continue,
        }
        n += 1;
    }
    assert_eq!(kinds, ["job_admitted", "plan_frozen", "run_started", "note", "job_concluded"]);
}

#[tokio::test]
async fn with_every_notification_lost_a_start_comes_with_the_poll() {
    let fleet = Fleet::start_with(slow_poll).await;
    // Notifications do not cross databases.
    let elsewhere = TestDatabase::create_empty().await.unwrap();
    let deaf = |options: &mut CoordinatorOptions| {
        options.poll_interval = Duration::from_secs(1);
        options.listen_database_url = Some(elsewhere.url().to_owned());
    };
    let (_second, channel) = fleet.start_another_with(deaf).await;
    let mut worker = start_worker(&channel, "w1", 2).await;
    grant_once(&fleet, &mut worker).await;
    grant_once(&fleet, &mut worker).await;
}

#[tokio::test]
async fn a_coordinator_where_nothing_happens_sends_nothing() {
    let database = TestDatabase::create().await.unwrap();
    let mut listener = Listener::connect(database.url(), "a test").await.unwrap();
    let fleet = Fleet::start_on(database, |options| options.poll_interval = POLL_INTERVAL_MIN).await;
    // What two coordinators say at their start is over: each greeted, and the second was answered.
    hear_until(&mut listener, |payload| payload.contains("greeting")).await;
    let (_second, _channel) = fleet.start_another().await;
    hear_until(&mut listener, |payload| payload.contains("greeting")).await;
    hear_until(&mut listener, |payload| payload.contains("everything")).await;
    let store = Store::connect(fleet.database_url(), StoreOptions::default()).await.unwrap();
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    grant_once(&fleet, &mut worker).await;
    let job = fleet.submit("plain").await;
    // What is told of a cancelled job is told after all the rest, and names it.
    let last = fleet.submit("plain").await;
    fleet.cancel(&last).await.unwrap();
    hear_until(&mut listener, |payload| payload.contains(&last)).await;
    for round in 0..20 {
        // Each answer took a look at the database, and the polls went on meanwhile.
        worker.renew(None).await;
        fleet.job_in(&job, JobState::Ready).await;
        store.send_notifications(&[format!("round {round}")]).await.unwrap();
        assert_eq!(listener.hear().await.unwrap(), format!("round {round}"));
    }
}

#[tokio::test]
async fn a_coordinator_that_is_alone_sends_nothing_and_is_heard_by_one_that_comes() {
    let fleet = Fleet::start_with(slow_poll).await;
    let pool = fleet.pool().await;
    // What ends a round goes through another channel: on theirs, coordinators would take it for somebody else's.
    let mut listener = PgListener::connect_with(&pool).await.unwrap();
    listener.listen_all(["tenure", "end"]).await.unwrap();
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    wait_for("a job of which nobody was told", PATIENCE, async || {
        // Whoever tells does so within the spacing; the second job's end comes later than that.
        for _ in 0..2 {
            worker.want(1).await;
            grant_once(&fleet, &mut worker).await;
        }
        worker.renew(None).await;
        sqlx::query("NOTIFY \"end\"").execute(&pool).await.unwrap();
        let mut told = Vec::new();
        loop {
            let heard = listener.recv().await.unwrap();
            match heard.channel() {
                "end" => return if told.is_empty() { Ok(()) } else { Err(told) },
                _ => told.push(heard.payload().to_owned()),
            }
        }
    })
    .await;
    let (_second, channel) = fleet.start_another().await;
    let mut elsewhere = start_worker(&channel, "w2", 3).await;
    for _ in 0..3 {
        grant_once(&fleet, &mut elsewhere).await;
    }
}

async fn hear_until(listener: &mut Listener, fits: impl Fn(&str) -> bool) {
    loop {
        let heard = tokio::time::timeout(PATIENCE, listener.hear()).await.expect("more is sent").unwrap();
        if fits(&heard) {
            return;
        }
    }
}

#[tokio::test]
async fn a_coordinator_whose_listener_is_ended_again_and_again_misses_nothing() {
    let (fleet, _second, channel) = start_two().await;
    let pool = fleet.pool().await;
    let mut worker = start_worker(&channel, "w1", 8).await;
    for _ in 0..4 {
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = 'tenure listener'";
        sqlx::query(ended).execute(&pool).await.unwrap();
        grant_once(&fleet, &mut worker).await;
    }
}

#[tokio::test]
async fn a_displaced_attach_is_granted_nothing_and_ended_by_its_coordinator() {
    let (fleet, _second, channel) = start_two().await;
    let mut here = Worker::start(&fleet, "w1", 1).await;
    let mut elsewhere = Worker::attach(&channel, &here.registration).await.unwrap();
    assert!(elsewhere.attach > here.attach);
    // The first coordinator does not know yet that its stream was displaced; the claim's guard does.
    let job = fleet.submit("plain").await;
    assert_eq!(reason::<()>(Err(here.hear_end().await)), Reason::Displaced);
    elsewhere.want(1).await;
    assert_eq!(elsewhere.hear_grant().await.attach, elsewhere.attach);
    assert_eq!(fleet.kinds(&job).await, ["job_admitted", "plan_frozen", "run_started"]);
}

#[tokio::test]
async fn a_poll_out_of_bounds_is_refused() {
    for given in [POLL_INTERVAL_MIN / 2, POLL_INTERVAL_MAX * 2] {
        let mut options =
            CoordinatorOptions::new("postgres://127.0.0.1:1/none", "127.0.0.1:0".parse().unwrap());
        options.poll_interval = given;
        let Err(refused) = Coordinator::start(options).await else { panic!("{given:?} was taken") };
        assert_eq!(refused.reason(), Reason::InvalidArgument);
    }
}

#[tokio::test]
async fn a_worker_that_hears_no_answer_is_deaf_and_ten_ttls_of_beats_renew_nothing_while_its_term_is_closed()
{
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    let ttl = prost_types::Duration { seconds: DEAF_TTL.as_secs().try_into().unwrap(), nanos: 0 };
    let introduction = v1::RegisterWorkerRequest { ttl: Some(ttl), ..introduction("w1") };
    let registration = register(&fleet.channel, introduction).await;
    let mut worker = Worker::attach(&fleet.channel, &registration).await.unwrap();
    let last_heard = registration.answer;
    let mut deaf_since = None;
    let mut seen = Vec::new();
    while deaf_since.is_none_or(|since: Instant| since.elapsed() < 10 * DEAF_TTL) {
        wait_for_next_beat().await;
        // It echoes what it heard before the answers stopped coming.
        worker.registration.answer = last_heard;
        let outcome = worker.renew(None).await.outcome.unwrap();
        let heard = match outcome {
            v1::renewed::Outcome::Renewed(_) => {
                assert!(seen.is_empty(), "a deaf worker was renewed after {seen:?}");
                continue;
            }
            v1::renewed::Outcome::Deaf(_) => "deaf",
            v1::renewed::Outcome::Closed(_) => "closed",
        };
        let term: (String, bool) =
            sqlx::query_as("SELECT expires_at::text, closed_at IS NOT NULL FROM terms WHERE worker = 'w1'")
                .fetch_one(&pool)
                .await
                .unwrap();
        deaf_since.get_or_insert_with(Instant::now);
        seen.push((heard, term));
    }
    let expiries: BTreeSet<&String> = seen.iter().map(|(_, (expires, _))| expires).collect();
    assert_eq!(expiries.len(), 1, "{expiries:?}");
    assert_eq!(seen.first().unwrap().0, "deaf");
    let (heard, (_, closed)) = seen.last().unwrap();
    assert_eq!((*heard, *closed), ("closed", true));
    assert!(seen.len() > 10, "{} beats were answered", seen.len());
}

/// More often than a worker renews, so that many fall into each ttl.
async fn wait_for_next_beat() {
    tokio::time::sleep(DEAF_TTL / 10).await;
}
