//! Listings, pages, and names by the end of an id.

use std::collections::BTreeMap;

use jiff::ToSpan as _;
use tenure_core::{
    id::{JobId, Seq},
    job::State,
    limits::{RECORD_PAGE_MAX_BYTES, VALUE_MAX_BYTES},
};
use tenure_store::{JobFilter, NewJob, RecordPage, StoredRecord};
use uuid::Uuid;

use crate::fleet::{Fleet, agent, new_job, now};

fn page(limit: u32) -> JobFilter {
    JobFilter { limit, ..JobFilter::default() }
}

async fn list(fleet: &Fleet, filter: &JobFilter) -> Vec<JobId> {
    fleet.store.list_jobs(&fleet.tenant, filter).await.unwrap().iter().map(|row| row.job).collect()
}

#[tokio::test]
async fn pages_are_newest_first_and_go_on_where_the_last_one_ended() {
    let fleet = Fleet::start().await;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(fleet.submit().await.job);
    }
    fleet.submit_as(new_job(&"other".parse().unwrap(), b"x")).await;
    jobs.reverse();
    let first = list(&fleet, &page(2)).await;
    assert_eq!(first, jobs[..2]);
    let newer = fleet.submit().await.job;
    let second = list(&fleet, &JobFilter { before: Some(first[1]), ..page(2) }).await;
    assert_eq!(second, jobs[2..4], "a job that was added meanwhile moves nothing");
    let third = list(&fleet, &JobFilter { before: Some(second[1]), ..page(2) }).await;
    assert_eq!(third, jobs[4..]);
    assert_eq!(list(&fleet, &JobFilter { before: Some(third[0]), ..page(2) }).await, []);
    assert_eq!(list(&fleet, &page(1)).await, [newer]);
}

#[tokio::test]
async fn filters_leave_out_what_does_not_fit() {
    let fleet = Fleet::start().await;
    let labels: BTreeMap<_, _> =
        [("team", "red"), ("tier", "1")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let running = fleet.run_job(&fleet.attach("w1").await).await;
    let labelled = fleet.submit_as(NewJob { labels: labels.clone(), ..fleet.new_job() }).await.job;
    let red: BTreeMap<_, _> = [("team".to_owned(), "red".to_owned())].into();
    fleet
        .submit_as(NewJob { labels: [("team".to_owned(), "blue".to_owned())].into(), ..fleet.new_job() })
        .await;
    let other_agent =
        fleet.submit_as(NewJob { agent: agent("another"), labels: red.clone(), ..fleet.new_job() }).await.job;
    let states = |states: &[State]| JobFilter { states: states.to_vec(), ..page(10) };
    assert_eq!(list(&fleet, &JobFilter { labels: red.clone(), ..page(10) }).await, [other_agent, labelled]);
    assert_eq!(list(&fleet, &JobFilter { labels, ..page(10) }).await, [labelled]);
    assert_eq!(list(&fleet, &JobFilter { agent: Some(agent("another")), ..page(10) }).await, [other_agent]);
    let all_running = list(&fleet, &states(&[State::Running, State::Failed])).await;
    assert_eq!(all_running, [running.job]);
    let before = now().checked_sub(1.hour()).unwrap();
    assert_eq!(list(&fleet, &JobFilter { since: Some(before), ..page(10) }).await.len(), 4);
    let after = now().checked_add(1.hour()).unwrap();
    assert_eq!(list(&fleet, &JobFilter { since: Some(after), ..page(10) }).await, []);
}

#[tokio::test]
async fn job_is_found_by_any_ending_of_six_digits_or_more() {
    let fleet = Fleet::start().await;
    let mut bytes = *Uuid::now_v7().as_bytes();
    bytes[8..].copy_from_slice(&[0x80, 1, 2, 3, 4, 0xab, 0xcd, 0xef]);
    let first = JobId(Uuid::from_bytes(bytes));
    bytes[12] = 5;
    let second = JobId(Uuid::from_bytes(bytes));
    for job in [first, second] {
        fleet.submit_as(NewJob { job, ..fleet.new_job() }).await;
    }
    fleet.submit_as(NewJob { job: JobId(Uuid::now_v7()), ..fleet.new_job() }).await;
    let other = "other".parse().unwrap();
    fleet.submit_as(new_job(&other, b"x")).await;
    let find = async |hex: &str| fleet.store.find_jobs_by_ending(&fleet.tenant, hex, 2).await.unwrap();
    assert_eq!(find("abcdef").await, [second, first], "ambiguous");
    assert_eq!(find("04abcdef").await, [first]);
    assert_eq!(find("8001020305abcdef").await, [second], "across the hyphen");
    assert_eq!(find(&first.0.simple().to_string()).await, [first]);
    for nothing in ["bcdef", "ABCDEF", "%bcdef", "0abcdef0", "", "_abcdef"] {
        assert_eq!(find(nothing).await, [], "{nothing}");
    }
    assert_eq!(fleet.store.find_jobs_by_ending(&other, "abcdef", 2).await.unwrap(), []);
}

#[tokio::test]
async fn records_are_read_in_pages_and_by_kind() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    fleet.append(holder.notes(&["a", "b", "c"])).await;
    let read = async |from, kinds: &[&str], limit| {
        let kinds: Vec<_> = kinds.iter().map(|&kind| kind.to_owned()).collect();
        let page =
            fleet.store.read_records(&fleet.tenant, holder.job, Seq(from), &kinds, limit).await.unwrap();
        (page.records.iter().map(|record| record.seq.0).collect::<Vec<_>>(), page.next.map(|next| next.0))
    };
    assert_eq!(read(2, &[], 3).await, (vec![2, 3, 4], Some(5)));
    assert_eq!(read(5, &[], 3).await, (vec![5, 6], None));
    assert_eq!(read(7, &[], 3).await, (vec![], None));
    assert_eq!(read(1, &["note", "plan_frozen"], 10).await, (vec![2, 4, 5, 6], None));
    assert_eq!(read(1, &["note", "plan_frozen"], 2).await, (vec![2, 4], Some(5)));
    let foreign =
        fleet.store.read_records(&"other".parse().unwrap(), holder.job, Seq(1), &[], 9).await.unwrap();
    assert_eq!(foreign, RecordPage::default());
}

