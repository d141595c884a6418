//! Runs that their holder does not end: a guardian reports, a term lapses, a person vouches.

use sqlx::PgPool;
use tenure_core::{limits::SWEEP_MAX_LEASES, reason::Reason};
use tenure_proto::v1::{
    self, JobState, attach_request::Message as Request, order::Order, renewed::Outcome as Renewal,
    run_end::How,
};

use crate::{
    fleet::{Fleet, reason, submission},
    worker::{Worker, applied, gone, introduction, register},
};

/// A worker with the shortest term, fenced like this.
async fn start_mortal(fleet: &Fleet, fencing: v1::Fencing) -> Worker {
    let request = v1::RegisterWorkerRequest {
        ttl: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
        fencing: fencing.into(),
        ..introduction("mortal")
    };
    let registration = register(&fleet.channel, request).await;
    let mut worker = Worker::attach(&fleet.channel, &registration).await.unwrap();
    worker.want(1).await;
    worker
}

/// The worker's term lapses now, as if it had not renewed for long.
async fn let_term_lapse(pool: &PgPool, worker: &Worker) {
    sqlx::query("UPDATE terms SET expires_at = now() WHERE term = $1")
        .bind(i64::try_from(worker.registration.term).unwrap())
        .execute(pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_guardians_report_settles_the_run_and_the_next_one_is_told() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    applied(worker.note(&grant, 1, "the branch exists").await);
    let mut other = Worker::start(&fleet, "w2", 1).await;
    let response = fleet.workers().report_gone(gone(&grant)).await.unwrap().into_inner();
    assert!(!response.already_known);
    let next = other.hear_grant().await;
    let run = next.run.clone().unwrap();
    assert_eq!(
        (run.job_id.as_str(), run.run, run.epoch),
        (job.as_str(), 2, grant.run.clone().unwrap().epoch + 2)
    );
    assert!(next.brief.contains("the branch exists"), "{}", next.brief);
    assert_eq!(fleet.job(&job).await.losses, 1);
    let again = fleet.workers().report_gone(gone(&grant)).await.unwrap().into_inner();
    assert!(again.already_known);
    assert_eq!(fleet.kinds(&job).await[4..], ["child_gone", "run_interrupted", "run_started"]);
    let order = worker.hear_order().await;
    assert!(matches!(order.order, Some(Order::Fenced(_))), "{order:?}");
}

/// Provokes `GONE_REFUSED`.
#[tokio::test]
async fn a_report_without_the_secret_of_its_run_is_refused_and_changes_nothing() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let forged = v1::ReportGoneRequest { secret: vec![0; 32].into(), ..gone(&grant) };
    assert_eq!(reason(fleet.workers().report_gone(forged).await), Reason::GoneRefused);
    let stale = v1::ReportGoneRequest { epoch: 9, ..gone(&grant) };
    assert_eq!(reason(fleet.workers().report_gone(stale).await), Reason::GoneRefused);
    assert_eq!(fleet.job(&job).await.state(), JobState::Running);
    applied(worker.end(&grant, 1, How::ExitCode(0)).await);
}

#[tokio::test]
async fn a_report_about_an_earlier_run_never_touches_a_later_one() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 2).await;
    let job = fleet.submit("plain").await;
    let first = worker.hear_grant().await;
    fleet.workers().report_gone(gone(&first)).await.unwrap();
    let second = worker.hear_grant().await;
    assert!(fleet.workers().report_gone(gone(&first)).await.unwrap().into_inner().already_known);
    applied(worker.end(&second, 1, How::ExitCode(0)).await);
    assert_eq!(fleet.job(&job).await.state(), JobState::Succeeded);
}

#[tokio::test]
async fn a_lapsed_term_is_closed_and_its_run_starts_again_elsewhere() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    let mut worker = start_mortal(&fleet, v1::Fencing::Guardian).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    applied(worker.note(&grant, 1, "the branch exists").await);
    let mut other = Worker::start(&fleet, "w2", 1).await;
    let_term_lapse(&pool, &worker).await;
    let next = other.hear_grant().await;
    assert_eq!(next.run.clone().unwrap().job_id, job);
    assert!(next.brief.contains("the branch exists"), "{}", next.brief);
    let renewed = worker.renew(None).await;
    assert!(matches!(renewed.outcome, Some(Renewal::Closed(_))), "{renewed:?}");
    applied(other.end(&next, 1, How::ExitCode(0)).await);
    let kinds = fleet.kinds(&job).await;
    assert_eq!(kinds[4..], ["child_gone", "run_interrupted", "run_started", "job_concluded"]);
}

/// As many as one page of the sweep has, and older.
#[tokio::test]
async fn a_lapsed_run_is_settled_past_those_that_cannot_be() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    let unreadable = SWEEP_MAX_LEASES as usize;
    let request = v1::SubmitJobsRequest { submissions: vec![submission("plain"); unreadable] };
    fleet.jobs().submit_jobs(request).await.unwrap();
    sqlx::query("UPDATE jobs SET recovery = '{}'").execute(&pool).await.unwrap();
    let job = fleet.submit("plain").await;
    let introduced = v1::RegisterWorkerRequest {
        ttl: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
        slots: SWEEP_MAX_LEASES + 1,
        ..introduction("mortal")
    };
    let registration = register(&fleet.channel, introduced).await;
    let mut worker = Worker::attach(&fleet.channel, &registration).await.unwrap();
    worker.want(SWEEP_MAX_LEASES + 1).await;
    while worker.hear_grant().await.run.unwrap().job_id != job {}
    fleet.job_in(&job, JobState::Ready).await;
    assert_eq!(fleet.kinds(&job).await[3..], ["child_gone", "run_interrupted"]);
    let held: i64 = sqlx::query_scalar("SELECT count(*) FROM leases").fetch_one(&pool).await.unwrap();
    assert_eq!(held, i64::from(SWEEP_MAX_LEASES), "they wait for a release that can read them");
}

