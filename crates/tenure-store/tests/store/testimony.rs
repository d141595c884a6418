//! Outcomes that came too late: kept once, about what was announced, beside what the journal says.

use tenure_core::{
    effect::{Disposition, EffectAct, EffectMark, Outcome},
    id::Generation,
    run_ref::RunRef,
};
use tenure_store::{NewTestimony, TestimonyRow};

use crate::{
    effect::{ASK, announce, key, outcome},
    fleet::{Fleet, Holder},
};

fn testimony(holder: &Holder, name: &str, n: u64, act: EffectAct) -> NewTestimony {
    let run = RunRef {
        tenant: holder.tenant.clone(),
        job: holder.job,
        epoch: holder.epoch,
        run: holder.run,
        generation: Generation(1),
    };
    let mark = EffectMark { key: key(name), attempt: 1, act };
    NewTestimony { run, n, place: 0, mark, value: Some(b"as claimed".to_vec()) }
}

async fn listed(fleet: &Fleet, holder: &Holder) -> Vec<TestimonyRow> {
    let keys = ["push", "pull", "never"].map(str::to_owned);
    fleet.store.list_testimony(&fleet.tenant, holder.job, &keys).await.unwrap()
}

#[tokio::test]
async fn testimony_is_kept_once_and_only_about_what_was_announced() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    fleet.append(holder.say(vec![announce("push", 1, ASK)])).await;
    let said =
        [testimony(&holder, "push", 7, EffectAct::Done), testimony(&holder, "never", 8, EffectAct::Done)];
    for _ in 0..2 {
        fleet.store.keep_testimony(&said).await.unwrap();
    }
    // The first stays, whatever is said later under its number.
    fleet
        .store
        .keep_testimony(&[testimony(&holder, "push", 7, EffectAct::Failed(Disposition::Landed))])
        .await
        .unwrap();
    let [row] = &listed(&fleet, &holder).await[..] else { panic!("one") };
    assert_eq!((row.key.as_str(), row.claimed, row.recorded), ("push", Outcome::Done, Some(Outcome::Open)));
    assert_eq!(
        (row.run, row.epoch, row.value.as_deref()),
        (holder.run, holder.epoch, Some(&b"as claimed"[..]))
    );
    assert!(!row.contradicts(), "the journal does not say what became of it");
}

#[tokio::test]
async fn testimony_contradicts_a_journal_that_says_otherwise() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    for (name, recorded) in [("push", Outcome::Failed(Disposition::DidNotHappen)), ("pull", Outcome::Done)] {
        fleet.append(holder.say(vec![announce(name, 1, ASK)])).await;
        fleet.append(holder.say(vec![outcome(name, 1, recorded)])).await;
    }
    let acts = [
        ("push", 5, EffectAct::Done, true),
        ("push", 6, EffectAct::Failed(Disposition::DidNotHappen), false),
        ("push", 7, EffectAct::Failed(Disposition::InDoubt), false),
        ("pull", 8, EffectAct::Reconciled(Disposition::Landed), false),
        ("pull", 9, EffectAct::Reconciled(Disposition::DidNotHappen), true),
    ];
    for (name, n, act, _) in &acts {
        fleet.store.keep_testimony(&[testimony(&holder, name, *n, act.clone())]).await.unwrap();
    }
    let told: Vec<_> = listed(&fleet, &holder).await.iter().map(TestimonyRow::contradicts).collect();
    assert_eq!(told, acts.map(|(.., contradicts)| contradicts));
}
