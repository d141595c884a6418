//! Jobs for handlers: who is offered them, and how they end.

use tenure_proto::v1::{self, JobState, run_end::How};

use crate::{
    fleet::Fleet,
    worker::{Worker, applied, introduction},
};

const MAILER: &str = r#"{"handler":"2","recovery":{"backoff":{"first":"10ms","max":"10ms"}}}"#;

/// A worker that holds the mailer in this version.
async fn start_holder(fleet: &Fleet, name: &str, version: &str) -> Worker {
    let labels = vec![format!("tenure.handler/mailer={version}")];
    Worker::start_as(fleet, v1::RegisterWorkerRequest { labels, ..introduction(name) }, 4).await
}

#[tokio::test]
async fn a_job_for_a_handler_waits_for_a_worker_that_holds_exactly_its_version() {
    let fleet = Fleet::start().await;
    fleet.apply("mailer", MAILER).await;
    let mut plain = Worker::start(&fleet, "w1", 4).await;
    let mut older = start_holder(&fleet, "w2", "1").await;
    let job = fleet.submit("mailer").await;
    // What the others could be offered instead goes through everything that an offer goes through.
    fleet.submit("plain").await;
    plain.hear_grant().await;
    let mut holder = start_holder(&fleet, "w3", "2").await;
    let grant = holder.hear_grant().await;
    assert_eq!(grant.run.unwrap().job_id, job);
    assert!(grant.session_started_at.is_some());
    assert_eq!((older.grants_so_far().await, plain.grants_so_far().await), (0, 0));
}

#[tokio::test]
async fn a_worker_that_holds_handlers_is_never_offered_a_process_also_at_its_submission() {
    let fleet = Fleet::start().await;
    fleet.apply("mailer", MAILER).await;
    let mut holder = start_holder(&fleet, "w1", "2").await;
    for _ in 0..20 {
        let process = fleet.submit("plain").await;
        let job = fleet.submit("mailer").await;
        let grant = holder.hear_grant().await;
        assert_eq!(grant.run.clone().unwrap().job_id, job);
        applied(holder.end(&grant, 1, How::ExitCode(0)).await);
        holder.want(1).await;
        assert_eq!(fleet.job(&process).await.state(), JobState::Ready);
    }
}

#[tokio::test]
async fn an_error_of_a_handler_restarts_its_job_and_a_final_one_fails_it() {
    let fleet = Fleet::start().await;
    fleet.apply("mailer", MAILER).await;
    let mut holder = start_holder(&fleet, "w1", "2").await;
    let job = fleet.submit("mailer").await;
    let failed =
        |error: &str, is_final| How::HandlerFailed(v1::HandlerFailed { error: error.into(), is_final });
    let first = holder.hear_grant().await;
    applied(holder.end(&first, 1, failed("no route", false)).await);
    let second = holder.hear_grant().await;
    assert!(second.brief.contains("its handler failed: no route"), "{}", second.brief);
    assert_eq!(second.attempt, 2);
    applied(holder.end(&second, 1, failed(&"no such mailbox ".repeat(1_000), true)).await);
    let job = fleet.job(&job).await;
    assert_eq!((job.state(), job.reason.as_str()), (JobState::Failed, "execution"));
    assert!(job.detail.starts_with("its handler failed for good: no such mailbox"), "{}", job.detail);
    assert!(job.detail.len() < 1_100, "{}", job.detail.len());
}
