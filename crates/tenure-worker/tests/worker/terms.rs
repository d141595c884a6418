//! A term that is renewed, is not, or is closed.

use std::time::{Duration, SystemTime};

use serde_json::json;
use tenure_proto::v1::{Renew, attach_request::Message, run_end::How};

use crate::{
    agent::{run_ref, script},
    coordinator::{Book, Got, Renewals},
    fixture::{Fixture, ends, messages, wait_for_end, wait_for_file, wait_until},
};

/// Shorter than a real one may be, so that nobody waits long; the margin is still half a second.
const SHORT_TTL: Duration = Duration::from_secs(3);

fn renewals(got: &[Got]) -> Vec<Renew> {
    messages(got)
        .filter_map(|m| if let Message::Renew(renew) = m { Some(renew.clone()) } else { None })
        .collect()
}

async fn wait_for_renewals(book: &Book, count: usize) -> Vec<Renew> {
    book.wait_for(&format!("{count} renewals"), |got| Some(renewals(got)).filter(|all| all.len() >= count))
        .await
}

#[tokio::test]
async fn a_renewal_goes_at_once_and_echoes_the_last_answer() {
    let fixture = Fixture::start_with(|book| book.set_ttl(SHORT_TTL), |_| {}).await;
    let sent = wait_for_renewals(&fixture.book, 3).await;
    let numbers: Vec<(u64, u64)> = sent.iter().take(3).map(|renew| (renew.no, renew.echo)).collect();
    assert_eq!(numbers, [(1, 1), (2, 2), (3, 3)], "the registration's answer first, then each renewal's");
}

#[tokio::test]
async fn the_list_of_runs_goes_with_a_renewal_where_it_changed() {
    let fixture = Fixture::start_with(|book| book.set_ttl(SHORT_TTL), |_| {}).await;
    let started = fixture.path("started");
    fixture.grant(1, script(&format!("echo yes > {}; sleep 600", started.display()), json!({}))).await;
    wait_for_file(&started).await;
    let given = fixture
        .book
        .wait_for("a renewal with the list", |got| renewals(got).into_iter().find(|renew| renew.runs_given))
        .await;
    assert_eq!(given.runs, [run_ref(1)]);
    let before = renewals(&fixture.book.got()).len();
    let later = wait_for_renewals(&fixture.book, before + 2).await;
    assert!(!later.last().unwrap().runs_given, "it has not changed since");
}

#[tokio::test]
async fn a_deaf_answer_is_followed_by_a_renewal_at_once_with_its_number() {
    let fixture = Fixture::start_with(|book| book.set_renewals(Renewals::Deaf), |_| {}).await;
    // The beat of a term of 30 s is 10 s: three within the patience of a test are answers to answers.
    let sent = wait_for_renewals(&fixture.book, 3).await;
    fixture.book.set_renewals(Renewals::Renew);
    assert_eq!(sent[..3].iter().map(|renew| renew.echo).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test]
async fn a_closed_term_ends_every_run_and_the_worker_registers_anew() {
    let fixture = Fixture::start_with(|book| book.set_ttl(SHORT_TTL), |_| {}).await;
    let started = fixture.path("started");
    let text = format!("trap '' TERM; echo $$ > {}; while true; do sleep 0.02; done", started.display());
    fixture.grant(1, script(&text, json!({"stop-grace": "600s"}))).await;
    wait_for_file(&started).await;
    fixture.book.set_renewals(Renewals::Closed);
    fixture
        .book
        .wait_for("a second registration", |got| {
            got.iter().filter(|got| matches!(got, Got::Registration(_))).nth(1).map(|_| ())
        })
        .await;
    fixture.book.set_renewals(Renewals::Renew);
    let (term, _) = fixture.book.wait_for_stream(2).await;
    assert!(term >= 2, "under a new number");
    fixture
        .book
        .wait_for("the old run to be reported gone", |got| {
            got.iter()
                .find(|got| matches!(got, Got::Gone(gone) if gone.job_id == run_ref(1).job_id))
                .map(|_| ())
        })
        .await;
    let streams = fixture.book.stream_count();
    fixture.book.wait_for_stream(streams).await;
    fixture.grant(2, script("true", json!({}))).await;
    wait_for_end(&fixture.book, &run_ref(2), 1).await;
    assert!(ends(&fixture.book.got(), &run_ref(1)).is_empty());
}

#[tokio::test]
async fn a_worker_that_nobody_answers_ends_its_children_before_the_term_can_be_closed() {
    let fixture = Fixture::start_with(|book| book.set_ttl(SHORT_TTL), |_| {}).await;
    let beats = fixture.path("beats");
    let text = format!("trap '' TERM; while true; do date +%s%N >> {}; sleep 0.02; done", beats.display());
    fixture.grant(1, script(&text, json!({"stop-grace": "600s"}))).await;
    wait_for_file(&beats).await;
    fixture.book.set_renewals(Renewals::Silent);
    // Whatever was renewed was renewed before now, so the term cannot be closed before this.
    let last_renewal = SystemTime::now();
    let earliest_sent = renewals(&fixture.book.got()).len();
    assert!(earliest_sent >= 1);
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(How::ContactLost(_))), "it is reported all the same");
    let text = std::fs::read_to_string(&beats).unwrap();
    let last_beat_ns: u128 = text.lines().last().unwrap().parse().unwrap();
    let closable = last_renewal.duration_since(SystemTime::UNIX_EPOCH).unwrap() + SHORT_TTL;
    assert!(last_beat_ns < closable.as_nanos(), "the last beat {last_beat_ns}, the term until {closable:?}");
}

#[tokio::test]
async fn a_worker_whose_every_connection_is_gone_ends_its_children_and_reports_them_when_it_is_back() {
    let mut fixture = Fixture::start_with(|book| book.set_ttl(SHORT_TTL), |_| {}).await;
    let started = fixture.path("started");
    fixture.grant(1, script(&format!("echo yes > {}; sleep 600", started.display()), json!({}))).await;
    wait_for_file(&started).await;
    let directory = fixture.run_directories().pop().unwrap();
    let address = fixture.coordinator.address;
    fixture.coordinator.stop();
    // The socket goes when the child has ended.
    wait_until("the child to be ended", || {
        std::fs::read_dir(fixture.path("worker/s")).unwrap().next().is_none().then_some(())
    })
    .await;
    assert!(directory.exists(), "its end is not acknowledged");
    fixture.coordinator = crate::coordinator::Coordinator::serve_at(fixture.book.clone(), address).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(How::ContactLost(_))));
}
