//! A journal that is sealed as a coordinator would, on the wire.

use tenure_client::job::Job;
use tenure_core::{
    chain::Head,
    id::{Epoch, Generation, JobId, Run, Tenant},
    principal::Principal,
    record::{Draft, Header, RecordKind, SaltedValue, seal_records},
};
use tenure_proto::{convert::time::write_timestamp, v1};

/// The job of every test.
pub(crate) const JOB: &str = "0193a7c2-1111-7000-8000-00000000abcd";

/// So many records that follow one another: notes with a value, and some without.
pub(crate) fn make_records(count: u32) -> Vec<v1::Record> {
    let at = jiff::Timestamp::from_second(1_796_000_000).unwrap();
    let header = Header {
        tenant: Tenant::default_tenant(),
        job: JOB.parse::<JobId>().unwrap(),
        generation: Generation(1),
        epoch: Epoch(1),
        run: Run(1),
    };
    let drafts = (0..count).map(make_draft).collect();
    let sealed = seal_records(&header, Head::genesis(), at, drafts).unwrap();
    sealed
        .into_iter()
        .map(|record| v1::Record {
            seq: record.seq.0,
            bytes: record.bytes.into(),
            hash: record.hash.0.to_vec().into(),
            value: record.value.as_ref().map(|value| value.value.clone().into()),
            salt: record.value.as_ref().map(|value| value.salt.to_vec().into()),
            stored_at: Some(write_timestamp(at)),
            kind: record.kind.to_owned(),
        })
        .collect()
}

fn make_draft(number: u32) -> Draft {
    if number.is_multiple_of(3) {
        return Draft::bare(RecordKind::OperatorActed {
            verb: "recover".into(),
            by: Principal::asserted("somebody"),
            why: format!("reason {number}"),
            erased: None,
        });
    }
    let value = SaltedValue { value: format!("note {number}").into_bytes(), salt: [7; 16] };
    Draft::with_value(value, |text| RecordKind::Note { text })
}

/// The job, whose journal has these records.
pub(crate) fn make_job(state: v1::JobState, run: u32, records: &[v1::Record]) -> v1::Job {
    let at = Some(write_timestamp(jiff::Timestamp::UNIX_EPOCH));
    v1::Job {
        id: JOB.into(),
        session_id: JOB.into(),
        agent: "greet".into(),
        declaration_digest: vec![0; 32].into(),
        state: state as i32,
        state_since: at,
        submitted_at: at,
        run,
        head_seq: records.last().map_or(0, |record| record.seq),
        head_hash: records.last().map_or_else(|| vec![0; 32].into(), |record| record.hash.clone()),
        ..v1::Job::default()
    }
}

/// Only for what a test asks of a job that it read.
pub(crate) fn is_the_job(job: &Job) -> bool {
    job.id.to_string() == JOB
}
