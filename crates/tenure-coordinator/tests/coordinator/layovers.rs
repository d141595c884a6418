//! Work that is set down: the success of the run that booked it makes it take effect, and one session picks it up, whatever
//! number of coordinators look.

use std::collections::BTreeSet;

use tenure_core::reason::Reason;
use tenure_proto::v1::{self, JobState, attach_request::Message, run_end::How, wait_until::When};
use tenure_testkit::wait_for;

use crate::{
    fleet::{Fleet, PATIENCE, reason, submission},
    worker::{Worker, applied, end},
};

const WAITING_FOR: &str = "the review of the release notes";

async fn book(fleet: &Fleet, grant: &v1::Grant, after_s: i64) -> Result<u64, tonic::Status> {
    let after = prost_types::Duration { seconds: after_s, nanos: 0 };
    let request = v1::BookLayoverRequest {
        run: grant.run.clone(),
        secret: grant.secret.clone(),
        until: Some(v1::WaitUntil { when: Some(When::After(after)) }),
        waiting_for: WAITING_FOR.into(),
    };
    Ok(fleet.workers().book_layover(request).await?.into_inner().seq)
}

async fn succeed(worker: &mut Worker, grant: &v1::Grant, booking_seq: u64) {
    let report = v1::EndRun { booking_seq, ..end(grant, 1, How::ExitCode(0)) };
    worker.say(Message::EndRun(report)).await;
    applied(worker.hear_appended(1).await);
}

/// A job that set its work down, and what that is known by.
async fn set_down(fleet: &Fleet, worker: &mut Worker) -> String {
    // Hundreds of them take longer than a term that nobody renews.
    worker.renew(None).await;
    let job = fleet.submit("plain").await;
    worker.want(1).await;
    let grant = worker.hear_grant().await;
    let seq = book(fleet, &grant, 3_000).await.unwrap();
    succeed(worker, &grant, seq).await;
    job
}

async fn count(pool: &sqlx::PgPool, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}

async fn make_due(pool: &sqlx::PgPool) -> u64 {
    let statement = "UPDATE layovers SET due_at = now(), try_at = now()";
    sqlx::query(statement).execute(pool).await.unwrap().rows_affected()
}

