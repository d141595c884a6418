//! Counting the fleet for those who watch it: what is there is counted, over all tenants, and what there is none of is zero.

use jiff::ToSpan as _;
use tenure_core::effect::{Disposition, Outcome};
use tenure_store::NewJob;

use crate::{
    effect::{ASK, announce, outcome},
    fleet::{Fleet, applied, new_job, now},
};

async fn counts(fleet: &Fleet) -> Vec<(String, String, u64)> {
    let counted = fleet.store.count_fleet().await.unwrap();
    let some = counted.into_iter().filter(|count| count.count > 0);
    let mut found: Vec<_> = some.map(|count| (count.of, count.word, count.count)).collect();
    found.sort();
    found
}

fn expected(rows: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    rows.iter().map(|(of, word, count)| ((*of).to_owned(), (*word).to_owned(), *count)).collect()
}

#[tokio::test]
async fn what_is_there_is_counted_over_all_tenants() {
    let fleet = Fleet::start().await;
    assert_eq!(counts(&fleet).await, []);
    let worker = fleet.attach("w1").await;
    let mut running = fleet.run_job(&worker).await;
    for said in [
        vec![announce("under way", 1, ASK)],
        vec![announce("in doubt", 1, ASK)],
        vec![outcome("in doubt", 1, Outcome::Failed(Disposition::InDoubt))],
        vec![announce("done", 1, ASK)],
        vec![outcome("done", 1, Outcome::Done)],
    ] {
        let said = running.say(said);
        assert!(applied(&fleet.append(said).await).is_some());
    }
    let success = fleet.run_job(&worker).await.success();
    assert!(applied(&fleet.append(success).await).is_some());
    fleet.submit_as(new_job(&"other".parse().unwrap(), b"x")).await;
    fleet.submit_as(NewJob { not_before: Some(now() + 1.hour()), ..fleet.new_job() }).await;
    let rows = [
        ("effects", "in_doubt", 1),
        ("effects", "under_way", 1),
        ("jobs", "ready", 2),
        ("jobs", "running", 1),
        ("jobs", "succeeded", 1),
        ("leases", "live", 1),
        ("queue", "claimable", 1),
        ("queue", "delayed", 1),
        ("terms", "open", 1),
    ];
    assert_eq!(counts(&fleet).await, expected(&rows));
}
