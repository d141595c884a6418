//! What a round must read before it can compose: tails for reports whose run is not remembered, facts for decisions, for
//! ends that are no plain success, and for permissions that are asked for again. Tails are read by the primary key from the last seq that the worker knows of, side
//! by side; facts of all jobs of the round in one statement. Neighbours: `round`, `memory`, the store's journal.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use tenure_core::id::{Epoch, Seq};
use tenure_store::{FoundFacts, Store, StoreError, Tail, TailRow};
use tokio::task::JoinSet;

use super::{
    Lane,
    compose::{Known, end_needs_facts},
    memory::{KnownAppend, Notices, RunMemory, Standing},
    work::{JobKey, LaneError, Pending, ReportBody, RunReport, Work},
};

/// The jobs of a round, in the order in which they arrived.
pub(super) type Queues = Vec<(JobKey, VecDeque<Pending>)>;

/// What is to be read for one job.
#[derive(Debug, Clone, Copy, Default)]
struct Want {
    /// The tail from this seq on, for the appends of this epoch.
    tail: Option<(Seq, Epoch)>,
    facts: bool,
}

impl Lane {
    /// What is known of each job of the round, in its order. A job that cannot be read is an error of its own.
    pub(super) async fn read_known(
        &mut self,
        queues: &Queues,
    ) -> Result<Vec<Result<Known, LaneError>>, LaneError> {
        let wants: Vec<Want> = queues.iter().map(|(key, queue)| self.want_for(key, queue.front())).collect();
        let mut tails = self.read_tails(queues, &wants).await?;
        let mut facts =
            self.read_facts(queues, &wants).await.map_err(|error| LaneError::Store(Arc::new(error)))?;
        let mut known = Vec::with_capacity(queues.len());
        for (place, ((key, _), want)) in queues.iter().zip(&wants).enumerate() {
            if let Some((_, epoch)) = want.tail {
                match tails.remove(&place) {
                    Some(tail) => self.memories.remember(key.clone(), read_memory(&tail, epoch)),
                    None => self.memories.forget(key),
                }
            }
            let facts = facts.remove(&place).transpose().map_err(|error| LaneError::Store(Arc::new(error)));
            if let (Some(memory), Ok(Some(facts))) = (self.memories.recall_mut(key), &facts) {
                memory.learn(facts);
            }
            let memory = self.memories.recall(key).cloned();
            known.push(facts.map(|facts| Known { memory, read: want.tail.is_some(), facts }));
        }
        Ok(known)
    }

    fn want_for(&mut self, key: &JobKey, front: Option<&Pending>) -> Want {
        let Some(pending) = front else { return Want::default() };
        let report = match &pending.work {
            Work::Remember { .. } => return Want::default(),
            Work::Decide(_) => return Want { tail: None, facts: true },
            Work::Report(report) => report,
        };
        let untouched = pending.attempts == 0 && pending.refused.is_none();
        let memory = self.memories.recall(key).filter(|memory| untouched && memory.epoch == report.run.epoch);
        let Some(memory) = memory else { return Want::of_tail(report) };
        let facts = match (memory.judge_append(report.n, report.request), &report.body) {
            (Standing::Unknown, _) => return Want::of_tail(report),
            (Standing::Fresh, ReportBody::End(end, _)) => end_needs_facts(end, memory),
            (Standing::Fresh, ReportBody::Records(_)) => {
                report.announces.is_some() && memory.notices == Notices::Unknown
            }
            // A permission is given again only where the lease, as it is read now, still bears it.
            (Standing::Repeated(_), _) => report.announces.is_some(),
            (Standing::Conflicting(_), _) => false,
        };
        Want { tail: None, facts }
    }

    async fn read_tails(&self, queues: &Queues, wants: &[Want]) -> Result<HashMap<usize, Tail>, LaneError> {
        let mut reads = JoinSet::new();
        for (place, want) in wants.iter().enumerate() {
            if let Some((from, epoch)) = want.tail {
                let (store, key) = (self.parts.store.clone(), queues[place].0.clone());
                reads.spawn(async move { (place, read_whole_tail(&store, &key, from, epoch).await) });
            }
        }
        gather_tails(reads).await
    }