#[tokio::test]
async fn a_term_that_lapsed_and_is_not_closed_is_revived_by_a_renewal() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    // With a ttl of 30 s the coordinator has not watched long enough to close it.
    let_term_lapse(&pool, &worker).await;
    let renewed = worker.renew(None).await;
    assert!(matches!(renewed.outcome, Some(Renewal::Renewed(_))), "{renewed:?}");
    applied(worker.end(&grant, 1, How::ExitCode(0)).await);
}

/// Provokes `CHILD_UNACCOUNTED_FOR` and `EPOCH_MISMATCH`.
#[tokio::test]
async fn an_unfenced_child_is_not_restarted_until_a_person_vouches_for_it() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    let mut worker = start_mortal(&fleet, v1::Fencing::None).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let epoch = grant.run.clone().unwrap().epoch;
    let_term_lapse(&pool, &worker).await;
    let interrupted = fleet.job_in(&job, JobState::Interrupted).await;
    assert!(interrupted.holder.is_some_and(|holder| !holder.live && holder.epoch == epoch));
    assert!(interrupted.next[0].contains("confirm-gone"), "{:?}", interrupted.next);
    let why = "looked at the host";
    let recover = v1::RecoverJobRequest { job: job.clone(), why: why.into() };
    assert_eq!(reason(fleet.jobs().recover_job(recover).await), Reason::ChildUnaccountedFor);
    let vouch = |epoch| v1::ConfirmGoneRequest { job: job.clone(), epoch, why: why.into() };
    assert_eq!(reason(fleet.jobs().confirm_gone(vouch(epoch + 1)).await), Reason::EpochMismatch);
    fleet.jobs().confirm_gone(vouch(epoch)).await.unwrap();
    let mut other = Worker::start(&fleet, "w2", 1).await;
    let next = other.hear_grant().await;
    assert_eq!(next.run.clone().unwrap().job_id, job);
    applied(other.end(&next, 1, How::ExitCode(0)).await);
}

#[tokio::test]
async fn a_job_whose_policy_wants_a_person_is_restarted_by_recover() {
    let fleet = Fleet::start().await;
    fleet.apply("careful", r#"{"command":["false"],"recovery":{"policy":"manual"}}"#).await;
    let mut worker = Worker::start(&fleet, "w1", 2).await;
    let job = fleet.submit("careful").await;
    let grant = worker.hear_grant().await;
    applied(worker.end(&grant, 1, How::ExitCode(1)).await);
    assert_eq!(fleet.job(&job).await.state(), JobState::Interrupted);
    let request = v1::RecoverJobRequest { job: job.clone(), why: "the host is fixed".into() };
    let recovered = fleet.jobs().recover_job(request).await.unwrap().into_inner().job.unwrap();
    assert!(matches!(recovered.state(), JobState::Ready | JobState::Running));
    let next = worker.hear_grant().await;
    assert_eq!((next.run.clone().unwrap().run, next.attempt), (2, 2));
}

#[tokio::test]
async fn two_coordinators_that_sweep_at_once_settle_a_run_once() {
    let fleet = Fleet::start().await;
    let _second = fleet.start_another().await;
    let _third = fleet.start_another().await;
    let pool = fleet.pool().await;
    let mut worker = start_mortal(&fleet, v1::Fencing::Kernel).await;
    let job = fleet.submit("plain").await;
    worker.hear_grant().await;
    let_term_lapse(&pool, &worker).await;
    fleet.job_in(&job, JobState::Ready).await;
    let interruptions = fleet.kinds(&job).await.into_iter().filter(|kind| kind == "run_interrupted").count();
    assert_eq!(interruptions, 1);
}

#[tokio::test]
async fn a_guardian_that_reports_late_accounts_for_a_child_that_was_unknown() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    let mut worker = start_mortal(&fleet, v1::Fencing::None).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let_term_lapse(&pool, &worker).await;
    fleet.job_in(&job, JobState::Interrupted).await;
    assert_eq!(reason(fleet.cancel(&job).await), Reason::ChildUnaccountedFor);
    assert!(!fleet.workers().report_gone(gone(&grant)).await.unwrap().into_inner().already_known);
    let mut other = Worker::start(&fleet, "w2", 1).await;
    assert_eq!(other.hear_grant().await.run.unwrap().job_id, job);
}

#[tokio::test]
async fn a_cancel_that_stands_when_the_worker_is_lost_is_carried_out_once_the_child_is_gone() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    fleet.cancel(&job).await.unwrap();
    fleet.workers().report_gone(gone(&grant)).await.unwrap();
    assert_eq!(fleet.job(&job).await.state(), JobState::Cancelled);
}

#[tokio::test]
async fn a_grant_that_left_a_note_is_interrupted_and_never_released_as_not_started() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    applied(worker.note(&grant, 1, "started").await);
    worker.say(Request::NotMine(v1::NotMine { run: grant.run.clone() })).await;
    let interrupted = fleet.job_in(&job, JobState::Interrupted).await;
    assert!(interrupted.holder.is_some_and(|holder| !holder.live));
}
