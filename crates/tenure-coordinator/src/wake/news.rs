//! What one coordinator tells the others: merged until it is sent, bounded, and written as notifications that the database
//! takes (each shorter than 8,000 bytes). Where there is more than the bound, the others are told to look at everything that
//! they watch. What a later release adds is ignored. It sends and hears nothing itself. Neighbours: `notifier`, `listener`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tenure_core::{
    id::{Epoch, Generation, JobId, Run, Seq, Tenant, Term, WorkerName},
    limits::{WAKE_JOBS_MAX, WAKE_ORDERS_MAX},
    record::NOTICE_KINDS,
    run_ref::RunRef,
};
use uuid::Uuid;

use super::{OrderKind, RaisedOrder};
use crate::lane::work::StandingNotice;

/// Jobs and orders that one notification has room for, with the longest names that there can be.
const JOBS_EACH: usize = 200;
const ORDERS_EACH: usize = 10;

/// What is to be told.
#[derive(Debug, Clone, Default)]
pub(super) struct News {
    /// A listener came: it waits to hear this coordinator itself, and asks whether there are others.
    pub(super) greeting: bool,
    /// A job became ready.
    pub(super) ready: bool,
    /// More happened than can be told.
    pub(super) everything: bool,
    /// Journals or outputs that grew.
    pub(super) jobs: BTreeSet<JobId>,
    /// What workers must be told.
    pub(super) orders: Vec<RaisedOrder>,
    /// The tokens of the database changed. Heard and never told: whoever changes them says it itself.
    pub(super) tokens: bool,
}

/// The notification that the tokens of the database changed, for whoever changed them.
#[must_use]
pub fn announce_tokens() -> String {
    let from = Uuid::from_u128(rand::random());
    format!(r#"{{"from":"{}","tokens":true}}"#, from.simple())
}

impl News {
    /// Nothing is to be told.
    pub(super) fn is_empty(&self) -> bool {
        !self.greeting && !self.ready && !self.everything && self.jobs.is_empty() && self.orders.is_empty()
    }

    /// A job's journal or output grew.
    pub(super) fn add_job(&mut self, job: JobId) {
        if self.everything {
            return;
        }
        self.jobs.insert(job);
        if self.jobs.len() > WAKE_JOBS_MAX {
            self.jobs.clear();
            self.everything = true;
        }
    }

    /// A worker must be told something. What is beyond the bound is told by its next renewal.
    pub(super) fn add_order(&mut self, order: RaisedOrder) {
        if self.orders.len() < WAKE_ORDERS_MAX {
            self.orders.push(order);
        }
    }

    /// The notifications, from this coordinator.
    pub(super) fn write(&self, from: Uuid) -> Vec<String> {
        let whole = Payload {
            from,
            greeting: self.greeting,
            ready: self.ready,
            everything: self.everything,
            tokens: false,
            jobs: Vec::new(),
            orders: Vec::new(),
        };
        let mut payloads = Vec::new();
        if self.greeting || self.ready || self.everything {
            payloads.push(whole.clone());
        }
        let bare = Payload { greeting: false, ready: false, everything: false, ..whole };
        let jobs: Vec<JobId> = self.jobs.iter().copied().collect();
        payloads.extend(jobs.chunks(JOBS_EACH).map(|jobs| Payload { jobs: jobs.to_vec(), ..bare.clone() }));
        let orders: Vec<Order> = self.orders.iter().map(Order::write).collect();
        payloads.extend(
            orders.chunks(ORDERS_EACH).map(|orders| Payload { orders: orders.to_vec(), ..bare.clone() }),
        );
        payloads.iter().filter_map(|payload| serde_json::to_string(payload).ok()).collect()
    }

    /// Reads a notification: who sent it, and what it tells. One that cannot be read tells to look at everything.
    pub(super) fn read(payload: &str) -> (Option<Uuid>, Self) {
        let Ok(payload) = serde_json::from_str::<Payload>(payload) else {
            return (None, Self { everything: true, ready: true, ..Self::default() });
        };
        let Payload { from, greeting, ready, everything, tokens, jobs, orders } = payload;
        let orders = orders.into_iter().filter_map(Order::read).collect();
        (Some(from), Self { greeting, ready, everything, jobs: jobs.into_iter().collect(), orders, tokens })
    }
}

/// One notification.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Payload {
    #[serde(with = "uuid::serde::simple")]
    from: Uuid,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    greeting: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ready: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    everything: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    tokens: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<JobId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    orders: Vec<Order>,
}

/// An order for a worker that may be attached elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    worker: WorkerName,
    term: Term,
    tenant: Tenant,
    job: JobId,
    epoch: Epoch,
    run: Run,
    generation: Generation,
    /// The seq and the kind of a notice that stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notice: Option<(Seq, String)>,
    /// The epoch under which the run was settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fenced: Option<Epoch>,
}

