//! What was changed behind the fleet's back is found by the client, and named by seq.

use bytes::Bytes;
use tenure_client::ClientError;
use tenure_core::{chain::value_digest, id::Seq, reason::Reason, record::ValueRef, verify::ChainFlaw};
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
async fn a_value_that_is_not_there_and_was_not_erased_is_missing() {
    let found = find(|script| (script.records[1].value, script.records[1].salt) = (None, None));
    assert_eq!(found.await, (Seq(2), ChainFlaw::ValueMissing));
}

#[tokio::test]
async fn a_large_value_is_read_on_where_its_stream_broke_and_checked_here() {
    use v1::get_blob_response::Part;

    let salt = [3; 16];
    let chunks: Vec<Bytes> = (0..5).map(|number| Bytes::from(vec![number; 10])).collect();
    let value: Vec<u8> = chunks.concat();
    let named = ValueRef { sha256: value_digest(&salt, &value), bytes: value.len() as u64 };
    let head = v1::BlobHead { salt: salt.to_vec().into(), bytes: named.bytes };
    let message = |part| v1::GetBlobResponse { part: Some(part) };
    let mut blob = vec![message(Part::Head(head))];
    blob.extend(chunks.into_iter().map(|chunk| message(Part::Chunk(chunk))));
    let server = Server::start(Script { blob, breaks_after: 2, ..concluded() }).await;
    let job = JOB.parse().unwrap();
    assert_eq!(server.client().read_blob(job, named).read_whole().await.unwrap(), value);
    assert!(server.script().streams.len() > 1, "no stream broke");
    let other = ValueRef { sha256: value_digest(&salt, b"other"), ..named };
    let error = server.client().read_blob(job, other).read_whole().await.unwrap_err();
    assert_eq!(error.reason(), Reason::BlobDiffers);
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
