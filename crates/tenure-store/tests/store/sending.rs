//! Work that a record gives to an agent: the new job stands and falls with the record.

use tenure_core::{
    id::SessionId,
    plan::Changes,
    record::{Draft, RecordKind},
    sending::{GiftKey, Given, Standing, Way},
};
use tenure_store::{Append, AppendOutcome, Gift, Giver, NewJob};
use uuid::Uuid;

use crate::fleet::{Fleet, Holder, agent, applied, new_job};

fn key(body: &str) -> GiftKey {
    GiftKey::of(Way::Send, &agent("notes"), body.as_bytes(), None, 1)
}

/// The holder's record that gives work, with the job.
fn give(holder: &Holder, child: NewJob, body: &str, depth: Option<u32>) -> Append {
    let given = Given { child: child.job, session: child.session, agent: child.agent.clone(), key: None };
    let kind = if depth.is_some() { RecordKind::Spawned(given) } else { RecordKind::Sent(given) };
    let append = holder.append_of(holder.seal(vec![Draft::bare(kind)]), Changes::default());
    Append { gift: Some(Box::new(Gift { new: child, key: key(body), depth, delivery: None })), ..append }
}

fn child_in(fleet: &Fleet, session: SessionId) -> NewJob {
    NewJob { session, hops: 7, priority: 2, ..new_job(&fleet.tenant, b"fix it") }
}

async fn read_giver(fleet: &Fleet, holder: &Holder, body: &str) -> Giver {
    fleet.store.read_giver(&fleet.tenant, holder.job, &key(body)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_job_that_is_sent_is_ready_in_the_session_of_its_giver_and_is_found_by_its_key() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holder = fleet.run_job(&worker).await;
    let giver = fleet.facts(holder.job).await;
    assert_eq!(read_giver(&fleet, &holder, "fix it").await.earlier, None);
    let child = child_in(&fleet, giver.session);
    let append = give(&holder, child.clone(), "fix it", None);
    holder.advance(&append);
    assert!(applied(&fleet.append(append).await).is_some());
    let found = read_giver(&fleet, &holder, "fix it").await;
    assert_eq!(found.standing, Standing { depth: 0 });
    let earlier = found.earlier.unwrap();
    assert_eq!((earlier.child, earlier.session, earlier.is_same), (child.job, giver.session, true));
    let facts = fleet.facts(child.job).await;
    assert_eq!((facts.session, facts.hops_left, facts.deadline_at), (giver.session, 7, giver.deadline_at));
    assert_eq!(fleet.count("SELECT count(*) FROM sessions").await, 1);
    // It is claimed as any job, and the giver goes on.
    let claimed = fleet.claim(&worker, 1).await.claimed;
    assert_eq!(
        (claimed[0].job, claimed[0].input.clone()),
        (child.job, tenure_core::record::KeptValue::Beside(b"fix it".to_vec()))
    );
    assert!(applied(&fleet.append(holder.notes(&["sent it"])).await).is_some());
}

#[tokio::test]
async fn a_session_that_is_spawned_is_deeper_and_has_a_deadline_of_its_own() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let holder = fleet.run_job(&worker).await;
    let child = new_job(&fleet.tenant, b"look");
    assert!(applied(&fleet.append(give(&holder, child.clone(), "look", Some(1))).await).is_some());
    let facts = fleet.facts(child.job).await;
    assert_eq!(facts.session, child.session);
    assert_eq!(facts.deadline_at.map(|at| at.duration_since(facts.started_at).as_secs()), Some(3_600));
    let below = fleet.store.read_giver(&fleet.tenant, child.job, &key("x")).await.unwrap().unwrap();
    assert_eq!(below.standing, Standing { depth: 1 });
    let parent: Uuid = sqlx::query_scalar("SELECT parent_job FROM sessions WHERE session = $1")
        .bind(child.session.0)
        .fetch_one(&fleet.pool)
        .await
        .unwrap();
    assert_eq!(parent, holder.job.0);
}

#[tokio::test]
async fn what_a_fenced_run_gives_is_no_job() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let holder = fleet.run_job(&worker).await;
    let session = fleet.facts(holder.job).await.session;
    let append = give(&holder, child_in(&fleet, session), "fix it", None);
    assert!(applied(&fleet.append(holder.settlement()).await).is_some());
    let outcome = fleet.append(append).await;
    assert!(matches!(outcome, AppendOutcome::Fenced { .. }), "{outcome:?}");
    assert_eq!(fleet.count("SELECT count(*) FROM jobs").await, 1);
    assert_eq!(fleet.count("SELECT count(*) FROM sends").await, 0);
}

#[tokio::test]
async fn a_second_gift_under_one_key_is_not_admitted() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holder = fleet.run_job(&worker).await;
    let session = fleet.facts(holder.job).await.session;
    let first = give(&holder, child_in(&fleet, session), "fix it", None);
    holder.advance(&first);
    assert!(applied(&fleet.append(first).await).is_some());
    let again = give(&holder, child_in(&fleet, session), "fix it", None);
    assert_eq!(fleet.append(again).await, AppendOutcome::Conflict);
    assert_eq!(fleet.count("SELECT count(*) FROM jobs").await, 2);
    let other = give(&holder, child_in(&fleet, session), "fix that", None);
    assert!(applied(&fleet.append(other).await).is_some());
}

#[tokio::test]
async fn gifts_of_many_jobs_go_in_one_statement() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut batch = Vec::new();
    for _ in 0..4 {
        let holder = fleet.run_job(&worker).await;
        let session = fleet.facts(holder.job).await.session;
        batch.push(give(&holder, child_in(&fleet, session), "fix it", None));
    }
    let report = fleet.store.append_with_retry(&batch).await;
    assert_eq!(report.statements, 1);
    assert!(report.outcomes.iter().all(|outcome| applied(outcome.as_ref().unwrap()).is_some()), "{report:?}");
    assert_eq!(fleet.count("SELECT count(*) FROM ready").await, 4);
}
