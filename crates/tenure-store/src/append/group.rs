//! One job's appends of a batch, joined: they take one run of positions, and one change of each derived row comes of them,
//! because `UPDATE … FROM` would apply only one of several.

use std::collections::BTreeMap;

use tenure_core::{
    chain::Head,
    id::{Digest, JobId, Seq, Tenant},
    job::State,
    plan::{AcceptedDeclaration, JobChange, LeaseChange, ReadyChange},
    unwinding::Unwinding,
};

use super::{Append, AppendOutcome, effect::keys_of};

/// Appends for one job that follow one another.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// Names the group within the statement.
    pub(super) no: usize,
    /// Places in the batch, in the order of the chain; at least one.
    pub(super) members: Vec<usize>,
}

impl Group {
    /// Its appends, in the order of the chain.
    pub(super) fn appends<'a>(&self, batch: &'a [Append]) -> impl Iterator<Item = &'a Append> {
        self.members.iter().map(|&index| &batch[index])
    }
}

/// What comes of a group for the job's row.
#[derive(Debug, Default)]
pub(super) struct JoinedChange {
    pub(super) any: bool,
    pub(super) state: Option<State>,
    pub(super) reason: Option<String>,
    pub(super) detail: Option<String>,
    pub(super) attempts: Option<u32>,
    pub(super) losses: Option<u32>,
    pub(super) hops_left: Option<u32>,
    pub(super) cancel_seq: Option<Seq>,
    pub(super) concluded: Option<(Seq, Digest)>,
    pub(super) unwinding: Option<Unwinding>,
    pub(super) declaration: Option<AcceptedDeclaration>,
}

/// Joins a batch into groups, sorted by job. The outcomes stand at `Conflict`, which is the answer for what joins no group.
pub(super) fn group_appends(batch: &[Append]) -> (Vec<Group>, Vec<AppendOutcome>) {
    let mut by_job: BTreeMap<(&Tenant, JobId), Vec<usize>> = BTreeMap::new();
    for (index, append) in batch.iter().enumerate() {
        let members = by_job.entry((&append.tenant, append.job)).or_default();
        let previous = members.last().map(|&last| &batch[last]);
        if !append.records.is_empty()
            && previous.is_none_or(|previous| follows(previous, append))
            && speaks_of_others(batch, members, append)
        {
            members.push(index);
        }
    }
    let members = by_job.into_values().filter(|members| !members.is_empty());
    let groups = members.enumerate().map(|(no, members)| Group { no, members }).collect();
    (groups, vec![AppendOutcome::Conflict; batch.len()])
}

/// True where `append` is sealed at the end of `previous`, under the same guard, and that guard still holds after it.
fn follows(previous: &Append, append: &Append) -> bool {
    let end = previous.records.last().map(|last| Head { seq: last.seq, hash: last.hash });
    end == Some(append.head)
        && previous.guard == append.guard
        && previous.generation == append.generation
        && previous.gift.is_none()
        && previous.changes.lease == LeaseChange::Keep
        && previous.changes.ready == ReadyChange::Keep
        && previous.changes.job.as_ref().is_none_or(|change| change.state.is_none() && !change.concluded)
}

/// True where no member speaks of an effect that this append speaks of.
fn speaks_of_others(batch: &[Append], members: &[usize], append: &Append) -> bool {
    let keys = keys_of(append);
    keys.is_empty() || members.iter().all(|&index| keys_of(&batch[index]).is_disjoint(&keys))
}

/// Joins the changes of one job's row; what comes later stands.
pub(super) fn join_changes(members: &[&Append]) -> JoinedChange {
    let mut joined = JoinedChange::default();
    for append in members {
        if let Some(change) = &append.changes.job {
            joined.apply(append, change);
        }
    }
    joined
}

impl JoinedChange {
    fn apply(&mut self, append: &Append, change: &JobChange) {
        self.any = true;
        self.state = change.state.or(self.state);
        self.reason = change.reason.clone().or(self.reason.take());
        self.detail = change.detail.clone().or(self.detail.take());
        self.attempts = change.attempts.or(self.attempts);
        self.losses = change.losses.or(self.losses);
        self.hops_left = change.hops_left.or(self.hops_left);
        self.unwinding = change.unwinding.clone().or(self.unwinding.take());
        let asked = change.cancel_requested_by_draft.and_then(|index| append.records.get(index));
        self.cancel_seq = asked.map(|record| record.seq).or(self.cancel_seq);
        self.declaration = change.declaration.clone().or(self.declaration.take());
        if change.concluded {
            self.concluded = append.records.last().map(|last| (last.seq, last.hash));
        }
    }
}
