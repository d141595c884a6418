//! Every way in which a chain can be broken, and that each is named.

use proptest::prelude::*;

use super::*;
use crate::{
    factory::{Journal, admitted, job_id, note, person, run_started},
    handover::Cause,
    job::State,
    record::{Draft, RecordKind, SealedRecord},
};

fn concluded() -> Draft {
    Draft::bare(RecordKind::JobConcluded {
        outcome: State::Succeeded,
        reason: None,
        result: None,
        output_chunks: Some(2),
    })
}

fn journal_of(job: JobId) -> Journal {
    Journal::of(job)
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch)])
        .write(1, 1, vec![note("read the diff"), note("wrote the notes")])
        .write(1, 1, vec![concluded()])
}

fn stored(records: &[SealedRecord]) -> Vec<StoredRecord> {
    records
        .iter()
        .map(|record| StoredRecord {
            seq: record.seq,
            bytes: record.bytes.clone(),
            hash: record.hash,
            value: record.value.as_ref().map(|value| value.value.clone()),
            salt: record.value.as_ref().map(|value| value.salt.to_vec()),
        })
        .collect()
}

/// The six rows of a concluded job, and the head that was noted outside the chain.
fn chain() -> (Vec<StoredRecord>, Head) {
    let journal = journal_of(job_id());
    (stored(&journal.records), journal.head())
}

fn other_job() -> JobId {
    JobId(uuid::Uuid::from_u128(job_id().0.as_u128() + 1))
}

fn verify(rows: Vec<StoredRecord>, head: Option<Head>) -> Result<Verified, Finding> {
    verify_chain(rows, head, &Tenant::default_tenant(), job_id())
}

fn verified(head: Head, values_checked: u64, values_erased: u64) -> Verified {
    Verified { head, values_checked, values_erased, blobs: Vec::new() }
}

fn finding(seq: u64, flaw: ChainFlaw) -> Result<Verified, Finding> {
    Err(Finding { seq: Seq(seq), flaw })
}

/// A chain whose hashes follow, whatever is in it: what somebody who can compute them could store.
fn rehash(mut rows: Vec<StoredRecord>) -> Vec<StoredRecord> {
    let mut head = Head::genesis();
    for row in &mut rows {
        head = head.extend(&row.bytes);
        row.hash = head.hash;
    }
    rows
}

fn edit(row: &mut StoredRecord, from: &str, to: &str) {
    let text = String::from_utf8(row.bytes.clone()).unwrap();
    assert!(text.contains(from), "{text}");
    row.bytes = text.replacen(from, to, 1).into_bytes();
}

#[test]
fn a_whole_chain_verifies_and_says_what_was_checked() {
    let (rows, head) = chain();
    assert_eq!(verify(rows, Some(head)), Ok(verified(head, 3, 0)));
}

fn erased(part: ErasedPart) -> Draft {
    let (verb, why) = ("erase".to_owned(), "asked for".to_owned());
    Draft::bare(RecordKind::OperatorActed { verb, by: person(), why, erased: Some(part) })
}

/// The concluded job, of which a part was erased afterwards.
fn erased_chain(part: ErasedPart) -> (Vec<StoredRecord>, Head) {
    let journal = journal_of(job_id()).write(1, 1, vec![erased(part)]);
    (stored(&journal.records), journal.head())
}

fn drop_value(row: &mut StoredRecord) {
    (row.value, row.salt) = (None, None);
}

#[test]
fn erased_values_are_counted_and_the_chain_still_verifies() {
    let (mut rows, head) = erased_chain(ErasedPart::Output);
    drop_value(&mut rows[3]);
    drop_value(&mut rows[4]);
    assert_eq!(verify(rows, None), Ok(verified(head, 1, 2)));
    let (mut rows, head) = erased_chain(ErasedPart::Input);
    drop_value(&mut rows[0]);
    assert_eq!(verify(rows, None), Ok(verified(head, 2, 1)));
}

#[test]
fn a_value_that_nobody_erased_is_missing() {
    let (mut rows, head) = chain();
    drop_value(&mut rows[3]);
    assert_eq!(verify(rows, Some(head)), finding(4, ChainFlaw::ValueMissing));
    let (mut rows, _) = erased_chain(ErasedPart::Input);
    drop_value(&mut rows[4]);
    assert_eq!(verify(rows, None), finding(5, ChainFlaw::ValueMissing));
    let (mut rows, _) = erased_chain(ErasedPart::Output);
    drop_value(&mut rows[0]);
    assert_eq!(verify(rows, None), finding(1, ChainFlaw::ValueMissing));
}

