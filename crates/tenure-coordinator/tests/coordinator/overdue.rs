//! Deadlines that are reached while a job waits for a worker.

use sqlx::PgPool;
use tenure_proto::v1::{self, JobState};

use crate::{
    fleet::{Fleet, submission},
    worker::{Worker, introduction, register},
};

/// The deadline of a job's session is reached now, as if it had waited so long.
async fn let_deadline_pass(pool: &PgPool, fleet: &Fleet, job: &str) {
    let session = fleet.job(job).await.session_id;
    let changed = sqlx::query("UPDATE sessions SET deadline_at = now() WHERE session = $1::uuid")
        .bind(session)
        .execute(pool)
        .await
        .unwrap();
    assert_eq!(changed.rows_affected(), 1);
}

async fn assert_denied_once(fleet: &Fleet, job: &str) {
    let exhausted = fleet.job_in(job, JobState::Exhausted).await;
    assert_eq!(exhausted.reason, "deadline");
    assert_eq!(fleet.kinds(job).await, ["job_admitted", "plan_frozen", "deadline_denied", "job_concluded"]);
}

#[tokio::test]
async fn a_job_that_no_worker_takes_is_exhausted_when_its_deadline_is_reached() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    let in_time = fleet.submit("plain").await;
    let deadline = Some(v1::submission::Deadline::NoDeadline(v1::NoDeadline {}));
    let without = v1::Submission { deadline, ..submission("plain") };
    let without = fleet.submit_with(without).await.unwrap().job_id;
    let late = fleet.submit("plain").await;
    let_deadline_pass(&pool, &fleet, &late).await;
    assert_denied_once(&fleet, &late).await;
    for waiting in [in_time, without] {
        assert_eq!(fleet.job(&waiting).await.state(), JobState::Ready);
        assert_eq!(fleet.records(&waiting).await.len(), 2);
    }
    let queued: i64 = sqlx::query_scalar("SELECT count(*) FROM ready").fetch_one(&pool).await.unwrap();
    assert_eq!(queued, 2);
}

#[tokio::test]
async fn a_job_that_fits_no_attached_worker_is_exhausted_when_its_deadline_is_reached() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    fleet.apply("picky", r#"{"command":["true"],"requires":["gpu"]}"#).await;
    let registration = register(&fleet.channel, introduction("without-gpu")).await;
    let mut worker = Worker::attach(&fleet.channel, &registration).await.unwrap();
    worker.want(4).await;
    let job = fleet.submit("picky").await;
    let_deadline_pass(&pool, &fleet, &job).await;
    assert_denied_once(&fleet, &job).await;
    assert_eq!(worker.grants_so_far().await, 0);
}

#[tokio::test]
async fn coordinators_that_find_the_same_overdue_jobs_conclude_each_once() {
    let fleet = Fleet::start().await;
    let _second = fleet.start_another().await;
    let _third = fleet.start_another().await;
    let pool = fleet.pool().await;
    let mut jobs = Vec::new();
    for _ in 0..100 {
        jobs.push(fleet.submit("plain").await);
    }
    sqlx::query("UPDATE sessions SET deadline_at = now()").execute(&pool).await.unwrap();
    for job in &jobs {
        assert_denied_once(&fleet, job).await;
    }
}
