//! What was changed behind the fleet's back is found by the client, and named by seq.

use bytes::Bytes;
use tenure_client::ClientError;
use tenure_core::{id::Seq, reason::Reason, verify::ChainFlaw};
use tenure_proto::v1;

use crate::{
    journal::JOB,
    server::{Script, Server, sealed},
};

/// More than a page.
const RECORDS: u32 = 10;

/// Verifies a journal that was tampered with; returns what was found.
async fn find(tamper: impl FnOnce(&mut Script)) -> (Seq, ChainFlaw) {
    let server = Server::start(concluded()).await;
    tamper(&mut server.script());
    let error = server.client().verify_job(JOB).await.unwrap_err();
    assert_eq!(error.reason(), Reason::ChainBroken);
    match error {
        ClientError::ChainBroken { finding, .. } => (finding.seq, finding.flaw),
        other => panic!("{other}"),
    }
}

fn concluded() -> Script {
    let script = sealed(RECORDS);
    let head = script.records.last().map(|r| v1::ConcludedHead { seq: r.seq, hash: r.hash.clone() });
    Script { concluded_head: head, ..script }
}

#[tokio::test]
async fn an_untouched_journal_verifies_over_several_pages() {
    let server = Server::start(concluded()).await;
    let journal = server.client().verify_job(JOB).await.unwrap();
    assert_eq!(journal.job.to_string(), JOB);
    assert_eq!(journal.verified.head.seq, Seq(u64::from(RECORDS)));
    assert!(journal.verified.values_checked > 0);
}

#[tokio::test]
async fn an_erased_value_is_counted_and_verifies() {
    let server = Server::start(concluded()).await;
    (server.script().records[1].value, server.script().records[1].salt) = (None, None);
    assert_eq!(server.client().verify_job(JOB).await.unwrap().verified.values_absent, 1);
}

#[tokio::test]
async fn one_byte_of_white_space_is_found() {
    let found = find(|script| {
        let text = String::from_utf8(script.records[6].bytes.to_vec()).unwrap();
        script.records[6].bytes = Bytes::from(text.replacen(':', ": ", 1));
    });
    assert_eq!(found.await, (Seq(7), ChainFlaw::Edited));
}

#[tokio::test]
async fn a_missing_record_is_found() {
    let found = find(|script| drop(script.records.remove(5)));
    assert_eq!(found.await, (Seq(6), ChainFlaw::Missing));
}

#[tokio::test]
async fn a_missing_last_record_of_a_concluded_job_is_found() {
    let found = find(|script| drop(script.records.pop()));
    assert_eq!(found.await, (Seq(10), ChainFlaw::Missing));
}

#[tokio::test]
async fn an_edited_value_is_found() {
    let found = find(|script| script.records[4].value = Some(Bytes::from_static(b"another note")));
    assert_eq!(found.await, (Seq(5), ChainFlaw::ValueEdited));
}