    async fn read_facts(
        &self,
        queues: &Queues,
        wants: &[Want],
    ) -> Result<HashMap<usize, FoundFacts>, StoreError> {
        let places: Vec<usize> = (0..wants.len()).filter(|place| wants[*place].facts).collect();
        if places.is_empty() {
            return Ok(HashMap::new());
        }
        let keys: Vec<JobKey> = places.iter().map(|place| queues[*place].0.clone()).collect();
        let facts = self.parts.store.read_facts(&keys).await?;
        Ok(places.into_iter().zip(facts).filter_map(|(place, facts)| Some((place, facts?))).collect())
    }
}

/// The tails by place; a job that has none is missing. A read that ended by a defect says nothing of its job, and nothing
/// is made of that: the round has no answer.
async fn gather_tails<T: 'static>(
    mut reads: JoinSet<(usize, Result<Option<T>, StoreError>)>,
) -> Result<HashMap<usize, T>, LaneError> {
    let mut tails = HashMap::new();
    while let Some(ended) = reads.join_next().await {
        let (place, tail) = ended.map_err(|error| LaneError::Read(Arc::new(error)))?;
        if let Some(tail) = tail.map_err(|error| LaneError::Store(Arc::new(error)))? {
            tails.insert(place, tail);
        }
    }
    Ok(tails)
}

impl Want {
    fn of_tail(report: &RunReport) -> Self {
        let tail = Some((report.acknowledged, report.run.epoch));
        Self { tail, facts: matches!(report.body, ReportBody::End(..)) || report.announces.is_some() }
    }
}

/// Reads on until the head, or until an epoch after the one in question: nothing of that is looked up.
async fn read_whole_tail(
    store: &Store,
    key: &JobKey,
    from: Seq,
    epoch: Epoch,
) -> Result<Option<Tail>, StoreError> {
    let Some(mut tail) = store.read_tail(&key.0, key.1, from).await? else { return Ok(None) };
    while let Some(last) = tail.rows.last().filter(|last| tail.more && last.epoch <= epoch) {
        let Some(next) = store.read_tail(&key.0, key.1, last.seq.next()).await? else { return Ok(None) };
        let mut rows = std::mem::take(&mut tail.rows);
        rows.extend(next.rows.iter().cloned());
        tail = Tail { rows, ..next };
    }
    Ok(Some(tail))
}

/// The memory of the run of this epoch, as far as the tail shows it.
fn read_memory(tail: &Tail, epoch: Epoch) -> RunMemory {
    let mut appends: Vec<KnownAppend> = Vec::new();
    for (row, n, request) in tail.rows.iter().filter_map(|row| append_of(row, epoch)) {
        match appends.last_mut().filter(|known| known.n == n) {
            Some(known) => known.last_seq = row.seq,
            None => appends.push(KnownAppend { n, request, last_seq: row.seq }),
        }
    }
    RunMemory::of_tail(tail.head, tail.head_at, epoch, tail.head_run, appends)
}

fn append_of(row: &TailRow, epoch: Epoch) -> Option<(&TailRow, u64, tenure_core::id::Digest)> {
    Some((row, row.n?, row.request?)).filter(|_| row.epoch == epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = (usize, Result<Option<&'static str>, StoreError>);

    #[tokio::test]
    async fn tails_are_gathered_by_place_and_a_job_without_one_is_missing() {
        let read = |read: Read| async move { read };
        let reads = [(0, Ok(Some("a"))), (1, Ok(None)), (2, Ok(Some("c")))];
        let tails = gather_tails(reads.into_iter().map(read).collect()).await.unwrap();
        assert_eq!(tails, HashMap::from([(0, "a"), (2, "c")]));
    }

    #[tokio::test]
    async fn whichever_read_ends_by_a_defect_no_job_of_the_round_is_taken_for_missing() {
        for defect in 0..4 {
            let read = |place: usize| async move {
                assert!(place != defect, "a defect");
                (place, Ok(Some("tail")))
            };
            let gathered = gather_tails((0..4).map(read).collect()).await;
            assert!(matches!(gathered, Err(LaneError::Read(_))), "{gathered:?}");
        }
    }

    #[tokio::test]
    async fn a_read_that_the_database_refused_is_said() {
        let refused = StoreError::PositionTaken { attempted: "reading" };
        let read = |read: Read| async move { read };
        let reads = [(0, Ok(Some("a"))), (1, Err(refused))];
        let gathered = gather_tails(reads.into_iter().map(read).collect()).await;
        assert!(matches!(gathered, Err(LaneError::Store(_))), "{gathered:?}");
    }
}
