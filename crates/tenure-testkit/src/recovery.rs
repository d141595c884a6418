//! How long recoveries took: from the fault to the first beat of the next run's child. Told apart are deaths that somebody
//! saw, by the proof in the journal, and those that only a lapsed term showed.
//!
//! It counts what it is given: which faults are fair to measure (the database was up, slots were free) knows who made them.
//! Neighbours: `history`.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use uuid::Uuid;

use crate::history::RunHistory;

/// Something that was done to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// To whom.
    pub worker: String,
    /// When, in nanoseconds of the wall clock, which heartbeats use too.
    pub at_ns: u64,
}

impl Fault {
    /// One that is made now.
    #[must_use]
    pub fn now(worker: &str) -> Self {
        Self { worker: worker.to_owned(), at_ns: now_ns() }
    }
}

/// The wall clock in nanoseconds, as heartbeats hold it.
#[must_use]
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// How long each recovery took, in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recoveries {
    /// Where the death was seen.
    pub seen_ms: Vec<u64>,
    /// Where only a lapsed term showed it.
    pub unseen_ms: Vec<u64>,
}

impl Recoveries {
    /// Adds others.
    pub fn add(&mut self, others: Self) {
        self.seen_ms.extend(others.seen_ms);
        self.unseen_ms.extend(others.unseen_ms);
    }
}

/// Pairs each fault with the runs that it ended: those of its worker whose child was alive when it was made, and the run after.
#[must_use]
pub fn measure_recoveries(histories: &BTreeMap<Uuid, Vec<RunHistory>>, faults: &[Fault]) -> Recoveries {
    let mut recoveries = Recoveries::default();
    for pair in histories.values().flat_map(|runs| runs.windows(2)) {
        let (Some(before), Some(after)) = (pair[0].beats, pair[1].beats) else { continue };
        let ended_it = |fault: &&Fault| {
            fault.worker == pair[0].worker && before.first_ns <= fault.at_ns && fault.at_ns < after.first_ns
        };
        // The first that could have: what came after found the run dead.
        let Some(fault) = faults.iter().filter(ended_it).min_by_key(|fault| fault.at_ns) else { continue };
        let took_ms = (after.first_ns - fault.at_ns) / 1_000_000;
        match pair[0].proof.as_deref() {
            Some("term_lapsed") => recoveries.unseen_ms.push(took_ms),
            _ => recoveries.seen_ms.push(took_ms),
        }
    }
    recoveries
}

/// Three figures for many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Half of them are at most this.
    pub p50: u64,
    /// All but one in a hundred are at most this.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

impl Spread {
    /// Of these figures; none of none.
    #[must_use]
    pub fn of(figures: &[u64]) -> Option<Self> {
        let mut sorted = figures.to_vec();
        sorted.sort_unstable();
        let max = *sorted.last()?;
        let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
        Some(Self { p50: rank(50), p99: rank(99), max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::Beats;

    fn run(number: u32, worker: &str, proof: Option<&str>, first_ms: u64, last_ms: u64) -> RunHistory {
        RunHistory {
            run: number,
            epoch: u64::from(number) * 2 - 1,
            worker: worker.to_owned(),
            proof: proof.map(str::to_owned),
            beats: Some(Beats { first_ns: first_ms * 1_000_000, last_ns: last_ms * 1_000_000 }),
        }
    }

    fn fault(worker: &str, at_ms: u64) -> Fault {
        Fault { worker: worker.to_owned(), at_ns: at_ms * 1_000_000 }
    }

    #[test]
    fn recovery_runs_from_the_fault_to_the_next_first_beat_and_is_told_by_its_proof() {
        let seen = vec![run(1, "w1", Some("guardian"), 100, 900), run(2, "w2", None, 1_500, 2_000)];
        let unseen = vec![run(1, "w2", Some("term_lapsed"), 100, 900), run(2, "w1", None, 7_000, 8_000)];
        let histories = BTreeMap::from([(Uuid::from_u128(1), seen), (Uuid::from_u128(2), unseen)]);
        // The second fault at w1 is later than the run that it would have ended.
        let faults = [fault("w1", 1_000), fault("w1", 1_600), fault("w2", 1_000), fault("w3", 1_000)];
        let recoveries = measure_recoveries(&histories, &faults);
        assert_eq!(recoveries, Recoveries { seen_ms: vec![500], unseen_ms: vec![6_000] });
    }

    #[test]
    fn spread_of_a_hundred_and_of_one_and_of_none() {
        let figures: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(Spread::of(&figures), Some(Spread { p50: 50, p99: 99, max: 100 }));
        assert_eq!(Spread::of(&[7]), Some(Spread { p50: 7, p99: 7, max: 7 }));
        assert_eq!(Spread::of(&[]), None);
    }
}
