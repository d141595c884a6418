//! Jobs that a record gives work to, as the arrays that the statement takes. Their own first records go with the giver's, under its
//! number: they fall and stand together.

use serde_json::Value;
use tenure_core::{id::AgentName, joining::Placement, record::DeadlineSetting, sending::GiftKey};
use uuid::Uuid;

use super::{Append, group::Group};
use crate::{
    NewJob,
    stored::{to_bigint, to_integer},
    timestamp::Stamp,
};

/// A job that a record gives work to, stored in the statement that writes the record.
#[derive(Debug, Clone, PartialEq)]
pub struct Gift {
    /// The job, ready at once. Its key, its claim and a requested start are not looked at. It is of the giver's session unless
    /// that is its own.
    pub new: NewJob,
    /// What it is known by among the giver's.
    pub key: GiftKey,
    /// Where its session is its own, how deep that is; none: the giver's.
    pub depth: Option<u32>,
    /// Where it is a delivery to a join, what is written of that.
    pub delivery: Option<NewDelivery>,
}

/// A delivery to a join. The wave's job is written with the one that starts it, and with no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// Who delivers.
    pub upstream: AgentName,
    /// Where it belongs.
    pub placed: Placement,
    /// What is kept of it until the wave has its job.
    pub body: Vec<u8>,
}

impl Gift {
    /// True where its job is written with it.
    #[must_use]
    pub fn starts(&self) -> bool {
        self.delivery.as_ref().is_none_or(|delivery| delivery.placed.starts)
    }
}

/// A column for each property of a gift; `no` names the giver's group.
#[derive(Debug, Default)]
pub(super) struct GiftColumns<'a> {
    pub(super) no: Vec<i64>,
    pub(super) tenant: Vec<&'a str>,
    pub(super) job: Vec<Uuid>,
    pub(super) seq: Vec<i64>,
    pub(super) child: Vec<Uuid>,
    pub(super) session: Vec<Uuid>,
    pub(super) agent: Vec<&'a str>,
    pub(super) declaration: Vec<&'a [u8]>,
    pub(super) bundle: Vec<Option<&'a [u8]>>,
    pub(super) recovery: Vec<Value>,
    pub(super) hops: Vec<i32>,
    pub(super) priority: Vec<i16>,
    pub(super) requires: Vec<Value>,
    pub(super) traceparent: Vec<Option<&'a str>>,
    pub(super) key_hash: Vec<&'a [u8]>,
    pub(super) payload_digest: Vec<&'a [u8]>,
    pub(super) depth: Vec<Option<i32>>,
    pub(super) run_cap: Vec<i32>,
    pub(super) budget_micros: Vec<i64>,
    pub(super) ceiling_s: Vec<Option<i64>>,
    pub(super) deadline_at: Vec<Option<Stamp>>,
    pub(super) submitted_by: Vec<&'a str>,
    pub(super) upstream: Vec<Option<&'a str>>,
    pub(super) wave: Vec<Option<i32>>,
    pub(super) delivery_no: Vec<Option<i32>>,
    pub(super) missing: Vec<Value>,
    pub(super) body: Vec<Option<&'a [u8]>>,
    pub(super) starts: Vec<bool>,
}

impl<'a> GiftColumns<'a> {
    pub(super) fn of(batch: &'a [Append], groups: &[Group]) -> Self {
        let mut columns = Self::default();
        for group in groups {
            for append in group.appends(batch) {
                if let Some(gift) = &append.gift {
                    columns.push_giver(group.no, append, gift);
                    columns.push_job(&gift.new);
                    columns.push_session(gift);
                    columns.push_delivery(gift);
                }
            }
        }
        columns
    }

    fn push_giver(&mut self, no: usize, append: &'a Append, gift: &'a Gift) {
        self.no.push(to_bigint(no as u64));
        self.tenant.push(append.tenant.as_str());
        self.job.push(append.job.0);
        self.seq.push(append.records.last().map_or(0, |record| to_bigint(record.seq.0)));
        self.key_hash.push(&gift.key.hash.0);
        self.payload_digest.push(&gift.key.payload.0);
    }

    fn push_job(&mut self, new: &'a NewJob) {
        self.child.push(new.job.0);
        self.session.push(new.session.0);
        self.agent.push(new.agent.as_str());
        self.declaration.push(&new.declaration.0);
        self.bundle.push(new.bundle.as_ref().map(|digest| &digest.0[..]));
        self.recovery.push(serde_json::json!(new.recovery));
        self.hops.push(to_integer(new.hops));
        self.priority.push(i16::from(new.priority));
        self.requires.push(serde_json::json!(new.requires));
        self.traceparent.push(new.traceparent.as_deref());
        self.submitted_by.push(&new.submitted_by);
    }

    fn push_delivery(&mut self, gift: &'a Gift) {
        let delivery = gift.delivery.as_ref();
        self.upstream.push(delivery.map(|new| new.upstream.as_str()));
        self.wave.push(delivery.map(|new| to_integer(new.placed.wave)));
        self.delivery_no.push(delivery.map(|new| to_integer(new.placed.no)));
        self.missing.push(
            delivery.map_or_else(|| serde_json::json!([]), |new| serde_json::json!(new.placed.missing)),
        );
        self.body.push(delivery.map(|new| if new.placed.starts { &[] } else { new.body.as_slice() }));
        self.starts.push(gift.starts());
    }

    fn push_session(&mut self, gift: &Gift) {
        let (ceiling_s, deadline_at) = match gift.new.deadline {
            DeadlineSetting::CeilingS(seconds) => (Some(to_bigint(seconds)), None),
            DeadlineSetting::At(instant) => (None, Some(Stamp(instant))),
            DeadlineSetting::None => (None, None),
        };
        self.depth.push(gift.depth.map(to_integer));
        self.run_cap.push(to_integer(gift.new.run_cap));
        self.budget_micros.push(to_bigint(gift.new.budget_micros));
        self.ceiling_s.push(ceiling_s);
        self.deadline_at.push(deadline_at);
    }
}
