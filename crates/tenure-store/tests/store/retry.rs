//! Batches that the database did not take: what is sent again, whole or in parts, and whom the failure of one spoils.

use std::time::Duration;

use tenure_store::{Append, AppendOutcome, Store, StoreError, StoreOptions};

use crate::{
    fence::{run_jobs, take_position},
    fleet::{Fleet, Holder, applied, patient_store, waiting_for_locks},
};

/// A store whose statements soon give up waiting for locks.
async fn impatient_store(fleet: &Fleet) -> Store {
    Store::connect(&waiting_for_locks(fleet, Duration::from_millis(200)), StoreOptions::default())
        .await
        .unwrap()
}

fn notes(holders: &mut [Holder]) -> Vec<Append> {
    holders.iter_mut().map(|holder| holder.notes(&["x"])).collect()
}

#[tokio::test]
async fn batch_that_the_database_does_not_answer_is_sent_once() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let batch = notes(&mut run_jobs(&fleet, &worker, 8).await);
    let mut lock = fleet.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE journal IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let (store, sent) = (patient_store(&fleet).await, batch.clone());
    let sent = tokio::spawn(async move { store.append_with_retry(&sent).await });
    fleet.wait_until_blocked("Writes a batch of appends").await;
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    assert_eq!(fleet.count(ended).await, 1);
    let report = sent.await.unwrap();
    assert_eq!(report.statements, 1);
    for outcome in &report.outcomes {
        assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
    }
    lock.rollback().await.unwrap();
    let again = fleet.store.append_with_retry(&batch).await;
    assert!(again.outcomes.into_iter().all(|outcome| applied(&outcome.unwrap()).is_some()));
}

#[tokio::test]
async fn jobs_that_somebody_keeps_locked_fail_alone_and_land_once_they_are_free() {
    let fleet = Fleet::start().await;
    let store = impatient_store(&fleet).await;
    let worker = fleet.attach("w1").await;
    let mut holders = run_jobs(&fleet, &worker, 100).await;
    for kept in [&[0][..], &[50], &[99], &[3, 4], &[10, 90], &[0, 50, 99]] {
        let batch = notes(&mut holders);
        let mut competitor = fleet.pool.begin().await.unwrap();
        for &index in kept {
            take_position(&mut competitor, &holders[index]).await;
        }
        let report = store.append_with_retry(&batch).await;
        for (index, outcome) in report.outcomes.iter().enumerate() {
            let as_expected = match outcome {
                Err(error @ StoreError::LockTimeout { .. }) => error.is_retryable() && kept.contains(&index),
                outcome => matches!(outcome, Ok(AppendOutcome::Applied { .. })) && !kept.contains(&index),
            };
            assert!(as_expected, "append {index} while {kept:?} are kept: {outcome:?}");
        }
        competitor.rollback().await.unwrap();
        let freed: Vec<_> = kept.iter().map(|&index| batch[index].clone()).collect();
        let again = store.append_with_retry(&freed).await;
        assert!(again.outcomes.into_iter().all(|outcome| applied(&outcome.unwrap()).is_some()));
    }
}

#[tokio::test]
async fn batch_for_a_table_that_is_locked_is_given_up_after_a_few_parts() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let batch = notes(&mut run_jobs(&fleet, &worker, 100).await);
    let mut lock = fleet.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE journal IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let report = impatient_store(&fleet).await.append_with_retry(&batch).await;
    assert_eq!(report.statements, 8);
    assert!(report.outcomes.iter().all(|outcome| outcome.as_ref().is_err_and(StoreError::is_retryable)));
    lock.rollback().await.unwrap();
    let again = fleet.store.append_with_retry(&batch).await;
    assert!(again.outcomes.into_iter().all(|outcome| applied(&outcome.unwrap()).is_some()));
}

/// From now on the database rolls back so many writing statements of the journal with this code.
async fn roll_back(fleet: &Fleet, code: &str, times: u32) {
    // A sequence is not rolled back with what took its number.
    let script = format!(
        "DROP SEQUENCE IF EXISTS refusals;
         CREATE SEQUENCE refusals;
         CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF nextval('refusals') <= {times} THEN RAISE EXCEPTION 'rolled back' USING ERRCODE = '{code}'; END IF;
             RETURN NULL;
         END $$;
         CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON journal FOR EACH STATEMENT EXECUTE FUNCTION refuse()"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(script)).execute(&fleet.pool).await.unwrap();
}

#[tokio::test]
async fn batch_that_was_rolled_back_in_favour_of_another_is_sent_again_whole_and_then_in_halves() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holders = run_jobs(&fleet, &worker, 8).await;
    for code in ["40P01", "40001", "23505"] {
        // Whole; whole again; halves.
        for (times, statements) in [(1, 2), (2, 4), (3, 5)] {
            roll_back(&fleet, code, times).await;
            let report = fleet.store.append_with_retry(&notes(&mut holders)).await;
            assert_eq!(report.statements, statements, "{code} {times} times");
            for outcome in report.outcomes {
                assert!(applied(&outcome.unwrap()).is_some(), "{code} {times} times");
            }
        }
    }
}

#[tokio::test]
async fn single_append_that_was_rolled_back_twice_may_be_sent_again() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let batch = notes(&mut run_jobs(&fleet, &worker, 1).await);
    for code in ["40P01", "40001"] {
        roll_back(&fleet, code, 2).await;
        let refused = fleet.store.append_with_retry(&batch).await.outcomes.remove(0).unwrap_err();
        assert!(matches!(refused, StoreError::Deadlock { .. }) && refused.is_retryable(), "{refused:?}");
    }
    let landed = fleet.store.append_with_retry(&batch).await.outcomes.remove(0).unwrap();
    assert!(applied(&landed).is_some());
}
