//! Telling apart why an append was not admitted. "No row" is not an answer: the job is missing, sealed, another's, its head
//! has moved, or what stands of an effect does not admit what is said about it.

use std::collections::{BTreeMap, HashMap};

use sqlx::query_file;
use tenure_core::{
    admission::{Amount, Limit, LimitRefusal},
    effect::{ActRefused, EffectKey, Standing, follow_act},
    id::{Epoch, Generation, JobId, Tenant},
    limits::JOB_EFFECTS_MAX,
};

use super::{
    ATTEMPTED, Append, AppendOutcome, Guard,
    effect::{announces, begins_anew, keys_of},
    group::Group,
};
use crate::{
    Store, StoreError,
    facts::read_amount,
    stored::{Reader, from_bigint, from_integer, to_bigint},
};

/// What stands where a refused writer thought it could write.
struct Present {
    /// None: the timeline changed.
    generation: Option<Generation>,
    state: Option<tenure_core::job::State>,
    head_epoch: Epoch,
    lease: Option<PresentLease>,
    effects_full: bool,
    /// Money of the session.
    budget: Amount,
}

struct PresentLease {
    epoch: Epoch,
    worker: tenure_core::id::WorkerName,
    live: bool,
}

impl Store {
    pub(super) async fn explain_refusals(
        &self,
        batch: &[Append],
        refused: &[&Group],
    ) -> Result<Vec<(usize, AppendOutcome)>, StoreError> {
        let first = |group: &Group| group.members.first().map(|&index| &batch[index]);
        let appends: Vec<_> = refused.iter().filter_map(|group| first(group)).collect();
        let numbers: Vec<_> = (0..appends.len()).map(|no| to_bigint(no as u64)).collect();
        let tenants: Vec<_> = appends.iter().map(|append| append.tenant.as_str().to_owned()).collect();
        let jobs: Vec<_> = appends.iter().map(|append| append.job.0).collect();
        let most = i64::from(JOB_EFFECTS_MAX);
        let rows = query_file!("queries/journal/explain_refusals.sql", &numbers, &tenants, &jobs, most)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(ATTEMPTED))?;
        let mut outcomes = Vec::new();
        for row in rows {
            let lease = row.lease_epoch.zip(row.lease_worker).map(|(epoch, worker)| {
                let worker = Reader(ATTEMPTED).parse("worker", worker)?;
                Ok(PresentLease { epoch: Epoch(from_bigint(epoch)), worker, live: !row.lease_released })
            });
            let present = Present {
                generation: row.generation.map(from_bigint).map(Generation),
                state: row.state.map(|state| Reader(ATTEMPTED).state(state)).transpose()?,
                head_epoch: Epoch(row.head_epoch.map_or(0, from_bigint)),
                lease: lease.transpose()?,
                effects_full: row.effects_full,
                budget: read_amount(row.spent_micros.unwrap_or(0), row.budget_micros.unwrap_or(i64::MAX)),
            };
            if present.generation.is_none() {
                self.check_timeline().await?;
            }
            let group = usize::try_from(row.no).ok().and_then(|no| refused.get(no));
            let members = group.iter().flat_map(|group| &group.members);
            outcomes.extend(members.map(|&index| (index, explain(&batch[index], &present))));
        }
        self.explain_effects(batch, refused, &mut outcomes).await?;
        Ok(outcomes)
    }

    /// Where nothing else stands in the way of a group, one of its appends may say of an effect what does not follow from
    /// what stands of it. That append is told so; the others of its group try again.
    async fn explain_effects(
        &self,
        batch: &[Append],
        refused: &[&Group],
        outcomes: &mut [(usize, AppendOutcome)],
    ) -> Result<(), StoreError> {
        let mut left: BTreeMap<usize, &mut AppendOutcome> = outcomes
            .iter_mut()
            .filter(|(_, outcome)| *outcome == AppendOutcome::Conflict)
            .map(|(index, outcome)| (*index, outcome))
            .collect();
        let wanted: Vec<(&Append, &EffectKey)> = left
            .keys()
            .flat_map(|&index| keys_of(&batch[index]).into_iter().map(move |key| (&batch[index], key)))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let standings = self.read_standings(&wanted).await?;
        for group in refused {
            let fault = group.members.iter().find_map(|&index| {
                let append = left.contains_key(&index).then(|| &batch[index])?;
                Some((index, find_fault(append, &standings)?))
            });
            if let Some((index, refusal)) = fault
                && let Some(outcome) = left.get_mut(&index)
            {
                **outcome = AppendOutcome::EffectRefused(refusal);
            }
        }
        Ok(())
    }

    async fn read_standings<'a>(
        &self,
        wanted: &[(&'a Append, &'a EffectKey)],
    ) -> Result<Standings<'a>, StoreError> {
        let numbers: Vec<_> = (0..wanted.len()).map(|no| to_bigint(no as u64)).collect();
        let tenants: Vec<_> = wanted.iter().map(|(append, _)| append.tenant.as_str().to_owned()).collect();
        let jobs: Vec<_> = wanted.iter().map(|(append, _)| append.job.0).collect();
        let keys: Vec<_> = wanted.iter().map(|(_, key)| key.as_str().to_owned()).collect();
        let rows = query_file!("queries/effects/read_standings.sql", &numbers, &tenants, &jobs, &keys)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(ATTEMPTED))?;
        let mut standings = Standings::new();
        for row in rows {
            let place = usize::try_from(row.no).ok().and_then(|no| wanted.get(no));
            if let Some((append, key)) = place {
                let reader = Reader(ATTEMPTED);
                let outcome = reader.outcome(&row.state, row.disposition.as_deref())?;
                let recovery = reader.effect_recovery(row.recovery)?;
                let standing = Standing { attempt: from_integer(row.attempt), outcome, recovery };
                standings.insert((&append.tenant, append.job, key), standing);
            }
        }
        Ok(standings)
    }
}

