//! Appends: what is admitted, what is refused and how it is told, and what follows in the derived rows.

use tenure_core::{
    chain::Head,
    id::{Digest, Epoch, Generation, JobId, Seq, Term},
    job::State,
    plan::{Changes, JobChange, LeaseChange, ReadyChange},
    record::{Draft, KeptValue, RecordKind},
    recovery::{GoneProof, Interruption},
};
use tenure_store::{Append, AppendOutcome, Guard, StoreError};
use uuid::Uuid;

use crate::fleet::{Fleet, by, concluded, gone};

#[tokio::test]
async fn holders_appends_land_one_after_the_other() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    assert_eq!(fleet.append(holder.notes(&["one"])).await, AppendOutcome::Applied { seq: Seq(4) });
    assert_eq!(fleet.append(holder.notes(&["two", "three"])).await, AppendOutcome::Applied { seq: Seq(6) });
    let records = fleet.store.read_records(&fleet.tenant, holder.job, Seq(4), &[], 10).await.unwrap().records;
    let texts: Vec<_> = records.iter().map(|record| record.value.clone().unwrap()).collect();
    assert_eq!(texts, [&b"one"[..], b"two", b"three"]);
    let mut head = Head::genesis();
    for record in fleet.store.read_records(&fleet.tenant, holder.job, Seq(1), &[], 10).await.unwrap().records
    {
        head = head.extend(&record.bytes);
        assert_eq!((record.seq, record.hash), (head.seq, head.hash));
    }
}

#[tokio::test]
async fn success_seals_the_job_frees_its_lease_and_notes_the_head() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    assert_eq!(fleet.append(holder.success()).await, AppendOutcome::Applied { seq: Seq(5) });
    let row = fleet.store.read_job(&fleet.tenant, holder.job).await.unwrap().unwrap();
    assert_eq!((row.state, row.lease, row.concluded_head), (State::Succeeded, None, Some(holder.head)));
    let result = fleet.store.read_result(&fleet.tenant, holder.job).await.unwrap();
    assert_eq!(result, Some(KeptValue::Beside(b"the result".to_vec())));
    assert_eq!(fleet.append(holder.notes(&["late"])).await, AppendOutcome::Sealed);
    let nobody = Append { guard: Guard::NoLease, ..holder.notes(&["late"]) };
    assert_eq!(fleet.append(nobody).await, AppendOutcome::Sealed);
}

#[tokio::test]
async fn stale_and_future_epochs_are_fenced_and_told_by_whom() {
    let fleet = Fleet::start().await;
    let (first, second) = (fleet.attach("w1").await, fleet.attach("w2").await);
    let mut holder = fleet.run_job(&first).await;
    fleet.append(holder.settlement()).await;
    let fenced_by_nobody = AppendOutcome::Fenced { held_by: None, epoch: Epoch(2) };
    assert_eq!(fleet.append(holder.clone().notes(&["stale"])).await, fenced_by_nobody);
    fleet.claim(&second, 1).await;
    let fenced = AppendOutcome::Fenced { held_by: Some(second.name.clone()), epoch: Epoch(3) };
    assert_eq!(fleet.append(holder.clone().notes(&["stale"])).await, fenced);
    assert_eq!(fleet.append(holder.success()).await, fenced);
    holder.epoch = Epoch(7);
    assert_eq!(fleet.append(holder.notes(&["from the future"])).await, fenced);
    assert_eq!(fleet.journal(holder.job).await.len(), 6);
}

#[tokio::test]
async fn another_generation_is_fenced() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    for generation in [Generation(0), Generation(2)] {
        let outcome = fleet.append(Append { generation, ..holder.clone().notes(&["x"]) }).await;
        assert!(matches!(outcome, AppendOutcome::Fenced { epoch: Epoch(1), .. }), "{outcome:?}");
    }
    assert!(matches!(fleet.append(holder.notes(&["x"])).await, AppendOutcome::Applied { .. }));
}

#[tokio::test]
async fn unknown_job_and_another_tenants_job_are_missing() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let unknown = Append { job: JobId(Uuid::now_v7()), ..holder.clone().notes(&["x"]) };
    assert_eq!(fleet.append(unknown).await, AppendOutcome::Missing);
    let foreign = Append { tenant: "other".parse().unwrap(), ..holder.notes(&["x"]) };
    assert_eq!(fleet.append(foreign).await, AppendOutcome::Missing);
}

#[tokio::test]
async fn moved_head_is_a_conflict_and_writes_nothing() {
    let fleet = Fleet::start().await;
    let holder = fleet.run_job(&fleet.attach("w1").await).await;
    assert!(matches!(fleet.append(holder.clone().notes(&["a"])).await, AppendOutcome::Applied { .. }));
    assert_eq!(fleet.append(holder.clone().notes(&["b"])).await, AppendOutcome::Conflict);
    let mut elsewhere = holder.clone();
    elsewhere.head.hash = Digest::of(b"another history");
    assert_eq!(fleet.append(elsewhere.notes(&["c"])).await, AppendOutcome::Conflict);
    assert_eq!(fleet.journal(holder.job).await.len(), 4);
}

