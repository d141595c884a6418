//! Crash points of a job that was written through the store alone: what a rebuilt prefix is, and that each dishonesty is found.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod story;

use tenure_core::{id::Epoch, job::State};
use tenure_testkit::{
    CrashPoint, EffectAtPoint, RebuiltJob, assert_resumed_honestly, check_chains, list_dishonesties,
};

use crate::story::{Story, kinds_and_epochs, raw_records};

const SUCCEEDED: Result<State, String> = Ok(State::Succeeded);

#[tokio::test]
async fn every_prefix_is_rebuilt_as_the_job_wrote_it() {
    let story = Story::write().await;
    let points = story.points().await;
    let original = kinds_and_epochs(&story.pool).await;
    assert_eq!(points.len(), original.len() - 1);
    for (point, appended) in points.iter().zip(1..) {
        let rebuilt = point.rebuild().await.unwrap();
        assert_eq!(point.appended, appended);
        assert_eq!(kinds_and_epochs(&rebuilt.pool).await, original[..appended], "{point}");
        assert_eq!(check_chains(&rebuilt.pool).await.unwrap(), Vec::new(), "{point}");
        assert_eq!(rebuilt.state().await.unwrap(), State::Ready, "{point}");
        let leases: i64 =
            sqlx::query_scalar("SELECT count(*) FROM leases").fetch_one(&rebuilt.pool).await.unwrap();
        assert_eq!(leases, 0, "{point}: the crash left a lease");
    }
}

#[tokio::test]
async fn everything_but_a_claim_is_the_same_to_the_byte_with_its_value_and_salt() {
    let story = Story::write().await;
    let points = story.points().await;
    let rebuilt = points.last().unwrap().rebuild().await.unwrap();
    let (was, is) = (raw_records(&story.pool).await, raw_records(&rebuilt.pool).await);
    for (was, is) in was.iter().zip(&is) {
        // A claim is made again, under a term of the other database.
        if was.kind != "run_started" {
            assert_eq!(was, is);
        }
    }
    assert_eq!(is.len(), was.len() - 1);
}

#[tokio::test]
async fn a_point_knows_what_was_done_and_what_was_in_flight() {
    let story = Story::write().await;
    let seen: Vec<String> = story.points().await.iter().map(describe).collect();
    let expected = [
        "1: no plan; done: ; in flight: ",
        "2: done: ; in flight: ",
        "3: done: ; in flight: ",
        "4: done: ; in flight: ",
        "5: done: ; in flight: charge 1",
        "6: done: charge 1; in flight: ",
        "7: done: charge 1; in flight: mail 1",
        "8: done: charge 1; in flight: mail 1",
        "9: done: charge 1; in flight: mail 1",
        "10: done: charge 1; in flight: mail 1",
        "11: done: charge 1; in flight: ",
        "12: done: charge 1; in flight: mail 2",
        "13: done: charge 1, mail 2; in flight: ",
        "14: done: charge 1, mail 2; in flight: look 1",
        "15: done: charge 1, look 1, mail 2; in flight: ",
    ];
    assert_eq!(seen, expected);
}

fn describe(point: &CrashPoint) -> String {
    let keys = |effects: Vec<EffectAtPoint>| {
        let keys = effects.iter().map(|effect| format!("{} {}", effect.key, effect.last.attempt));
        keys.collect::<Vec<_>>().join(", ")
    };
    let plan = if point.froze_a_plan() { "" } else { "no plan; " };
    format!("{}: {plan}done: {}; in flight: {}", point.appended, keys(point.done()), keys(point.in_flight()))
}

#[tokio::test]
async fn databases_serve_one_point_after_another_and_nobody_finds_back() {
    let story = Story::write().await;
    let points = story.points().await;
    let first = points[6].rebuild().await.unwrap();
    let address = first.url().to_owned();
    let watching = first.pool.clone();
    drop(first);
    let second = points[2].rebuild().await.unwrap();
    assert_eq!(kinds_and_epochs(&second.pool).await.len(), 3);
    assert_ne!(second.url(), address);
    let lost = sqlx::query("SELECT count(*) FROM jobs").execute(&watching).await;
    assert!(lost.is_err(), "whoever was connected before is not any more");
}

/// A point after everything was claimed, in flight and done, with its job.
async fn rebuild_late() -> (Story, CrashPoint, RebuiltJob) {
    let story = Story::write().await;
    let point = story.points().await.pop().unwrap();
    let rebuilt = point.rebuild().await.unwrap();
    (story, point, rebuilt)
}

async fn dishonesties(point: &CrashPoint, rebuilt: &RebuiltJob, result: &Result<State, String>) -> String {
    list_dishonesties(point, rebuilt, result).await.unwrap().join("; ")
}

#[tokio::test]
async fn a_resume_that_ends_well_is_honest() {
    let (_story, point, rebuilt) = rebuild_late().await;
    assert_resumed_honestly(&point, &rebuilt, &SUCCEEDED).await;
}

#[tokio::test]
async fn an_error_is_honest_only_before_a_plan_was_frozen() {
    let story = Story::write().await;
    let points = story.points().await;
    let failed = Err("nobody answers".to_owned());
    let (unplanned, planned) = (points[0].rebuild().await.unwrap(), points[1].rebuild().await.unwrap());
    assert_eq!(dishonesties(&points[0], &unplanned, &failed).await, "");
    let found = dishonesties(&points[1], &planned, &failed).await;
    assert!(found.contains("error, although a plan was frozen: nobody answers"), "{found}");
}

#[tokio::test]
async fn a_quarantine_is_honest_only_where_something_that_mutates_was_in_flight() {
    let story = Story::write().await;
    let quarantined = Ok(State::Quarantined);
    for point in story.points().await {
        let rebuilt = point.rebuild().await.unwrap();
        let found = dishonesties(&point, &rebuilt, &quarantined).await;
        let in_flight = point.in_flight().iter().any(|effect| effect.last.mutates);
        assert_eq!(found.is_empty(), in_flight, "{point}: {found}");
    }
}

#[tokio::test]
#[should_panic(expected = "was not resumed honestly: the chain:")]
async fn a_chain_that_was_edited_is_no_honest_resume() {
    let (_story, point, rebuilt) = rebuild_late().await;
    sqlx::query("UPDATE journal SET bytes = bytes || '\\x20' WHERE seq = 3")
        .execute(&rebuilt.pool)
        .await
        .unwrap();
    assert_resumed_honestly(&point, &rebuilt, &SUCCEEDED).await;
}

#[tokio::test]
async fn a_claim_that_leaves_an_epoch_out_is_found() {
    let (story, point, rebuilt) = rebuild_late().await;
    story.claim_in(&rebuilt, Epoch(1)).await;
    let found = dishonesties(&point, &rebuilt, &SUCCEEDED).await;
    assert!(found.contains("and the crash left epoch"), "{found}");
}

#[tokio::test]
async fn an_effect_that_was_done_and_is_announced_again_is_found_where_no_check_stands_in_its_way() {
    let (story, point, rebuilt) = rebuild_late().await;
    story.announce_again_in(&rebuilt).await;
    let found = dishonesties(&point, &rebuilt, &SUCCEEDED).await;
    assert!(found.contains("charge was done, and record"), "{found}");
}
