//! What a session has used of its limits, and what they refuse: exact, however many ask at once.

use std::time::Duration;

use tenure_core::{
    admission::{Limit, LimitRefusal, Spend},
    effect::{Compensation, Declared, EffectRecovery, Outcome},
    id::{JobId, SessionId},
    job::State,
    money::Micros,
    plan::{Changes, JobChange, LeaseChange, ReadyChange},
    record::{Draft, RecordKind},
};
use tenure_store::{AppendOutcome, NewJob, Submitted};

use crate::{
    effect::{announce, outcome},
    fleet::{Fleet, Holder, agent, applied, claim_request, eager_claim},
};

/// So many waiting jobs of one session that may have so many runs.
async fn wait_in_one_session(fleet: &Fleet, jobs: usize, run_cap: u32) -> (SessionId, Vec<JobId>) {
    let first = fleet.submit_as(NewJob { run_cap, ..fleet.new_job() }).await;
    let mut ids = vec![first.job];
    for _ in 1..jobs {
        let job = fleet.submit().await;
        sqlx::query("UPDATE jobs SET session = $2 WHERE job = $1")
            .bind(job.job.0)
            .bind(first.session.0)
            .execute(&fleet.pool)
            .await
            .unwrap();
        ids.push(job.job);
    }
    (first.session, ids)
}

async fn runs_of(fleet: &Fleet, session: SessionId) -> i32 {
    let query = sqlx::query_scalar("SELECT runs FROM sessions WHERE session = $1").bind(session.0);
    query.fetch_one(&fleet.pool).await.unwrap()
}

#[tokio::test]
async fn sixteen_racers_on_one_session_have_as_many_runs_as_it_may_and_not_one_more() {
    let fleet = Fleet::start().await;
    let stores = [fleet.store.clone(), fleet.second_store().await];
    let mut workers = Vec::new();
    for no in 0..16 {
        workers.push(fleet.attach(&format!("w{no}")).await);
    }
    for round in 0..10 {
        let (session, jobs) = wait_in_one_session(&fleet, 16, 3).await;
        let racers: Vec<_> = workers
            .iter()
            .enumerate()
            .map(|(no, worker)| {
                let (store, request) = (stores[no % 2].clone(), claim_request(worker, 1));
                tokio::spawn(async move { store.claim_jobs(&request).await.unwrap() })
            })
            .collect();
        let (mut claimed, mut denied) = (Vec::new(), Vec::new());
        for racer in racers {
            let outcome = racer.await.unwrap();
            claimed.extend(outcome.claimed.iter().map(|run| run.job));
            denied.extend(outcome.denied.iter().map(|facts| facts.job));
        }
        assert_eq!((claimed.len(), runs_of(&fleet, session).await), (3, 3), "round {round}: {claimed:?}");
        assert!(denied.iter().all(|job| jobs.contains(job) && !claimed.contains(job)), "round {round}");
        // What is left is refused, and named with its session's balance.
        let rest = fleet.claim(&workers[0], 16).await;
        assert!(rest.claimed.is_empty());
        assert_eq!(rest.denied.len(), 13, "round {round}");
        assert!(rest.denied.iter().all(|facts| (facts.runs.used, facts.runs.limit) == (3, 3)));
        sqlx::query("DELETE FROM ready").execute(&fleet.pool).await.unwrap();
    }
}

#[tokio::test]
async fn one_claim_takes_of_a_session_what_it_has_left_and_leaves_the_surplus_to_be_told() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (session, jobs) = wait_in_one_session(&fleet, 5, 2).await;
    let other = fleet.submit().await;
    let outcome = fleet.claim(&worker, 10).await;
    let claimed: Vec<_> = outcome.claimed.iter().map(|run| run.job).collect();
    assert_eq!(claimed, [jobs[0], jobs[1], other.job]);
    let denied: Vec<_> = outcome.denied.iter().map(|facts| facts.job).collect();
    assert_eq!(denied, jobs[2..]);
    assert_eq!(runs_of(&fleet, session).await, 2);
    assert!(outcome.refused.is_none());
}