#[tokio::test]
async fn append_that_is_sent_again_is_found_in_the_tail_also_by_a_second_coordinator_and_after_a_takeover() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let (granted, before) = (holder.head.seq, holder.clone());
    let append = holder.notes(&["once", "and for all"]);
    assert_eq!(fleet.append(append.clone()).await, AppendOutcome::Applied { seq: Seq(5) });
    let second = fleet.second_store().await;
    for taken_over in [false, true] {
        if taken_over {
            fleet.append(holder.settlement()).await;
            fleet.claim(&fleet.attach("w2").await, 1).await;
        }
        let outcome = second.append_records(std::slice::from_ref(&append)).await.unwrap().remove(0);
        let expected_conflict = matches!(outcome, AppendOutcome::Conflict) && !taken_over;
        assert!(expected_conflict || matches!(outcome, AppendOutcome::Fenced { .. }), "{outcome:?}");
        let tail = second.read_tail(&fleet.tenant, holder.job, granted.next()).await.unwrap().unwrap();
        let first_answer = tail
            .rows
            .iter()
            .filter(|row| row.epoch == before.epoch && row.n == append.n && row.request == append.request)
            .map(|row| row.seq)
            .max();
        assert_eq!(first_answer, Some(Seq(5)));
    }
}

#[tokio::test]
async fn tail_says_where_the_journal_ends_even_where_nothing_was_added() {
    let fleet = Fleet::start().await;
    let holder = fleet.run_job(&fleet.attach("w1").await).await;
    let tail = fleet.store.read_tail(&fleet.tenant, holder.job, Seq(4)).await.unwrap().unwrap();
    assert_eq!((tail.head, tail.head_epoch, tail.rows.len(), tail.more), (holder.head, Epoch(1), 0, false));
    let tail = fleet.store.read_tail(&fleet.tenant, holder.job, Seq(2)).await.unwrap().unwrap();
    let kinds: Vec<_> = tail.rows.iter().map(|row| &row.kind[..]).collect();
    assert_eq!(kinds, ["plan_frozen", "run_started"]);
    let unknown = fleet.store.read_tail(&fleet.tenant, JobId(Uuid::now_v7()), Seq(1)).await.unwrap();
    assert_eq!(unknown, None);
}

#[tokio::test]
async fn appends_of_one_job_in_one_batch_are_joined() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (mut one, mut two) = (fleet.run_job(&worker).await, fleet.run_job(&worker).await);
    let batch = [
        one.notes(&["a"]),
        two.notes(&["x"]),
        one.cancel_notice(),
        one.notes(&["b", "c"]),
        one.success(),
        one.notes(&["too late"]),
        two.notes(&["y"]),
    ];
    let outcomes = fleet.store.append_records(&batch).await.unwrap();
    let at = |seq| AppendOutcome::Applied { seq: Seq(seq) };
    assert_eq!(outcomes, [at(4), at(4), at(5), at(7), at(9), AppendOutcome::Conflict, at(5)]);
    let row = fleet.store.read_job(&fleet.tenant, one.job).await.unwrap().unwrap();
    assert_eq!((row.state, row.cancel_requested, row.head.seq), (State::Succeeded, Some(Seq(5)), Seq(9)));
}

#[tokio::test]
async fn appends_that_do_not_follow_one_another_are_not_joined() {
    let fleet = Fleet::start().await;
    let holder = fleet.run_job(&fleet.attach("w1").await).await;
    let batch = [holder.clone().notes(&["a"]), holder.clone().notes(&["b"])];
    let outcomes = fleet.store.append_records(&batch).await.unwrap();
    assert_eq!(outcomes, [AppendOutcome::Applied { seq: Seq(4) }, AppendOutcome::Conflict]);
}

#[tokio::test]
async fn settlement_makes_the_job_ready_under_one_epoch_more() {
    let fleet = Fleet::start().await;
    let holder = fleet.run_job(&fleet.attach("w1").await).await;
    fleet.append(holder.settlement()).await;
    let facts = fleet
        .store
        .read_facts(&[(fleet.tenant.clone(), holder.job)])
        .await
        .unwrap()
        .remove(0)
        .unwrap()
        .unwrap();
    assert_eq!((facts.state, facts.head_epoch, facts.losses, facts.lease), (State::Ready, Epoch(2), 1, None));
    assert_eq!(fleet.count("SELECT count(*) FROM ready").await, 1);
}