#[test]
fn what_is_written_after_an_erasure_is_not_excused_by_it() {
    let journal = journal_of(job_id()).write(1, 1, vec![erased(ErasedPart::Output), note("later")]);
    let mut rows = stored(&journal.records);
    drop_value(&mut rows[7]);
    assert_eq!(verify(rows, None), finding(8, ChainFlaw::ValueMissing));
}

#[test]
fn a_value_that_no_row_takes_is_named_for_whoever_reads_the_blob_store() {
    let reference = ValueRef { sha256: Digest::of(b"large"), bytes: 8 << 20 };
    let kind = |result| RecordKind::JobConcluded {
        outcome: State::Succeeded,
        reason: None,
        result: Some(result),
        output_chunks: None,
    };
    let large = Draft::bare(kind(reference));
    let journal = Journal::of(job_id()).write(0, 0, admitted("v1.2.0")).write(1, 1, vec![large]);
    let found = verify(stored(&journal.records), None).unwrap();
    assert_eq!(found.blobs, [NamedBlob { seq: Seq(3), reference }]);
    let journal = journal.write(1, 1, vec![erased(ErasedPart::Output)]);
    let found = verify(stored(&journal.records), None).unwrap();
    assert_eq!((found.blobs, found.values_erased), (vec![], 1));
}

#[test]
fn white_space_is_an_edit_too() {
    let (mut rows, head) = chain();
    edit(&mut rows[3], "\"kind\":\"note\"", "\"kind\": \"note\"");
    assert_eq!(verify(rows, Some(head)), finding(4, ChainFlaw::Edited));
}

#[test]
fn a_deleted_row_is_named() {
    for deleted in 0..6 {
        let (mut rows, head) = chain();
        rows.remove(deleted);
        assert_eq!(verify(rows, Some(head)), finding(deleted as u64 + 1, ChainFlaw::Missing));
    }
    assert_eq!(verify(Vec::new(), None), finding(1, ChainFlaw::Missing));
}

#[test]
fn a_missing_last_row_is_found_only_by_the_head_outside_the_chain() {
    let (mut rows, head) = chain();
    rows.pop();
    assert!(verify(rows.clone(), None).is_ok());
    assert_eq!(verify(rows, Some(head)), finding(6, ChainFlaw::Missing));
}

#[test]
fn a_last_row_that_was_written_anew_is_found_by_the_head_outside_the_chain() {
    let (mut rows, head) = chain();
    edit(&mut rows[5], "succeeded", "failed");
    assert_eq!(verify(rehash(rows), Some(head)), finding(6, ChainFlaw::HeadDiffers));
}

#[test]
fn two_swapped_rows_are_named() {
    let (mut rows, head) = chain();
    rows.swap(3, 4);
    (rows[3].seq, rows[4].seq) = (Seq(4), Seq(5));
    assert_eq!(verify(rows.clone(), Some(head)), finding(4, ChainFlaw::Moved { from: Seq(5) }));
    assert_eq!(verify(rehash(rows), Some(head)), finding(4, ChainFlaw::Moved { from: Seq(5) }));
    let (mut rows, head) = chain();
    rows.swap(3, 4);
    assert_eq!(verify(rows, Some(head)), finding(4, ChainFlaw::Missing));
}

#[test]
fn a_repeated_row_is_named() {
    let (mut rows, head) = chain();
    rows.insert(4, rows[3].clone());
    assert_eq!(verify(rows, Some(head)), finding(4, ChainFlaw::OutOfOrder));
}

#[test]
fn a_row_spliced_from_another_job_or_tenant_is_named() {
    let spliced = stored(&journal_of(other_job()).records);
    let (mut rows, head) = chain();
    rows[3] = spliced[3].clone();
    let of = other_job().to_string();
    assert_eq!(verify(rows.clone(), Some(head)), finding(4, ChainFlaw::Spliced { of: of.clone() }));
    assert_eq!(verify(rehash(rows), Some(head)), finding(4, ChainFlaw::Spliced { of: of.clone() }));
    assert_eq!(verify(spliced, None), finding(1, ChainFlaw::Spliced { of }));
    let (rows, head) = chain();
    let elsewhere = verify_chain(rows, Some(head), &"other".parse().unwrap(), job_id());
    assert_eq!(elsewhere, finding(1, ChainFlaw::Spliced { of: job_id().to_string() }));
}

