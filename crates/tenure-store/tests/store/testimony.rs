//! Outcomes that came too late: kept once, about what was announced, beside what the journal says.

use tenure_core::{
    effect::{Declared, Disposition, EffectAct, EffectMark, EffectRecovery, Outcome},
    id::Generation,
    limits::{TESTIMONIES_MAX, TESTIMONIES_PER_ATTEMPT_MAX},
    run_ref::RunRef,
};
use tenure_store::{NewTestimony, TestimonyPage, TestimonyRow};

use crate::{
    effect::{ASK, announce, key, outcome},
    fleet::{Fleet, Holder, applied},
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
    page(fleet, holder).await.listed
}

async fn page(fleet: &Fleet, holder: &Holder) -> TestimonyPage {
    fleet.store.list_testimony(&fleet.tenant, holder.job).await.unwrap()
}

#[tokio::test]
async fn testimony_is_kept_once_and_only_about_what_was_announced() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    fleet.append(holder.say(vec![announce("push", 1, ASK)])).await;
    let said =
        [testimony(&holder, "push", 7, EffectAct::Done), testimony(&holder, "never", 8, EffectAct::Done)];
    for kept in [1, 0] {
        assert_eq!(fleet.store.keep_testimony(&said).await.unwrap().len(), kept);
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
async fn a_run_testifies_to_its_own_attempts_and_earlier_ones_and_never_to_those_of_a_later_run() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let retried = Declared { recovery: EffectRecovery::Retry, ..ASK };
    let mut first = fleet.run_job(&worker).await;
    fleet.append(first.say(vec![announce("pull", 1, retried)])).await;
    fleet.append(first.settlement()).await;
    let mut second = Holder::of(&fleet.claim(&worker, 1).await.claimed[0]);
    assert!(first.epoch < second.epoch);
    assert!(applied(&fleet.append(second.say(vec![announce("push", 1, ASK)])).await).is_some());
    let said = [
        testimony(&first, "push", 5, EffectAct::Done),
        testimony(&first, "pull", 6, EffectAct::Done),
        testimony(&second, "push", 7, EffectAct::Done),
        testimony(&second, "pull", 8, EffectAct::Done),
    ];
    fleet.store.keep_testimony(&said).await.unwrap();
    let mut kept: Vec<_> =
        listed(&fleet, &first).await.iter().map(|row| (row.run, row.key.to_string())).collect();
    kept.sort();
    let about = |run: &Holder, name: &str| (run.run, name.to_owned());
    assert_eq!(kept, [about(&first, "pull"), about(&second, "pull"), about(&second, "push")]);
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
    for (name, n, act, contradicts) in &acts {
        let said = [testimony(&holder, name, *n, act.clone())];
        let [kept] = &fleet.store.keep_testimony(&said).await.unwrap()[..] else { panic!("{said:?}") };
        assert_eq!((kept.job, kept.contradicts()), (holder.job, *contradicts), "{said:?}");
    }
    // What agrees with a journal that is in no doubt is of no use to anybody.
    let page = page(&fleet, &holder).await;
    let told: Vec<_> = page.listed.iter().map(|row| (row.key.as_str(), row.contradicts())).collect();
    assert_eq!((&told[..], page.count), (&[("push", true), ("pull", true)][..], 2));
}

#[tokio::test]
async fn of_what_is_kept_the_doubts_and_the_contradictions_are_listed_and_the_rest_counted() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    let reads = Declared { recovery: EffectRecovery::Retry, mutates: false, ..ASK };
    let mut announced = Vec::new();
    for no in 0..u64::from(TESTIMONIES_MAX) + 5 {
        let name = format!("push/{no}");
        fleet.append(holder.say(vec![announce(&name, 1, ASK)])).await;
        announced.push(testimony(&holder, &name, no + 1, EffectAct::Done));
    }
    fleet.append(holder.say(vec![announce("look", 1, reads)])).await;
    announced.push(testimony(&holder, "look", 1_000, EffectAct::Done));
    fleet.store.keep_testimony(&announced).await.unwrap();
    let page = page(&fleet, &holder).await;
    assert_eq!((page.listed.len(), page.count), (TESTIMONIES_MAX as usize, u64::from(TESTIMONIES_MAX) + 5));
    assert!(page.listed.iter().all(|row| row.key.as_str() != "look"), "it changes nothing in the world");
}

#[tokio::test]
async fn of_one_attempt_only_so_much_testimony_is_kept_and_the_first_stays() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    for name in ["push", "pull"] {
        fleet.append(holder.say(vec![announce(name, 1, ASK)])).await;
    }
    let most = u64::from(TESTIMONIES_PER_ATTEMPT_MAX);
    let said: Vec<_> = (1..=most + 2).map(|n| testimony(&holder, "push", n, EffectAct::Done)).collect();
    fleet.store.keep_testimony(&said[..3]).await.unwrap();
    fleet.store.keep_testimony(&said).await.unwrap();
    fleet.store.keep_testimony(&[testimony(&holder, "push", 1_000, EffectAct::Done)]).await.unwrap();
    fleet.store.keep_testimony(&[testimony(&holder, "pull", 1_001, EffectAct::Done)]).await.unwrap();
    let rows = listed(&fleet, &holder).await;
    let of = |name| rows.iter().filter(|row| row.key.as_str() == name).count();
    assert!((3..=TESTIMONIES_PER_ATTEMPT_MAX as usize).contains(&of("push")), "{rows:?}");
    assert_eq!(of("pull"), 1);
}