#[tokio::test]
async fn released_lease_keeps_the_epoch_of_its_settlement_until_the_child_is_gone() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holder = fleet.run_job(&worker).await;
    let interruption = holder.interruption();
    fleet.append(interruption.clone()).await;
    let wanted = [(fleet.tenant.clone(), holder.job)];
    let facts = fleet.store.read_facts(&wanted).await.unwrap().remove(0).unwrap().unwrap();
    let lease = facts.lease.clone().unwrap();
    assert_eq!((lease.epoch, lease.run_epoch, lease.live), (Epoch(2), Epoch(1), false));
    assert_eq!(facts.interruption, Some(Interruption::WorkerLost));
    assert_eq!((facts.state, facts.reason.as_deref()), (State::Interrupted, Some("child_unaccounted_for")));
    assert!(matches!(
        fleet.append(holder.clone().notes(&["x"])).await,
        AppendOutcome::Fenced { held_by: None, .. }
    ));
    holder.advance(&interruption);
    let records = holder.seal_under(Epoch(2), vec![gone(Epoch(1), GoneProof::Person)]);
    let lease = Changes { lease: LeaseChange::Delete, ..Changes::default() };
    let confirmation = |epoch| Append {
        guard: Guard::ReleasedLease(epoch),
        ..holder.append_of(records.clone(), lease.clone())
    };
    assert_eq!(fleet.append(confirmation(Epoch(1))).await, AppendOutcome::Conflict, "another settlement");
    assert!(matches!(fleet.append(confirmation(Epoch(2))).await, AppendOutcome::Applied { .. }));
    assert_eq!(fleet.count("SELECT count(*) FROM leases").await, 0);
}

#[tokio::test]
async fn cancel_of_a_ready_job_takes_it_out_of_the_queue() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let first = fleet.run_job(&worker).await;
    let settlement = first.settlement();
    fleet.append(settlement.clone()).await;
    let mut ready = first.clone();
    ready.advance(&settlement);
    let asked = Draft::bare(RecordKind::CancelRequested { by: by(), why: "enough".to_owned() });
    let records = ready.seal_under(Epoch(2), vec![asked, concluded(State::Cancelled)]);
    let change = JobChange {
        state: Some(State::Cancelled),
        cancel_requested_by_draft: Some(0),
        concluded: true,
        ..JobChange::default()
    };
    let changes = Changes { job: Some(change), ready: ReadyChange::Delete, ..Changes::default() };
    let cancel = Append { guard: Guard::NoLease, ..ready.append_of(records, changes) };
    assert_eq!(fleet.append(cancel.clone()).await, AppendOutcome::Applied { seq: Seq(7) });
    assert_eq!(fleet.claim(&worker, 4).await.claimed, []);
    let row = fleet.store.read_job(&fleet.tenant, first.job).await.unwrap().unwrap();
    assert_eq!((row.state, row.cancel_requested), (State::Cancelled, Some(Seq(6))));
    assert_eq!(fleet.append(cancel).await, AppendOutcome::Sealed);
}

#[tokio::test]
async fn cancel_that_loses_against_a_claim_decides_again() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let first = fleet.run_job(&worker).await;
    let settlement = first.settlement();
    fleet.append(settlement.clone()).await;
    let mut ready = first.clone();
    ready.advance(&settlement);
    let records = ready.seal_under(Epoch(2), vec![concluded(State::Failed)]);
    let change = JobChange { state: Some(State::Failed), concluded: true, ..JobChange::default() };
    let changes = Changes { job: Some(change), ready: ReadyChange::Delete, ..Changes::default() };
    let cancel = Append { guard: Guard::NoLease, ..ready.append_of(records, changes) };
    assert_eq!(fleet.claim(&worker, 1).await.claimed.len(), 1);
    assert_eq!(fleet.append(cancel).await, AppendOutcome::Conflict);
}

#[tokio::test]
async fn refused_data_spoils_only_its_own_append() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut batch = Vec::new();
    for _ in 0..8 {
        batch.push(fleet.run_job(&worker).await.notes(&["x"]));
    }
    // Beyond what a row may hold, which the door would have refused.
    batch[5].records[0].bytes = vec![b' '; 65_537];
    assert!(matches!(fleet.store.append_records(&batch).await, Err(StoreError::Data { .. })));
    let report = fleet.store.append_with_retry(&batch).await;
    for (index, outcome) in report.outcomes.iter().enumerate() {
        match outcome {
            Err(StoreError::Data { .. }) => assert_eq!(index, 5),
            outcome => {
                assert!(matches!(outcome, Ok(AppendOutcome::Applied { .. })) && index != 5, "{outcome:?}")
            }
        }
    }
}

#[tokio::test]
async fn holder_of_another_term_number_is_still_the_holder_of_its_lease() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holder = fleet.run_job(&worker).await;
    let again = fleet.attach("w1").await;
    assert!(again.term > worker.term && worker.term > Term(0));
    assert!(matches!(fleet.append(holder.notes(&["still here"])).await, AppendOutcome::Applied { .. }));
}
