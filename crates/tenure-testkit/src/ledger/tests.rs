use std::{fs, io::Write as _, path::PathBuf, time::Duration};

use super::*;

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn new_place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.jsonl");
    Place { _directory: directory, path }
}

fn client_of(ledger: &Ledger) -> LedgerClient {
    LedgerClient::new(&ledger.url(), Duration::from_secs(60))
}

fn texts(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.text.as_str()).collect()
}

#[tokio::test]
async fn same_key_is_entered_once_and_gets_the_same_answer_also_after_a_restart() {
    let place = new_place();
    let ledger = Ledger::start(&place.path).await.unwrap();
    let first = client_of(&ledger).post(Some("job/announce"), "released").await.unwrap();
    assert!(!first.repeated);
    drop(ledger);

    let ledger = Ledger::start(&place.path).await.unwrap();
    let again = client_of(&ledger).post(Some("job/announce"), "released").await.unwrap();
    assert!(again.repeated);
    assert_eq!(again.entry, first.entry);
    assert_eq!(texts(&ledger.entries().unwrap()), ["released"]);
}

#[tokio::test]
async fn sixteen_posts_of_one_key_at_once_make_one_entry() {
    let place = new_place();
    let ledger = Ledger::start(&place.path).await.unwrap();
    let mut posts = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let client = client_of(&ledger);
        posts.spawn(async move { client.post(Some("k"), "t").await.unwrap().repeated });
    }
    let repeated = posts.join_all().await;
    assert_eq!(repeated.iter().filter(|repeated| !**repeated).count(), 1);
    assert_eq!(ledger.entries().unwrap().len(), 1);
}

#[tokio::test]
async fn posts_without_a_key_are_entered_each_time() {
    let place = new_place();
    let ledger = Ledger::start(&place.path).await.unwrap();
    for _ in 0..2 {
        client_of(&ledger).post(None, "again").await.unwrap();
    }
    assert_eq!(texts(&client_of(&ledger).entries().await.unwrap()), ["again", "again"]);
}

#[tokio::test]
async fn same_key_with_another_text_is_refused_and_enters_nothing() {
    let place = new_place();
    let ledger = Ledger::start(&place.path).await.unwrap();
    client_of(&ledger).post(Some("k"), "one").await.unwrap();
    let refused = client_of(&ledger).post(Some("k"), "two").await.unwrap_err();
    assert!(matches!(refused, LedgerError::Refused { status: 409, .. }), "{refused:?}");
    assert_eq!(texts(&ledger.entries().unwrap()), ["one"]);
}

#[tokio::test]
async fn swallowed_post_has_happened_and_its_repetition_is_answered() {
    let place = new_place();
    let ledger = Ledger::start(&place.path).await.unwrap();
    client_of(&ledger).behave(Behaviour { swallow: 1, ..Behaviour::default() }).await.unwrap();
    let lost = client_of(&ledger).post(Some("k"), "t").await.unwrap_err();
    assert!(matches!(lost, LedgerError::Unanswered { .. }), "{lost:?}");
    assert_eq!(texts(&ledger.entries().unwrap()), ["t"]);
    assert_eq!(ledger.left_to_swallow(), 0);
    assert!(client_of(&ledger).post(Some("k"), "t").await.unwrap().repeated);
}

#[tokio::test]
async fn slow_answer_comes_after_the_entry_was_made() {
    let place = new_place();
    let ledger = Ledger::start(&place.path).await.unwrap();
    ledger.behave(Behaviour { delay_after_ms: 3_600_000, ..Behaviour::default() });
    let client = client_of(&ledger);
    let posting = tokio::spawn(async move { client.post(Some("k"), "t").await });
    crate::wait_for("the entry", Duration::from_secs(60), async || {
        let entries = ledger.entries().unwrap();
        if entries.is_empty() { Err(entries) } else { Ok(()) }
    })
    .await;
    assert!(!posting.is_finished());
    posting.abort();
}

#[tokio::test]
async fn key_with_any_character_is_found_and_an_unknown_one_is_not() {
    let place = new_place();
    let ledger = Ledger::start(&place.path).await.unwrap();
    client_of(&ledger).post(Some("mail/a b%2F?"), "t").await.unwrap();
    assert_eq!(texts(&client_of(&ledger).find("mail/a b%2F?").await.unwrap()), ["t"]);
    assert_eq!(client_of(&ledger).find("mail/a").await.unwrap(), []);
}

#[tokio::test]
async fn line_added_by_hand_is_seen() {
    let place = new_place();
    let ledger = Ledger::start(&place.path).await.unwrap();
    client_of(&ledger).post(Some("k"), "t").await.unwrap();
    let line = fs::read(&place.path).unwrap();
    fs::OpenOptions::new().append(true).open(&place.path).unwrap().write_all(&line).unwrap();
    assert_eq!(texts(&client_of(&ledger).entries().await.unwrap()), ["t", "t"]);
}

#[tokio::test]
async fn line_that_is_no_entry_is_named() {
    let place = new_place();
    let ledger = Ledger::start(&place.path).await.unwrap();
    client_of(&ledger).post(None, "t").await.unwrap();
    fs::OpenOptions::new().append(true).open(&place.path).unwrap().write_all(b"nonsense\n").unwrap();
    let error = ledger.entries().unwrap_err();
    assert!(matches!(error, LedgerError::Line { line: 2, .. }), "{error:?}");
}

#[tokio::test]
async fn line_that_a_kill_cut_short_was_never_answered_and_goes() {
    let place = new_place();
    drop(Ledger::start(&place.path).await.unwrap());
    fs::write(&place.path, b"{\"number\":1,\"te").unwrap();
    let ledger = Ledger::start(&place.path).await.unwrap();
    let posted = client_of(&ledger).post(Some("k"), "t").await.unwrap();
    assert_eq!((posted.repeated, posted.entry.number), (false, 1));
    assert_eq!(texts(&ledger.entries().unwrap()), ["t"]);
}
