//! Submissions as the arrays that the statement takes: one value a column for each job, or for each record.

use serde_json::Value;
use tenure_core::record::{DeadlineSetting, SealedRecord};
use uuid::Uuid;

use super::{EagerClaim, NewJob};
use crate::{
    stored::{to_bigint, to_integer},
    timestamp::Stamp,
};

/// A column for each property of a submission.
#[derive(Debug, Default)]
pub(super) struct JobColumns<'a> {
    pub(super) no: Vec<i64>,
    pub(super) tenant: Vec<String>,
    pub(super) job: Vec<Uuid>,
    pub(super) session: Vec<Uuid>,
    pub(super) agent: Vec<String>,
    pub(super) submitted_by: Vec<String>,
    pub(super) declaration: Vec<&'a [u8]>,
    pub(super) bundle: Vec<Option<&'a [u8]>>,
    pub(super) recovery: Vec<Value>,
    pub(super) hops: Vec<i32>,
    pub(super) run_cap: Vec<i32>,
    pub(super) budget_micros: Vec<i64>,
    pub(super) priority: Vec<i16>,
    pub(super) labels: Vec<Value>,
    /// As JSON, because an array of arrays must be rectangular.
    pub(super) requires: Vec<Value>,
    pub(super) traceparent: Vec<Option<&'a str>>,
    pub(super) generation: Vec<i64>,
    pub(super) key_hash: Vec<Option<&'a [u8]>>,
    pub(super) payload_digest: Vec<Option<&'a [u8]>>,
    pub(super) not_before: Vec<Option<Stamp>>,
    pub(super) cause: Vec<Value>,
    pub(super) ceiling_s: Vec<Option<i64>>,
    pub(super) deadline_at: Vec<Option<Stamp>>,
    pub(super) worker: Vec<Option<&'a str>>,
    pub(super) term: Vec<Option<i64>>,
    pub(super) attach: Vec<Option<i64>>,
    pub(super) secret_hash: Vec<Option<&'a [u8]>>,
}

/// A column for each property of a record; `no` names its job.
#[derive(Debug, Default)]
pub(super) struct RecordColumns<'a> {
    pub(super) no: Vec<i64>,
    pub(super) tenant: Vec<&'a str>,
    pub(super) job: Vec<Uuid>,
    pub(super) seq: Vec<i64>,
    pub(super) epoch: Vec<i64>,
    pub(super) run: Vec<i32>,
    pub(super) kind: Vec<&'a str>,
    pub(super) at: Vec<Stamp>,
    pub(super) bytes: Vec<&'a [u8]>,
    pub(super) hash: Vec<&'a [u8]>,
    pub(super) value: Vec<Option<&'a [u8]>>,
    pub(super) salt: Vec<Option<&'a [u8]>>,
}

impl<'a> JobColumns<'a> {
    pub(super) fn of(jobs: &'a [NewJob]) -> Self {
        let mut columns = Self::default();
        for (no, job) in jobs.iter().enumerate() {
            columns.no.push(to_bigint(no as u64));
            columns.push_identity(job);
            columns.push_settings(job);
            columns.push_times(job);
            columns.push_claim(job.claim.as_ref());
        }
        columns
    }

    fn push_identity(&mut self, job: &'a NewJob) {
        self.tenant.push(job.tenant.to_string());
        self.job.push(job.job.0);
        self.session.push(job.session.0);
        self.generation.push(to_bigint(job.generation.0));
        self.agent.push(job.agent.to_string());
        self.submitted_by.push(job.submitted_by.clone());
        self.declaration.push(&job.declaration.0);
        self.bundle.push(job.bundle.as_ref().map(|digest| &digest.0[..]));
        self.key_hash.push(job.key.as_ref().map(|key| &key.hash.0[..]));
        self.payload_digest.push(job.key.as_ref().map(|key| &key.payload.0[..]));
    }

    fn push_settings(&mut self, job: &'a NewJob) {
        self.recovery.push(serde_json::json!(job.recovery));
        self.hops.push(to_integer(job.hops));
        self.run_cap.push(to_integer(job.run_cap));
        self.budget_micros.push(to_bigint(job.budget_micros));
        self.priority.push(i16::from(job.priority));
        self.labels.push(serde_json::json!(job.labels));
        self.requires.push(serde_json::json!(job.requires));
        self.traceparent.push(job.traceparent.as_deref());
    }

    fn push_times(&mut self, job: &NewJob) {
        let (ceiling_s, deadline_at) = match job.deadline {
            DeadlineSetting::CeilingS(seconds) => (Some(to_bigint(seconds)), None),
            DeadlineSetting::At(instant) => (None, Some(Stamp(instant))),
            DeadlineSetting::None => (None, None),
        };
        self.not_before.push(job.not_before.map(Stamp));
        self.cause.push(serde_json::json!(job.cause));
        self.ceiling_s.push(ceiling_s);
        self.deadline_at.push(deadline_at);
    }

    fn push_claim(&mut self, claim: Option<&'a EagerClaim>) {
        self.worker.push(claim.map(|claim| claim.worker.as_str()));
        self.term.push(claim.map(|claim| to_bigint(claim.term.0)));
        self.attach.push(claim.map(|claim| to_bigint(claim.attach.0)));
        self.secret_hash.push(claim.map(|claim| &claim.secret_hash.0[..]));
    }
}

impl<'a> RecordColumns<'a> {
    pub(super) fn of(jobs: &'a [NewJob]) -> Self {
        let mut columns = Self::default();
        for (no, job) in jobs.iter().enumerate() {
            for record in job.records.iter().chain(job.claim.as_ref().map(|claim| &claim.record)) {
                columns.push(no, job, record);
            }
        }
        columns
    }

    fn push(&mut self, no: usize, job: &'a NewJob, record: &'a SealedRecord) {
        self.no.push(to_bigint(no as u64));
        self.tenant.push(job.tenant.as_str());
        self.job.push(job.job.0);
        self.seq.push(to_bigint(record.seq.0));
        self.epoch.push(to_bigint(record.epoch.0));
        self.run.push(to_integer(record.run.0));
        self.kind.push(record.kind);
        self.at.push(Stamp(record.at));
        self.bytes.push(&record.bytes);
        self.hash.push(&record.hash.0);
        self.value.push(record.value.as_ref().map(|beside| &beside.value[..]));
        self.salt.push(record.value.as_ref().map(|beside| &beside.salt[..]));
    }
}