#[test]
fn an_edited_or_added_value_is_named() {
    let (mut rows, head) = chain();
    rows[3].value = Some(b"read the difF".to_vec());
    assert_eq!(verify(rows, Some(head)), finding(4, ChainFlaw::ValueEdited));
    let (mut rows, head) = chain();
    rows[3].salt = Some(vec![0; 16]);
    assert_eq!(verify(rows, Some(head)), finding(4, ChainFlaw::ValueEdited));
    let (mut rows, head) = chain();
    rows[2].value = Some(Vec::new());
    assert_eq!(verify(rows, Some(head)), finding(3, ChainFlaw::ValueEdited));
}

#[test]
fn an_epoch_generation_or_time_that_falls_is_named() {
    let cases = [
        ("\"epoch\":1", "\"epoch\":0", ChainFlaw::EpochFell),
        ("\"generation\":1", "\"generation\":0", ChainFlaw::EpochFell),
        ("2026-11-30T09:00:03Z", "2026-11-30T09:00:01Z", ChainFlaw::TimeFell),
    ];
    for (from, to, flaw) in cases {
        let (mut rows, _) = chain();
        edit(&mut rows[3], from, to);
        assert_eq!(verify(rehash(rows), None), finding(4, flaw));
    }
}

#[test]
fn a_kind_that_this_release_does_not_know_is_no_error() {
    let (mut rows, _) = chain();
    edit(&mut rows[2], "\"kind\":\"run_started\"", "\"kind\":\"teleported\"");
    assert!(verify(rehash(rows), None).is_ok());
}

#[test]
fn bytes_that_are_no_record_are_named() {
    let (mut rows, _) = chain();
    rows[3].bytes = b"{}".to_vec();
    let Err(Finding { seq: Seq(4), flaw: ChainFlaw::Unreadable(_) }) = verify(rehash(rows), None) else {
        panic!("not found");
    };
}

#[test]
fn a_finding_says_where_and_what() {
    let (mut rows, head) = chain();
    rows.remove(3);
    let finding = verify(rows, Some(head)).unwrap_err();
    assert_eq!(finding.to_string(), "seq 4: the record is missing");
}

proptest! {
    #[test]
    fn any_changed_byte_is_found_and_named_at_its_row(
        row in 0..6usize, place in any::<prop::sample::Index>(), change in 1..=255u8,
    ) {
        let (mut rows, head) = chain();
        let place = place.index(rows[row].bytes.len());
        rows[row].bytes[place] ^= change;
        let found = verify(rows, Some(head)).unwrap_err();
        prop_assert_eq!(found.seq, Seq(row as u64 + 1), "{}", found);
    }

    #[test]
    fn any_changed_byte_of_a_hash_or_value_is_found_at_its_row(
        row in 0..6usize, place in any::<prop::sample::Index>(), change in 1..=255u8,
    ) {
        let (mut rows, head) = chain();
        rows[row].hash.0[place.index(32)] ^= change;
        prop_assert_eq!(verify(rows, Some(head)).unwrap_err().seq, Seq(row as u64 + 1));
        let (mut rows, head) = chain();
        if let Some(value) = rows[row].value.as_mut() {
            let place = place.index(value.len());
            value[place] ^= change;
            prop_assert_eq!(verify(rows, Some(head)), finding(row as u64 + 1, ChainFlaw::ValueEdited));
        }
    }

    #[test]
    fn an_inserted_or_cut_byte_is_found(
        row in 0..6usize, place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let (mut rows, head) = chain();
        let place = place.index(rows[row].bytes.len());
        rows[row].bytes.insert(place, byte);
        prop_assert_eq!(verify(rows, Some(head)).unwrap_err().seq, Seq(row as u64 + 1));
        let (mut rows, head) = chain();
        rows[row].bytes.remove(place);
        prop_assert_eq!(verify(rows, Some(head)).unwrap_err().seq, Seq(row as u64 + 1));
    }
}
