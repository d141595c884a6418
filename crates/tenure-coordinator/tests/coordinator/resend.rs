//! The same report twice, late, through another coordinator, after a takeover, and by somebody who no longer holds the job.

use tenure_core::reason::Reason;
use tenure_proto::v1::{self, JobState, appended::Outcome, attach_request::Message as Request, run_end::How};

use crate::{
    fleet::{Fleet, reason},
    worker::{Worker, applied, end, gone, note},
};

#[tokio::test]
async fn an_append_that_is_sent_again_gets_its_first_answer() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let first = applied(worker.note(&grant, 1, "once").await);
    applied(worker.note(&grant, 2, "more").await);
    assert_eq!(applied(worker.note(&grant, 1, "once").await), first);
    assert_eq!(fleet.kinds(&job).await[3..], ["note", "note"]);
}

#[tokio::test]
async fn an_append_that_is_sent_again_through_another_coordinator_gets_its_first_answer() {
    let fleet = Fleet::start().await;
    let (_other, channel) = fleet.start_another().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let first = applied(worker.note(&grant, 1, "once").await);
    let mut moved = Worker::attach(&channel, &worker.registration).await.unwrap();
    assert_eq!(applied(moved.note(&grant, 1, "once").await), first);
    assert_eq!(applied(moved.note(&grant, 2, "then").await), first + 1);
    assert_eq!(fleet.kinds(&job).await[3..], ["note", "note"]);
}

#[tokio::test]
async fn an_append_that_is_sent_again_after_a_takeover_gets_its_first_answer_and_a_new_one_is_fenced() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let first = applied(worker.note(&grant, 1, "once").await);
    fleet.workers().report_gone(gone(&grant)).await.unwrap();
    let mut other = Worker::start(&fleet, "w2", 1).await;
    let taken = other.hear_grant().await;
    assert_eq!(taken.run.clone().unwrap().job_id, job);

    assert_eq!(applied(worker.note(&grant, 1, "once").await), first);
    match worker.note(&grant, 2, "too late").await {
        Outcome::Fenced(fenced) => {
            assert_eq!((fenced.held_by.as_str(), fenced.epoch), ("w2", taken.run.clone().unwrap().epoch));
        }
        other => panic!("fenced, and not {other:?}"),
    }
    let late = worker.end(&grant, 3, How::ExitCode(0)).await;
    assert!(matches!(late, Outcome::Fenced(_)), "{late:?}");
    applied(other.end(&taken, 1, How::ExitCode(0)).await);
    assert_eq!(fleet.job(&job).await.state(), JobState::Succeeded);
}

/// A statement that fails says nothing about the one report in it: refused for good, its run would be given up.
/// Provokes `INTERNAL`.
#[tokio::test]
async fn an_end_whose_statement_fails_is_not_refused_and_is_taken_when_it_comes_again() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let rename = async |sql: &'static str| sqlx::query(sql).execute(&pool).await.unwrap();
    rename("ALTER TABLE leases RENAME TO leases_elsewhere").await;
    worker.say(Request::EndRun(end(&grant, 1, How::ExitCode(0)))).await;
    assert_eq!(reason::<()>(Err(worker.hear_end().await)), Reason::Internal);
    rename("ALTER TABLE leases_elsewhere RENAME TO leases").await;
    let mut again = Worker::attach(&fleet.channel, &worker.registration).await.unwrap();
    applied(again.end(&grant, 1, How::ExitCode(0)).await);
    assert_eq!(fleet.job(&job).await.state(), JobState::Succeeded);
}

/// Provokes `APPEND_CONFLICT`.
#[tokio::test]
async fn the_same_number_with_other_contents_is_refused_on_every_coordinator() {
    let fleet = Fleet::start().await;
    let (_other, channel) = fleet.start_another().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    applied(worker.note(&grant, 1, "once").await);
    let refused = |outcome| match outcome {
        Outcome::Refused(refused) => refused.code,
        other => panic!("refused, and not {other:?}"),
    };
    assert_eq!(refused(worker.note(&grant, 1, "other").await), Reason::AppendConflict.code());
    let mut moved = Worker::attach(&channel, &worker.registration).await.unwrap();
    assert_eq!(refused(moved.note(&grant, 1, "other").await), Reason::AppendConflict.code());
    applied(moved.note(&grant, 5, "further").await);
    assert_eq!(refused(moved.note(&grant, 3, "skipped").await), Reason::AppendConflict.code());
}

#[tokio::test]
async fn an_end_that_is_sent_again_gets_its_first_answer_and_a_late_note_is_sealed_off() {
    let fleet = Fleet::start().await;
    let (_other, channel) = fleet.start_another().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let first = applied(worker.end(&grant, 1, How::ExitCode(0)).await);
    assert_eq!(applied(worker.end(&grant, 1, How::ExitCode(0)).await), first);
    let mut moved = Worker::attach(&channel, &worker.registration).await.unwrap();
    assert_eq!(applied(moved.end(&grant, 1, How::ExitCode(0)).await), first);
    let late = moved.note(&grant, 2, "too late").await;
    assert!(matches!(late, Outcome::Sealed(_)), "{late:?}");
}

#[tokio::test]
async fn many_reports_at_once_are_written_in_their_order() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 4).await;
    let mut grants = Vec::new();
    for _ in 0..4 {
        fleet.submit("plain").await;
        grants.push(worker.hear_grant().await);
    }
    for n in 1..=30 {
        for grant in &grants {
            worker.say(Request::Append(note(grant, n, &format!("note {n}")))).await;
        }
    }
    for grant in &grants {
        worker.say(Request::EndRun(end(grant, 31, How::ExitCode(0)))).await;
    }
    for grant in &grants {
        let job = grant.run.clone().unwrap().job_id;
        fleet.job_in(&job, JobState::Succeeded).await;
        let notes: Vec<String> = fleet
            .records(&job)
            .await
            .into_iter()
            .filter(|record| record.kind == "note")
            .map(|record| String::from_utf8(record.value.unwrap().to_vec()).unwrap())
            .collect();
        let expected: Vec<String> = (1..=30).map(|n| format!("note {n}")).collect();
        assert_eq!(notes, expected);
    }
}

#[tokio::test]
async fn a_report_about_a_job_that_never_was_is_answered_missing() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    fleet.submit("plain").await;
    let mut grant = worker.hear_grant().await;
    let run = grant.run.as_mut().unwrap();
    run.job_id = format!("{}000000000000", &run.job_id[..24]);
    let outcome = worker.note(&grant, 1, "to nobody").await;
    assert!(matches!(outcome, Outcome::Missing(_)), "{outcome:?}");
}

/// Provokes `NOTE_TOO_LARGE`.
#[tokio::test]
async fn what_can_never_be_a_note_is_refused_and_the_stream_goes_on() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let code = |outcome| match outcome {
        Outcome::Refused(v1::AppendRefused { code, .. }) => code,
        other => panic!("refused, and not {other:?}"),
    };
    assert_eq!(code(worker.note(&grant, 1, "  ").await), Reason::ReasonMissing.code());
    assert_eq!(code(worker.note(&grant, 1, &"x".repeat(16 * 1024 + 1)).await), Reason::NoteTooLarge.code());
    applied(worker.note(&grant, 1, "a good one").await);
}