#[tokio::test]
async fn a_grant_that_is_released_counts_for_nothing_unless_it_was_to_undo() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let job = fleet.submit().await;
    for (phase, runs) in [("forward", 0), ("compensating", 0)] {
        if phase == "compensating" {
            let cause = r#"{"kind": "unwinding", "instead_of": "cancelled", "attempt": 1}"#;
            let query = sqlx::query("UPDATE ready SET cause = $1::jsonb").bind(cause);
            query.execute(&fleet.pool).await.unwrap();
        }
        let claimed = fleet.claim(&worker, 1).await.claimed;
        let holder = Holder::of(&claimed[0]);
        let counted = i32::from(phase == "forward");
        assert_eq!(runs_of(&fleet, job.session).await, runs + counted, "{phase}");
        let released = RecordKind::GrantReleased { of_epoch: holder.epoch, reason: "lost".to_owned() };
        let mut draft = Draft::bare(released);
        if phase == "compensating" {
            draft.phase = tenure_core::record::Phase::Compensating;
        }
        let change = JobChange { state: Some(State::Ready), ..JobChange::default() };
        let cause = claimed[0].cause.clone();
        let ready = ReadyChange::Insert { cause, not_before: None };
        let changes = Changes { job: Some(change), lease: LeaseChange::Delete, ready, ..Changes::default() };
        let records = holder.seal_under(holder.epoch.next(), vec![draft]);
        assert!(applied(&fleet.append(holder.append_of(records, changes)).await).is_some());
        assert_eq!(runs_of(&fleet, job.session).await, runs, "{phase}");
    }
}

#[tokio::test]
async fn undoing_meets_no_run_cap_and_no_budget() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let job = fleet.submit().await;
    sqlx::query("UPDATE sessions SET runs = run_cap, spent_micros = budget_micros")
        .execute(&fleet.pool)
        .await
        .unwrap();
    let denied = fleet.claim(&worker, 1).await.denied;
    assert_eq!(denied.iter().map(|facts| facts.job).collect::<Vec<_>>(), [job.job]);
    let cause = r#"{"kind": "unwinding", "instead_of": "cancelled", "attempt": 1}"#;
    sqlx::query("UPDATE ready SET cause = $1::jsonb").bind(cause).execute(&fleet.pool).await.unwrap();
    assert_eq!(fleet.claim(&worker, 1).await.claimed.len(), 1);
    assert_eq!(runs_of(&fleet, job.session).await, 64);
}

#[tokio::test]
async fn a_first_run_counts_and_a_session_that_may_have_none_gets_none() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    for (run_cap, budget_micros, runs) in [(64, 5_000_000, 1), (0, 5_000_000, 0), (64, 0, 0)] {
        let mut job = NewJob { run_cap, budget_micros, agent: agent("notes"), ..fleet.new_job() };
        job.claim = Some(eager_claim(&job, &worker));
        let outcomes = fleet.store.submit_jobs(std::slice::from_ref(&job)).await.unwrap();
        let claimed = matches!(outcomes[..], [Submitted::Admitted { claimed: true, .. }]);
        assert_eq!((claimed, runs_of(&fleet, job.session).await), (runs == 1, runs), "{outcomes:?}");
    }
}

fn started(name: &str) -> Draft {
    let declared =
        Declared { recovery: EffectRecovery::Ask, mutates: true, compensation: Compensation::Undo };
    announce(name, 1, declared)
}

fn spent(tokens: u64, cost: u64, turns: u64) -> Draft {
    Draft::bare(RecordKind::Spent { spend: Spend { tokens, cost: Micros(cost), turns } })
}

/// (money, tokens, turns) of a session.
async fn spent_of(fleet: &Fleet, session: SessionId) -> (i64, i64, i64) {
    let sql = "SELECT spent_micros, spent_tokens, spent_turns FROM sessions WHERE session = $1";
    sqlx::query_as(sql).bind(session.0).fetch_one(&fleet.pool).await.unwrap()
}

async fn spent_in_a_day(fleet: &Fleet) -> Micros {
    fleet.store.read_agent(&fleet.tenant, &agent("notes")).await.unwrap().unwrap().spent
}