/// What stands of some effects.
type Standings<'a> = HashMap<(&'a Tenant, JobId, &'a EffectKey), Standing>;

/// The first thing that an append says of an effect and that does not follow.
fn find_fault(append: &Append, standings: &Standings<'_>) -> Option<ActRefused> {
    let mut here: HashMap<&EffectKey, Standing> = HashMap::new();
    for mark in append.records.iter().filter_map(|record| record.effect.as_ref()) {
        let stored = || standings.get(&(&append.tenant, append.job, &mark.key)).copied();
        let last = here.get(&mark.key).copied().or_else(stored);
        match follow_act(last, mark) {
            Ok(next) => here.insert(&mark.key, next),
            Err(refused) => return Some(refused),
        };
    }
    None
}

/// Sealed goes before fenced: whoever comes late to a job that is over is told so. Writers that hold nothing are not
/// fenced; they decide again.
fn explain(append: &Append, present: &Present) -> AppendOutcome {
    let Some(state) = present.state else { return AppendOutcome::Missing };
    if state.is_sealed() {
        return AppendOutcome::Sealed;
    }
    let live = present.lease.as_ref().filter(|lease| lease.live);
    let guard_holds = match append.guard {
        Guard::Lease(epoch) => live.is_some_and(|lease| lease.epoch == epoch),
        Guard::ReleasedLease(_) | Guard::NoLease => true,
    };
    if guard_holds && present.generation == Some(append.generation) {
        let Amount { used, limit: allowed } = present.budget;
        return if !announces(append) {
            AppendOutcome::Conflict
        } else if present.effects_full {
            AppendOutcome::EffectsExhausted
        } else if used >= allowed && begins_anew(append) {
            AppendOutcome::LimitReached(LimitRefusal { limit: Limit::Budget, used, allowed })
        } else {
            AppendOutcome::Conflict
        };
    }
    AppendOutcome::Fenced {
        held_by: live.map(|lease| lease.worker.clone()),
        epoch: present.lease.as_ref().map_or(present.head_epoch, |lease| lease.epoch),
    }
}
