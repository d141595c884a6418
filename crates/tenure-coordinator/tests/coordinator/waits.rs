//! Jobs that wait: they are woken once, by whichever coordinator is first, and what was waited for is answered from then on.

use std::collections::BTreeSet;

use tenure_core::reason::Reason;
use tenure_proto::v1::{
    self, JobState, ask_wait_response::Answer, attach_request::Message, run_end::How, wait_until::When,
};

use crate::{
    fleet::{Fleet, reason},
    worker::{Worker, applied, end},
};

/// The worker asks about a wait of its run.
async fn ask(fleet: &Fleet, grant: &v1::Grant, name: &str, after_s: i64) -> Result<Answer, tonic::Status> {
    let after = prost_types::Duration { seconds: after_s, nanos: 0 };
    let request = v1::AskWaitRequest {
        run: grant.run.clone(),
        secret: grant.secret.clone(),
        name: name.into(),
        until: Some(v1::WaitUntil { when: Some(When::After(after)) }),
    };
    Ok(fleet.workers().ask_wait(request).await?.into_inner().answer.unwrap())
}

async fn announce(fleet: &Fleet, grant: &v1::Grant, name: &str, after_s: i64) -> v1::Wait {
    match ask(fleet, grant, name, after_s).await.unwrap() {
        Answer::Pending(wait) => wait,
        Answer::Over(over) => panic!("it is over: {over:?}"),
    }
}

/// The run ends because it waits.
async fn suspend(worker: &mut Worker, grant: &v1::Grant, wait: v1::Wait) {
    worker.say(Message::EndRun(end(grant, 1, How::Waiting(wait)))).await;
    applied(worker.hear_appended(1).await);
}

#[tokio::test]
async fn four_coordinators_wake_each_of_a_hundred_jobs_once() {
    const JOBS: usize = 100;
    let fleet = Fleet::start().await;
    let _others = [fleet.start_another().await, fleet.start_another().await, fleet.start_another().await];
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let mut jobs = BTreeSet::new();
    for _ in 0..JOBS {
        jobs.insert(fleet.submit("plain").await);
    }
    for _ in 0..JOBS {
        worker.want(1).await;
        let grant = worker.hear_grant().await;
        let wait = announce(&fleet, &grant, "#1", 600).await;
        suspend(&mut worker, &grant, wait).await;
    }
    let pool = fleet.pool().await;
    let due = sqlx::query("UPDATE waits SET until = now()").execute(&pool).await.unwrap();
    assert_eq!(due.rows_affected(), JOBS as u64);
    for job in &jobs {
        fleet.job_in(job, JobState::Ready).await;
        let woken = fleet.kinds(job).await.into_iter().filter(|kind| kind == "woken").count();
        assert_eq!(woken, 1, "{job}");
    }
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM waits").fetch_one(&pool).await.unwrap();
    let queued: i64 = sqlx::query_scalar("SELECT count(*) FROM ready").fetch_one(&pool).await.unwrap();
    assert_eq!((left, queued), (0, JOBS as i64));
}

#[tokio::test]
async fn a_wait_that_was_woken_is_answered_at_once_and_others_of_the_job_are_not() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let wait = announce(&fleet, &grant, "#1", 1).await;
    let until = wait.until;
    suspend(&mut worker, &grant, wait).await;
    worker.want(1).await;
    let next = worker.hear_grant().await;
    assert_eq!((next.run.clone().unwrap().run, next.attempt), (2, 1), "no attempt is used");
    assert!(next.brief.contains("ended on purpose"), "{}", next.brief);
    match ask(&fleet, &next, "#1", 1).await.unwrap() {
        Answer::Over(over) => assert_eq!((over.name.as_str(), over.due), ("#1", until)),
        Answer::Pending(wait) => panic!("it was woken: {wait:?}"),
    }
    assert!(matches!(ask(&fleet, &next, "#2", 60).await.unwrap(), Answer::Pending(_)));
    assert_eq!(reason(ask(&fleet, &grant, "#1", 1).await), Reason::Fenced, "the run before is over");
    assert_eq!(fleet.kinds(&job).await[3..], ["child_gone", "suspended", "woken", "run_started"]);
}

#[tokio::test]
async fn a_wait_beyond_the_sessions_deadline_or_31_days_is_refused_when_it_is_asked_for() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 2).await;
    fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    for after_s in [0, 3_601, 40 * 86_400] {
        assert_eq!(reason(ask(&fleet, &grant, "#1", after_s).await), Reason::WaitOutOfBounds, "{after_s} s");
    }
    assert!(matches!(ask(&fleet, &grant, "#1", 3_000).await.unwrap(), Answer::Pending(_)));
}

#[tokio::test]
async fn a_job_that_waits_is_exhausted_when_its_sessions_deadline_is_reached() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let wait = announce(&fleet, &grant, "#1", 600).await;
    suspend(&mut worker, &grant, wait).await;
    let shown = fleet.job_in(&job, JobState::Suspended).await;
    assert_eq!(shown.wait.unwrap().name, "#1");
    let pool = fleet.pool().await;
    sqlx::query("UPDATE sessions SET deadline_at = now()").execute(&pool).await.unwrap();
    assert_eq!(fleet.job_in(&job, JobState::Exhausted).await.reason, "deadline");
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM waits").fetch_one(&pool).await.unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_cancel_of_a_job_that_waits_seals_it_and_leaves_no_wait() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let wait = announce(&fleet, &grant, "#1", 600).await;
    suspend(&mut worker, &grant, wait).await;
    fleet.cancel(&job).await.unwrap();
    assert_eq!(fleet.job(&job).await.state(), JobState::Cancelled);
    let pool = fleet.pool().await;
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM waits").fetch_one(&pool).await.unwrap();
    assert_eq!(left, 0);
}
