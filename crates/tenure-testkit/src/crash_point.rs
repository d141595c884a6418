//! Crash points. A crash cuts an append-only journal off, so every prefix of a real job's journal is a crash that could have
//! happened. Here each of them is rebuilt, so that a test can have it resumed and say whether the resume was honest.
//!
//! ```text
//!   a job that ran ──crash_points──▶ after 1 … n−1 records ──rebuild──▶ the same job in a database of its own
//!                                                                            │ a coordinator and a worker of yours
//!   assert_resumed_honestly ◀──────────────── where it came to rest ◀────────┘
//! ```
//!
//! A prefix is rebuilt through the store's own writes, never by inserting rows: it is submitted, claimed and appended under the
//! same id, with the times, runs, keys, attempts and values of the original, so that its chain is formed as the job formed it
//! and its epochs are the same. Then the run that was under way is set down: the lease is given up and the child counts as
//! gone, and the resume claims one epoch higher.
//!
//! It sees what is in the database. What it cannot see is the world: whoever tests with it compares files, processes or a
//! [`Ledger`](crate::Ledger) with [`CrashPoint::done`] and [`CrashPoint::in_flight`]. It does not rebuild what lies outside a
//! journal either: output, testimony, and a deadline that was given as an instant and has passed meanwhile. Values in a blob
//! store stay there, so the coordinator that resumes needs the same one, and nothing of it may be erased meanwhile.
//!
//! Neighbours: `original` reads the job and `gift` what it gave to agents, `databases` has somewhere to write it, `replay` writes the prefix, `rebuilt` is what comes of it, `backstop` watches the unique
//! index of announcements, `honesty` judges.

mod backstop;
mod databases;
mod gift;
mod honesty;
mod original;
mod rebuilt;
mod replay;

use std::{collections::BTreeMap, fmt, sync::Arc};

use anyhow::{Context as _, Result};
use tenure_core::{
    effect::{Announcement, EffectAct, EffectKey, EffectMark, LastAttempt, Outcome, decide_announcement},
    id::{Epoch, JobId, Tenant},
    record::RecordKind,
};
use tenure_store::Store;

use self::{
    original::{Original, OriginalRecord},
    replay::replay_prefix,
};

pub use self::{
    honesty::{assert_resumed_honestly, list_dishonesties},
    rebuilt::RebuiltJob,
};

/// A crash that could have happened to a job: right after a record of its journal.
#[derive(Clone)]
pub struct CrashPoint {
    original: Arc<Original>,
    /// How many records the prefix has.
    pub appended: usize,
}

/// An effect as a prefix leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectAtPoint {
    /// Its key.
    pub key: EffectKey,
    /// Its last attempt.
    pub last: LastAttempt,
}

impl EffectAtPoint {
    /// The key that its provider knows it by.
    #[must_use]
    pub fn idempotency_key(&self, job: JobId) -> String {
        self.key.idempotency_key(job)
    }

    /// True where a resume must leave it to a person.
    #[must_use]
    pub fn needs_a_person(&self) -> bool {
        self.last.mutates && decide_announcement(Some(&self.last)) == Announcement::Undecided
    }
}

/// The crash points of a job: for a journal of n records the n − 1 prefixes of 1 … n − 1 of them. The job is only read, and
/// may be of any fleet and in any state, as long as nobody writes to it meanwhile.
///
/// # Errors
/// There is no such job, its journal holds what this release does not know, or the database does not answer.
pub async fn crash_points(store: &Store, tenant: &Tenant, job: JobId) -> Result<Vec<CrashPoint>> {
    let original = Original::read(store, tenant, job).await;
    let original = Arc::new(original.with_context(|| format!("reading job {job} for its crash points"))?);
    let point = |appended| CrashPoint { original: Arc::clone(&original), appended };
    Ok((1..original.records.len()).map(point).collect())
}

impl CrashPoint {
    /// The job, which keeps its id.
    #[must_use]
    pub fn job(&self) -> JobId {
        self.original.job.job
    }

    /// The kinds of the prefix's records, in order.
    #[must_use]
    pub fn kinds(&self) -> Vec<&'static str> {
        self.prefix().map(RecordKind::name).collect()
    }

    /// The kinds of all records of the original, in order.
    #[must_use]
    pub fn kinds_of_original(&self) -> Vec<&'static str> {
        self.original.records.iter().map(|one| one.record.kind.name()).collect()
    }

    /// The effects that the prefix says to have happened. A resume reads them back, and must never perform them again.
    #[must_use]
    pub fn done(&self) -> Vec<EffectAtPoint> {
        self.effects_where(|outcome| outcome.happened() == Some(true))
    }

    /// The effects that the prefix announces without saying what became of them. Each may have happened or not.
    #[must_use]
    pub fn in_flight(&self) -> Vec<EffectAtPoint> {
        self.effects_where(Outcome::is_in_doubt)
    }

    /// True where the prefix says what the job is held to. Without it the job never started, and is not resumed.
    #[must_use]
    pub fn froze_a_plan(&self) -> bool {
        self.prefix().any(|kind| matches!(kind, RecordKind::PlanFrozen { .. }))
    }

    /// The highest epoch of the prefix; 0 where nothing was claimed.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.original.records[self.appended - 1].record.epoch
    }

    /// Rebuilds the prefix in a database of its own, which lasts as long as what is returned.
    ///
    /// # Errors
    /// No database can be had, or it does not take what the original's took.
    pub async fn rebuild(&self) -> Result<RebuiltJob> {
        let rebuilt = replay_prefix(&self.original, self.appended).await;
        rebuilt.with_context(|| format!("rebuilding {self}"))
    }

    fn prefix(&self) -> impl Iterator<Item = &RecordKind> {
        self.original.records[..self.appended].iter().map(|one| &one.record.kind)
    }

    fn effects_where(&self, wanted: impl Fn(Outcome) -> bool) -> Vec<EffectAtPoint> {
        let mut effects: BTreeMap<EffectKey, LastAttempt> = BTreeMap::new();
        for OriginalRecord { record, request, .. } in &self.original.records[..self.appended] {
            let Some(EffectMark { key, attempt, act }) = record.kind.effect_mark(*request) else { continue };
            if let EffectAct::Announced { declared, request, .. } = &act {
                let last = LastAttempt {
                    attempt,
                    run: record.run,
                    announced: record.seq,
                    since: record.at,
                    recovery: declared.recovery,
                    mutates: declared.mutates,
                    request: *request,
                    outcome: Outcome::Open,
                };
                effects.insert(key, last);
            } else if let (Some(last), Some(outcome)) = (effects.get_mut(&key), act.outcome()) {
                last.outcome = outcome;
            }
        }
        let effects = effects.into_iter().filter(|(_, last)| wanted(last.outcome));
        effects.map(|(key, last)| EffectAtPoint { key, last }).collect()
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = &self.original.records[self.appended - 1].record;
        let (job, all) = (self.job(), self.original.records.len());
        write!(
            f,
            "the crash point of job {job} after record {} of {all}, {}",
            self.appended,
            last.kind.name()
        )
    }
}

impl fmt::Debug for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CrashPoint({self})")
    }
}