#[tokio::test]
async fn four_coordinators_make_five_hundred_sessions_of_five_hundred_layovers() {
    const LAYOVERS: i64 = 500;
    let fleet = Fleet::start().await;
    let _others = [fleet.start_another().await, fleet.start_another().await, fleet.start_another().await];
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let mut booked = BTreeSet::new();
    for _ in 0..LAYOVERS {
        booked.insert(set_down(&fleet, &mut worker).await);
    }
    let pool = fleet.pool().await;
    assert_eq!(make_due(&pool).await, LAYOVERS as u64);
    wait_for("everything to be picked up", PATIENCE, async || {
        let left = count(&pool, "SELECT count(*) FROM layovers").await;
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    assert_eq!(count(&pool, "SELECT count(*) FROM sessions").await, 2 * LAYOVERS);
    let picked: Vec<String> = sqlx::query_scalar(
        "SELECT convert_from(bytes, 'UTF8')::jsonb -> 'layover' ->> 'job' FROM journal
         WHERE kind = 'job_admitted' AND convert_from(bytes, 'UTF8')::jsonb ? 'layover'",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    assert_eq!(picked.len(), usize::try_from(LAYOVERS).unwrap());
    assert_eq!(picked.into_iter().collect::<BTreeSet<_>>(), booked, "each once");
}

#[tokio::test]
async fn what_was_set_down_is_picked_up_with_the_same_input_and_counts_its_checks() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let first = set_down(&fleet, &mut worker).await;
    let pool = fleet.pool().await;
    for check in 1..=2 {
        make_due(&pool).await;
        worker.want(1).await;
        let grant = worker.hear_grant().await;
        let job = grant.run.clone().unwrap().job_id;
        assert_ne!(job, first, "a session of its own");
        assert_eq!((&*grant.input, grant.attempt), (b"the input".as_slice(), 1));
        let handover: serde_json::Value = serde_json::from_slice(&grant.handover).unwrap();
        let cause = &handover["cause"];
        assert_eq!((&cause["kind"], &cause["waiting_for"]), (&"resumed".into(), &WAITING_FOR.into()));
        assert_eq!(cause["checks"], check - 1);
        assert!(grant.brief.contains(&format!("This is check {check}.")), "{}", grant.brief);
        let seq = book(&fleet, &grant, 3_000).await.unwrap();
        succeed(&mut worker, &grant, seq).await;
    }
}

#[tokio::test]
async fn only_the_success_of_the_run_that_booked_makes_its_last_booking_take_effect() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let job = fleet.submit("plain").await;
    worker.want(1).await;
    let grant = worker.hear_grant().await;
    book(&fleet, &grant, 60).await.unwrap();
    applied(worker.end(&grant, 1, How::ExitCode(3)).await);
    assert_eq!(count(&pool, "SELECT count(*) FROM layovers").await, 0);
    worker.want(1).await;
    let next = worker.hear_grant().await;
    assert!(
        next.brief.contains("That came to nothing") && next.brief.contains(WAITING_FOR),
        "{}",
        next.brief
    );
    let handover: serde_json::Value = serde_json::from_slice(&next.handover).unwrap();
    assert_eq!(handover["voided_booking"]["run"], 1);
    book(&fleet, &next, 60).await.unwrap();
    let last = book(&fleet, &next, 600).await.unwrap();
    succeed(&mut worker, &next, last).await;
    assert_eq!(fleet.job(&job).await.state(), JobState::Succeeded);
    let seqs: Vec<i64> = sqlx::query_scalar("SELECT seq FROM layovers").fetch_all(&pool).await.unwrap();
    assert_eq!(seqs, [last as i64]);
}

#[tokio::test]
async fn a_pick_up_that_is_refused_stays_due_says_why_and_is_made_once_nothing_stands_against_it() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    set_down(&fleet, &mut worker).await;
    let pool = fleet.pool().await;
    sqlx::query("DELETE FROM agents WHERE agent = 'plain'").execute(&pool).await.unwrap();
    make_due(&pool).await;
    let (code, why): (String, String) = wait_for("the pick-up to be refused", PATIENCE, async || {
        let row = sqlx::query_as("SELECT code, why FROM layovers WHERE refusals > 0").fetch_optional(&pool);
        row.await.unwrap().ok_or("it was not")
    })
    .await;
    assert_eq!((code.as_str(), why.contains("plain")), (Reason::UnknownAgent.code(), true), "{why}");
    fleet.apply("plain", crate::fleet::PLAIN_AGENT).await;
    worker.want(1).await;
    let grant = worker.hear_grant().await;
    assert!(grant.brief.contains("picking up work"), "{}", grant.brief);
}

#[tokio::test]
async fn work_is_set_down_to_no_instant_that_is_over_or_beyond_a_deadline_that_is_one() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let at = std::time::SystemTime::now() + std::time::Duration::from_secs(600);
    let deadline = Some(v1::submission::Deadline::DeadlineAt(at.into()));
    fleet.submit_with(v1::Submission { deadline, ..submission("plain") }).await.unwrap();
    worker.want(1).await;
    let grant = worker.hear_grant().await;
    for after_s in [0, 700, 40 * 86_400] {
        assert_eq!(reason(book(&fleet, &grant, after_s).await), Reason::WaitOutOfBounds, "{after_s} s");
    }
    assert!(book(&fleet, &grant, 500).await.is_ok());
    let with_a_span = {
        fleet.submit("plain").await;
        worker.want(1).await;
        worker.hear_grant().await
    };
    assert!(book(&fleet, &with_a_span, 7_200).await.is_ok(), "the next session has its deadline anew");
}