#[tokio::test]
async fn what_runs_of_one_session_spend_in_one_batch_and_in_many_adds_up_once() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (session, _) = wait_in_one_session(&fleet, 2, 64).await;
    let claimed = fleet.claim(&worker, 2).await.claimed;
    let (mut first, mut second) = (Holder::of(&claimed[0]), Holder::of(&claimed[1]));
    let batch = [
        first.say(vec![spent(10, 100, 1), spent(5, 0, 0)]),
        second.say(vec![spent(0, 1_000, 0)]),
        first.say(vec![spent(0, 10_000, 2)]),
    ];
    let outcomes = fleet.store.append_records(&batch).await.unwrap();
    assert!(outcomes.iter().all(|outcome| applied(outcome).is_some()), "{outcomes:?}");
    assert_eq!(spent_of(&fleet, session).await, (11_100, 15, 3));
    // Sent again it is a conflict, and counts once.
    let again = fleet.store.append_records(&batch).await.unwrap();
    assert!(again.iter().all(|outcome| applied(outcome).is_none()), "{again:?}");
    assert_eq!(spent_of(&fleet, session).await, (11_100, 15, 3));
    assert_eq!(spent_in_a_day(&fleet).await, Micros(11_100));
    let facts = fleet.facts(first.job).await;
    assert_eq!((facts.budget_micros.used, facts.budget_micros.limit), (11_100, 5_000_000));
}

#[tokio::test]
async fn what_a_fenced_run_spends_changes_no_balance() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holder = fleet.run_job(&worker).await;
    let session = fleet.facts(holder.job).await.session;
    assert!(applied(&fleet.append(holder.settlement()).await).is_some());
    let late = holder.say(vec![spent(1, 1_000_000, 1)]);
    assert!(applied(&fleet.append(late).await).is_none());
    assert_eq!(spent_of(&fleet, session).await, (0, 0, 0));
    assert_eq!(spent_in_a_day(&fleet).await, Micros(0));
}

#[tokio::test]
async fn a_balance_that_is_full_stays_full() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holder = fleet.run_job(&worker).await;
    let session = fleet.facts(holder.job).await.session;
    sqlx::query("UPDATE sessions SET spent_micros = $1, spent_tokens = $1")
        .bind(i64::MAX - 1)
        .execute(&fleet.pool)
        .await
        .unwrap();
    let told = fleet.append(holder.say(vec![spent(5, 5, 5)])).await;
    assert!(applied(&told).is_some(), "{told:?}");
    assert_eq!(spent_of(&fleet, session).await, (i64::MAX, i64::MAX, 5));
}

#[tokio::test]
async fn once_the_budget_is_spent_no_effect_is_announced_and_no_run_begins_but_what_was_done_is_undone() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holder = fleet.run_job(&worker).await;
    assert!(applied(&fleet.append(holder.say(vec![started("push")])).await).is_some());
    assert!(applied(&fleet.append(holder.say(vec![outcome("push", 1, Outcome::Done)])).await).is_some());
    assert!(applied(&fleet.append(holder.say(vec![spent(0, 5_000_000, 0)])).await).is_some());
    let before = holder.clone();
    let told = fleet.append(holder.say(vec![started("tag")])).await;
    let refused = LimitRefusal { limit: Limit::Budget, used: 5_000_000, allowed: 5_000_000 };
    assert_eq!(told, AppendOutcome::LimitReached(refused));
    holder = before;
    // A note beside it, and what undoes, are taken.
    assert!(applied(&fleet.append(holder.notes(&["no money"])).await).is_some());
    assert!(applied(&fleet.append(holder.say(vec![started("undo:push")])).await).is_some());
    assert!(applied(&fleet.append(holder.settlement()).await).is_some());
    let told = fleet.claim(&worker, 1).await;
    assert!(told.claimed.is_empty());
    assert_eq!(told.denied.iter().map(|facts| facts.job).collect::<Vec<_>>(), [holder.job]);
}

#[tokio::test]
async fn a_day_counts_what_was_spent_less_than_24_hours_ago_and_what_is_older_goes() {
    let fleet = Fleet::start().await;
    for (ago, micros) in
        [("1 minute", 1_i64), ("23 hours 59 minutes", 10), ("24 hours 2 minutes", 100), ("3 days", 1_000)]
    {
        sqlx::query(
            "INSERT INTO spending (tenant, minute, micros)
             VALUES ('default', date_trunc('minute', statement_timestamp() - $1::interval), $2), ('other', now(), 10000)
             ON CONFLICT DO NOTHING",
        )
        .bind(ago)
        .bind(micros)
        .execute(&fleet.pool)
        .await
        .unwrap();
    }
    assert_eq!(spent_in_a_day(&fleet).await, Micros(11));
    assert_eq!(fleet.store.delete_old_spending(Duration::from_hours(48), 10).await.unwrap(), 1);
    assert_eq!(fleet.count("SELECT count(*) FROM spending WHERE tenant = 'default'").await, 3);
}
