//! Redirecting jobs, and moving runs: what is said over the wire, what stands for a run that does not answer, and what the next
//! run is told.

use tenure_core::{limits::NOTE_MAX_BYTES, reason::Reason};
use tenure_proto::v1::{
    self, JobState, attach_request::Message as Request, order::Order, renewed::Outcome as Renewal,
    run_end::How,
};
use tonic::Status;

use crate::{
    fleet::{Fleet, reason},
    worker::{Worker, applied, end, gone},
};

async fn steer(fleet: &Fleet, job: &str, note: &str) -> Result<v1::Job, Status> {
    let request = v1::SteerJobRequest { job: job.into(), note: note.into() };
    Ok(fleet.jobs().steer_job(request).await?.into_inner().job.unwrap())
}

async fn start() -> (Fleet, Worker) {
    let fleet = Fleet::start().await;
    fleet.apply("plain", r#"{"command":["true"]}"#).await;
    let worker = Worker::start(&fleet, "w1", 0).await;
    (fleet, worker)
}

async fn run(fleet: &Fleet, worker: &mut Worker) -> (String, v1::Grant) {
    let job = fleet.submit("plain").await;
    worker.want(1).await;
    (job, worker.hear_grant().await)
}

/// The cause in a grant's handover.
fn cause(grant: &v1::Grant) -> serde_json::Value {
    serde_json::from_slice::<serde_json::Value>(&grant.handover).unwrap()["cause"].clone()
}

#[tokio::test]
async fn a_redirected_run_is_asked_wherever_its_worker_is_attached_and_the_next_one_is_told_the_last_note() {
    let (fleet, mut worker) = start().await;
    let (_other, channel) = fleet.start_another().await;
    let (job, grant) = run(&fleet, &mut worker).await;
    let asked = steer(&fleet, &job, "use the\nrelease branch").await.unwrap();
    assert!(asked.steer_requested && asked.state() == JobState::Running, "{asked:?}");
    let again = steer(&fleet, &job, "and tag it").await.unwrap();
    let mut elsewhere = Worker::attach(&channel, &worker.registration).await.unwrap();
    let renewed = elsewhere.renew(Some(vec![grant.run.clone().unwrap()])).await;
    assert!(matches!(renewed.outcome, Some(Renewal::Renewed(_))), "{renewed:?}");
    let Some(Order::Notice(notice)) = &renewed.orders[0].order else { panic!("a notice: {renewed:?}") };
    assert_eq!((notice.kind.as_str(), notice.seq), ("steered", again.head_seq));
    // The first note alone was seen, and what is noted at the end is taken.
    applied(elsewhere.note(&grant, 1, "half way").await);
    let mut over = end(&grant, 2, How::ExitCode(0));
    over.last_notice_seq = asked.head_seq;
    elsewhere.say(Request::EndRun(over.clone())).await;
    assert_eq!(elsewhere.hear_appended(2).await, v1::appended::Outcome::Notice(notice.clone()));
    over.last_notice_seq = notice.seq;
    elsewhere.say(Request::EndRun(over)).await;
    applied(elsewhere.hear_appended(2).await);
    elsewhere.want(1).await;
    let next = elsewhere.hear_grant().await;
    let told = cause(&next);
    assert_eq!((&told["kind"], &told["note"]), (&"steered".into(), &"and tag it".into()), "{told}");
    assert!(next.brief.contains("> and tag it\n") && next.brief.contains("> use the\n> release branch\n"));
    assert!(next.brief.contains("- run 1: half way\n"), "{}", next.brief);
    assert_eq!(next.attempt, 1);
    let kinds = fleet.kinds(&job).await;
    let wanted = ["steered", "steered", "note", "child_gone", "run_handed_over", "run_started"];
    assert_eq!(kinds[3..], wanted);
}

#[tokio::test]
async fn a_run_that_does_not_answer_a_steer_is_fenced_and_the_note_waits_until_its_child_is_gone() {
    let (fleet, mut worker) = start().await;
    let (job, grant) = run(&fleet, &mut worker).await;
    steer(&fleet, &job, "the other branch").await.unwrap();
    // Its agent has the default stop-grace of 10 s: 24 s are not enough.
    let pool = fleet.pool().await;
    let age = async |seconds: f64| {
        let aged = "UPDATE leases SET steered_at = now() - make_interval(secs => $1)";
        sqlx::query(aged).bind(seconds).execute(&pool).await.unwrap();
    };
    age(20.0).await;
    applied(worker.note(&grant, 1, "still here").await);
    age(26.0).await;
    let interrupted = fleet.job_in(&job, JobState::Interrupted).await;
    assert_eq!(interrupted.reason, "child_unaccounted_for");
    assert_eq!(reason(steer(&fleet, &job, "now").await), Reason::ChildUnaccountedFor);
    let late = worker.end(&grant, 2, How::ExitCode(0)).await;
    assert!(matches!(late, v1::appended::Outcome::Fenced(_)), "{late:?}");
    fleet.workers().report_gone(gone(&grant)).await.unwrap();
    worker.want(1).await;
    let next = worker.hear_grant().await;
    assert_eq!(cause(&next)["note"], "the other branch");
}

#[tokio::test]
async fn a_job_that_waits_is_begun_with_the_note() {
    let (fleet, mut worker) = start().await;
    let job = fleet.submit("plain").await;
    assert_eq!(steer(&fleet, &job, " the other branch\n").await.unwrap().state(), JobState::Ready);
    worker.want(1).await;
    let grant = worker.hear_grant().await;
    let told = cause(&grant);
    assert_eq!((&told["note"], &told["previous"]), (&"the other branch".into(), &serde_json::Value::Null));
    assert!(!grant.brief.contains("new process"), "{}", grant.brief);
}

/// Provokes `NOTE_TOO_LARGE`.
#[tokio::test]
async fn a_note_that_says_nothing_or_too_much_is_refused_and_the_run_goes_on() {
    let (fleet, mut worker) = start().await;
    let (job, grant) = run(&fleet, &mut worker).await;
    let before = fleet.records(&job).await.len();
    assert_eq!(reason(steer(&fleet, &job, " \n").await), Reason::ReasonMissing);
    for bytes in [NOTE_MAX_BYTES + 1, 1024 * 1024] {
        assert_eq!(reason(steer(&fleet, &job, &"x".repeat(bytes)).await), Reason::NoteTooLarge);
    }
    assert_eq!(fleet.records(&job).await.len(), before);
    fleet.cancel(&job).await.unwrap();
    assert_eq!(reason(steer(&fleet, &job, "too late").await), Reason::CancelRequested);
    applied(worker.note(&grant, 1, "goes on").await);
}

#[tokio::test]
async fn a_run_that_is_moved_is_told_so_and_uses_nothing_up() {
    let (fleet, mut worker) = start().await;
    let (job, grant) = run(&fleet, &mut worker).await;
    applied(worker.note(&grant, 1, "half way").await);
    applied(worker.end(&grant, 2, How::ContactLost(v1::ContactLost { drained: true })).await);
    worker.want(1).await;
    let next = worker.hear_grant().await;
    let told = cause(&next);
    assert_eq!((&told["kind"], &told["previous"], next.attempt), (&"drained".into(), &1.into(), 1));
    assert!(next.brief.contains("was moved") && next.brief.contains("- run 1: half way\n"));
    let row: (i32, i32, i32) = sqlx::query_as("SELECT attempts, losses, hops_left FROM jobs")
        .fetch_one(&fleet.pool().await)
        .await
        .unwrap();
    assert_eq!(row, (0, 0, 8));
    assert_eq!(fleet.kinds(&job).await[4..], ["child_gone", "run_handed_over", "run_started"]);
}
