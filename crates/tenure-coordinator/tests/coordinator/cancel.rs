//! Cancelling: a ready job at once, a running one through its worker.

use tenure_core::reason::Reason;
use tenure_proto::v1::{
    self, JobState, appended::Outcome, attach_request::Message as Request, order::Order, run_end::How,
};

use crate::{
    fleet::{Fleet, reason},
    worker::{Worker, applied, end},
};

/// Provokes `VERB_NOT_ALLOWED`.
#[tokio::test]
async fn a_ready_job_is_cancelled_at_once_and_never_granted() {
    let fleet = Fleet::start().await;
    let cancelled = fleet.submit("plain").await;
    let response = fleet.cancel(&cancelled).await.unwrap();
    assert_eq!((response.job.unwrap().state(), response.already_requested), (JobState::Cancelled, false));
    let kept = fleet.submit("plain").await;
    let mut worker = Worker::start(&fleet, "w1", 2).await;
    assert_eq!(worker.hear_grant().await.run.unwrap().job_id, kept);
    assert_eq!(reason(fleet.cancel(&cancelled).await), Reason::VerbNotAllowed);
}

#[tokio::test]
async fn a_running_job_is_cancelled_once_its_worker_has_seen_the_notice() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let asked = fleet.cancel(&job).await.unwrap();
    assert_eq!(asked.job.as_ref().map(v1::Job::state), Some(JobState::Running));
    assert!(asked.job.unwrap().cancel_requested);
    assert!(fleet.cancel(&job).await.unwrap().already_requested);

    let order = worker.hear_order().await;
    assert_eq!(order.run, grant.run);
    let Some(Order::Notice(notice)) = order.order else { panic!("a notice, and not {order:?}") };
    assert_eq!((notice.seq, notice.kind.as_str()), (grant.seq + 1, "cancel_requested"));
    match worker.end(&grant, 1, How::ExitCode(0)).await {
        Outcome::Notice(unseen) => assert_eq!(unseen, notice),
        other => panic!("the notice, and not {other:?}"),
    }
    let seen =
        v1::EndRun { last_notice_seq: notice.seq, ..end(&grant, 1, How::Cancel(v1::CancelObserved {})) };
    worker.say(Request::EndRun(seen)).await;
    applied(worker.hear_appended(1).await);
    assert_eq!(fleet.job(&job).await.state(), JobState::Cancelled);
    assert_eq!(fleet.kinds(&job).await[3..], ["cancel_requested", "child_gone", "job_concluded"]);
}

#[tokio::test]
async fn a_notice_to_a_living_run_fences_nobody_and_comes_with_each_renewal() {
    let fleet = Fleet::start().await;
    let (_other, channel) = fleet.start_another().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    // Asked for at another coordinator, so that only the renewal can tell.
    let mut elsewhere = v1::job_service_client::JobServiceClient::new(channel);
    let request = v1::CancelJobRequest { job: job.clone(), why: "no longer wanted".into() };
    elsewhere.cancel_job(request).await.unwrap();
    for _ in 0..2 {
        let renewed = worker.renew(Some(vec![grant.run.clone().unwrap()])).await;
        assert_eq!(renewed.orders.len(), 1);
        assert!(
            matches!(&renewed.orders[0].order, Some(Order::Notice(notice)) if notice.seq == grant.seq + 1)
        );
    }
    assert_eq!(applied(worker.note(&grant, 1, "still here").await), grant.seq + 2);
    let unseen = worker.end(&grant, 2, How::ExitCode(0)).await;
    assert!(matches!(unseen, Outcome::Notice(_)), "{unseen:?}");
}

/// Provokes `REASON_MISSING`.
#[tokio::test]
async fn a_cancel_needs_a_reason_and_a_job() {
    let fleet = Fleet::start().await;
    let job = fleet.submit("plain").await;
    let blank = v1::CancelJobRequest { job, why: " ".into() };
    assert_eq!(reason(fleet.jobs().cancel_job(blank).await), Reason::ReasonMissing);
    assert_eq!(reason(fleet.cancel("0193a7c2-1111-7000-8000-00000000abcd").await), Reason::JobNotFound);
}
