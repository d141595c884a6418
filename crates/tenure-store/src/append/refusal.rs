//! Telling apart why an append was not admitted. "No row" is not an answer: the job is missing, sealed, another's, or its
//! head has moved.

use sqlx::query_file;
use tenure_core::id::{Epoch, Generation};

use super::{ATTEMPTED, Append, AppendOutcome, Guard, group::Group};
use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, to_bigint},
};

/// What stands where a refused writer thought it could write.
struct Present {
    /// None: the timeline changed.
    generation: Option<Generation>,
    state: Option<tenure_core::job::State>,
    head_epoch: Epoch,
    lease: Option<PresentLease>,
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
        let rows = query_file!("queries/journal/explain_refusals.sql", &numbers, &tenants, &jobs)
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
            };
            if present.generation.is_none() {
                self.check_timeline().await?;
            }
            let group = usize::try_from(row.no).ok().and_then(|no| refused.get(no));
            let members = group.iter().flat_map(|group| &group.members);
            outcomes.extend(members.map(|&index| (index, explain(&batch[index], &present))));
        }
        Ok(outcomes)
    }
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
        return AppendOutcome::Conflict;
    }
    AppendOutcome::Fenced {
        held_by: live.map(|lease| lease.worker.clone()),
        epoch: present.lease.as_ref().map_or(present.head_epoch, |lease| lease.epoch),
    }
}