#[tokio::test]
async fn a_page_of_records_is_full_when_its_bytes_are_and_the_next_goes_on_without_a_gap() {
    let fleet = Fleet::start().await;
    let mut holder = fleet.run_job(&fleet.attach("w1").await).await;
    fleet.append(holder.notes(&["x"; 30])).await;
    // The largest values, a small one among them, and a record without any.
    sqlx::query(
        "UPDATE journal SET value = convert_to(repeat('x', $1), 'UTF8') WHERE kind = 'note' AND seq <> 7",
    )
    .bind(i32::try_from(VALUE_MAX_BYTES).unwrap())
    .execute(&fleet.pool)
    .await
    .unwrap();
    sqlx::query("UPDATE journal SET value = NULL, salt = NULL WHERE seq = 12")
        .execute(&fleet.pool)
        .await
        .unwrap();
    let size = |record: &StoredRecord| record.bytes.len() + record.value.as_ref().map_or(0, Vec::len);
    let (mut pages, mut next) = (Vec::new(), Some(Seq(1)));
    while let Some(from) = next {
        let page = fleet.store.read_records(&fleet.tenant, holder.job, from, &[], 1_000).await.unwrap();
        next = page.next;
        pages.push(page.records);
    }
    let limit = usize::try_from(RECORD_PAGE_MAX_BYTES).unwrap();
    for (page, following) in pages.iter().zip(pages.iter().skip(1)) {
        let bytes: usize = page.iter().map(size).sum();
        assert!(bytes <= limit, "{bytes}");
        assert!(bytes + size(&following[0]) > limit, "{bytes} and one more would fit");
    }
    assert_eq!(pages.len(), 4);
    let seqs: Vec<_> = pages.iter().flatten().map(|record| record.seq.0).collect();
    assert_eq!(seqs, (1..=33).collect::<Vec<_>>());
}

#[tokio::test]
async fn facts_come_in_the_order_asked_and_only_of_ones_own_tenant() {
    let fleet = Fleet::start().await;
    let (first, second) = (fleet.submit().await.job, fleet.submit().await.job);
    let tenant = &fleet.tenant;
    let wanted = [
        (tenant.clone(), second),
        (tenant.clone(), JobId(Uuid::now_v7())),
        ("other".parse().unwrap(), first),
        (tenant.clone(), first),
    ];
    let found = fleet.store.read_facts(&wanted).await.unwrap();
    let found: Vec<_> =
        found.iter().map(|facts| facts.as_ref().map(|facts| facts.as_ref().unwrap().job)).collect();
    assert_eq!(found, [Some(second), None, None, Some(first)]);
}