impl Order {
    fn write(order: &RaisedOrder) -> Self {
        let (notice, fenced) = match &order.kind {
            OrderKind::Notice(notice) => (Some((notice.seq, notice.kind.to_owned())), None),
            OrderKind::Fenced { epoch } => (None, Some(*epoch)),
        };
        Self {
            worker: order.worker.clone(),
            term: order.term,
            tenant: order.run.tenant.clone(),
            job: order.run.job,
            epoch: order.run.epoch,
            run: order.run.run,
            generation: order.run.generation,
            notice,
            fenced,
        }
    }

    /// None where it is of a kind that this release does not know.
    fn read(self) -> Option<RaisedOrder> {
        let kind = match (self.notice, self.fenced) {
            (Some((seq, kind)), _) => {
                let kind = NOTICE_KINDS.iter().copied().find(|known| *known == kind)?;
                OrderKind::Notice(StandingNotice { seq, kind })
            }
            (None, Some(epoch)) => OrderKind::Fenced { epoch },
            (None, None) => return None,
        };
        let Self { worker, term, tenant, job, epoch, run, generation, .. } = self;
        Some(RaisedOrder { worker, term, run: RunRef { tenant, job, epoch, run, generation }, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The database refuses a payload of this length.
    const PAYLOAD_END_BYTES: usize = 8_000;

    fn job(number: u128) -> JobId {
        JobId(Uuid::from_u128(u128::MAX - number))
    }

    fn order(kind: OrderKind) -> RaisedOrder {
        let longest = "w".repeat(63);
        let run = RunRef {
            tenant: longest.parse().unwrap(),
            job: job(0),
            epoch: Epoch(i64::MAX as u64),
            run: Run(u32::MAX),
            generation: Generation(i64::MAX as u64),
        };
        RaisedOrder { worker: longest.parse().unwrap(), term: Term(i64::MAX as u64), run, kind }
    }

    fn notice() -> OrderKind {
        OrderKind::Notice(StandingNotice { seq: Seq(i64::MAX as u64), kind: "cancel_requested" })
    }

    #[test]
    fn as_much_as_can_be_told_fits_into_notifications_and_is_read_back() {
        let mut news = News { ready: true, ..News::default() };
        (0..WAKE_JOBS_MAX as u128).for_each(|number| news.add_job(job(number)));
        (0..WAKE_ORDERS_MAX).for_each(|_| news.add_order(order(notice())));
        let from = Uuid::from_u128(u128::MAX);
        let payloads = news.write(from);
        let (mut jobs, mut orders, mut ready) = (BTreeSet::new(), 0, false);
        for payload in &payloads {
            assert!(payload.len() < PAYLOAD_END_BYTES, "{}", payload.len());
            let (sender, read) = News::read(payload);
            assert_eq!(sender, Some(from));
            assert!(!read.everything);
            jobs.extend(read.jobs);
            orders += read.orders.len();
            ready |= read.ready;
        }
        assert_eq!((jobs, orders, ready), (news.jobs, WAKE_ORDERS_MAX, true));
    }

    #[test]
    fn more_jobs_than_can_be_told_are_told_as_everything() {
        let mut news = News::default();
        (0..=WAKE_JOBS_MAX as u128).for_each(|number| news.add_job(job(number)));
        news.add_job(job(1));
        let payloads = news.write(Uuid::nil());
        assert_eq!(payloads.len(), 1);
        let (_, read) = News::read(&payloads[0]);
        assert!(read.everything && read.jobs.is_empty());
    }

    #[test]
    fn both_kinds_of_order_are_read_as_they_were_written() {
        for kind in [notice(), OrderKind::Fenced { epoch: Epoch(7) }] {
            let mut news = News::default();
            news.add_order(order(kind));
            let (_, read) = News::read(&news.write(Uuid::nil())[0]);
            assert_eq!(format!("{:?}", read.orders), format!("{:?}", news.orders));
        }
    }

    #[test]
    fn tokens_that_changed_are_announced_and_nothing_else_is() {
        let (from, news) = News::read(&announce_tokens());
        assert!(from.is_some() && news.tokens && news.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_a_reason_to_look_at_everything() {
        let (from, news) = News::read("not one of ours");
        assert!(from.is_none() && news.everything && news.ready);
    }

    #[test]
    fn what_a_later_release_adds_is_ignored() {
        let payload = r#"{"from":"00000000000000000000000000000001","ready":true,"later":1}"#;
        let (from, news) = News::read(payload);
        assert!(from.is_some() && news.ready && !news.everything);
    }
}
