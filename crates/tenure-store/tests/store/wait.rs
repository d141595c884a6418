//! Waits: their rows come and go with the records that say so, and what is due is found.

use jiff::{SignedDuration, Timestamp};
use tenure_core::{
    handover::Cause,
    id::JobId,
    job::State,
    plan::{Changes, JobChange, LeaseChange, ReadyChange},
    record::{Draft, RecordKind},
    wait::{Wait, WokenBy},
};
use tenure_store::{Append, AppendOutcome, Guard};

use crate::fleet::{Fleet, Holder, now};

fn wait_until(until: Timestamp) -> Wait {
    Wait { name: "#1".parse().unwrap(), until, jobs: Vec::new() }
}

/// The end of a run that waits.
fn suspension(holder: &mut Holder, wait: Wait) -> Append {
    let records = holder.seal(vec![Draft::bare(RecordKind::Suspended { wait: wait.clone() })]);
    let job = JobChange { state: Some(State::Suspended), ..JobChange::default() };
    let changes =
        Changes { job: Some(job), lease: LeaseChange::Delete, wait: Some(wait), ..Changes::default() };
    let append = holder.append_of(records, changes);
    holder.advance(&append);
    append
}

/// Takes a suspended job into another state.
fn leave(holder: &Holder, state: State) -> Append {
    let draft = match state {
        State::Ready => RecordKind::Woken {
            wait: holder.head.seq,
            name: "#1".parse().unwrap(),
            due: Some(now()),
            outcomes: None,
        },
        outcome => RecordKind::JobConcluded { outcome, reason: None, result: None, output_chunks: None },
    };
    let (name, due) = ("#1".parse().unwrap(), Some(now()));
    let cause = Cause::Woken {
        previous: holder.run,
        wait: WokenBy { name, due, jobs: Vec::new(), count: 0 },
        attempt: 1,
    };
    let ready = match state {
        State::Ready => ReadyChange::Insert { cause, not_before: None },
        _ => ReadyChange::Keep,
    };
    let concluded = state != State::Ready;
    let cancel_requested_by_draft = (state == State::Cancelled).then_some(0);
    let job = JobChange { state: Some(state), concluded, cancel_requested_by_draft, ..JobChange::default() };
    let records = holder.seal(vec![Draft::bare(draft)]);
    let changes = Changes { job: Some(job), ready, ..Changes::default() };
    Append { guard: Guard::NoLease, ..holder.append_of(records, changes) }
}

async fn suspend(fleet: &Fleet, until: Timestamp) -> Holder {
    let worker = fleet.attach("w1").await;
    let mut holder = fleet.run_job(&worker).await;
    let outcome = fleet.append(suspension(&mut holder, wait_until(until))).await;
    assert!(matches!(outcome, AppendOutcome::Applied { .. }), "{outcome:?}");
    holder
}

fn in_seconds(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

#[tokio::test]
async fn a_suspended_job_has_its_wait_in_the_same_statement_and_is_in_no_queue() {
    let fleet = Fleet::start().await;
    let until = in_seconds(60);
    let holder = suspend(&fleet, until).await;
    let facts = fleet.facts(holder.job).await;
    let wait = facts.wait.expect("a wait");
    assert_eq!((facts.state, facts.lease), (State::Suspended, None));
    assert_eq!((wait.seq, wait.until, wait.jobs, wait.left), (holder.head.seq, until, 0, 0));
    assert_eq!(wait.name.as_str(), "#1");
    assert_eq!(fleet.count("SELECT count(*) FROM ready").await, 0);
}

#[tokio::test]
async fn whatever_takes_a_job_out_of_its_wait_leaves_no_row_of_it_behind() {
    let fleet = Fleet::start().await;
    for state in [State::Cancelled, State::Abandoned, State::Exhausted, State::Ready] {
        let holder = suspend(&fleet, in_seconds(60)).await;
        assert_eq!(fleet.count("SELECT count(*) FROM waits").await, 1, "{state}");
        let outcome = fleet.append(leave(&holder, state)).await;
        assert!(matches!(outcome, AppendOutcome::Applied { .. }), "{state}: {outcome:?}");
        assert_eq!(fleet.count("SELECT count(*) FROM waits").await, 0, "{state}");
        assert_eq!(fleet.facts(holder.job).await.wait, None, "{state}");
    }
}

#[tokio::test]
async fn an_append_to_one_job_leaves_the_waits_of_others() {
    let fleet = Fleet::start().await;
    let waiting = suspend(&fleet, in_seconds(60)).await;
    let worker = fleet.attach("w2").await;
    let mut other = fleet.run_job(&worker).await;
    fleet.append(other.success()).await;
    assert!(fleet.facts(waiting.job).await.wait.is_some());
}

#[tokio::test]
async fn waits_that_are_due_are_listed_with_the_earliest_first_and_the_next_instant_beside_them() {
    let fleet = Fleet::start().await;
    let next = in_seconds(30);
    let mut jobs: Vec<JobId> = Vec::new();
    for until in [in_seconds(-5), in_seconds(-60), next, in_seconds(600)] {
        jobs.push(suspend(&fleet, until).await.job);
    }
    let found = fleet.store.list_due_waits().await.unwrap();
    let due: Vec<_> = found.due.iter().map(|wait| wait.job).collect();
    assert_eq!((due, found.full, found.next_at), (vec![jobs[1], jobs[0]], false, Some(next)));
}

#[tokio::test]
async fn suspended_jobs_under_a_deadline_that_is_reached_are_found_and_no_others() {
    let fleet = Fleet::start().await;
    let in_time = suspend(&fleet, in_seconds(600)).await;
    let late = suspend(&fleet, in_seconds(600)).await;
    let session = fleet.facts(late.job).await.session;
    sqlx::query("UPDATE sessions SET deadline_at = statement_timestamp() WHERE session = $1")
        .bind(session.0)
        .execute(&fleet.pool)
        .await
        .unwrap();
    let page = fleet.store.list_overdue_waits(None).await.unwrap();
    let overdue: Vec<_> = page.overdue.iter().map(|facts| facts.job).collect();
    assert_eq!((overdue, page.next), (vec![late.job], None));
    assert_ne!(in_time.job, late.job);
}
