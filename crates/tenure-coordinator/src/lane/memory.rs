//! What a lane remembers of the runs whose records it writes: the head that a next record goes on, and which appends of
//! the run are already there. It is only a hint: the statement checks the remembered head, and whoever is contradicted
//! reads the tail anew. It never answers `Fenced`; that is the database's to say. Bounded: the least recently used runs
//! are forgotten first. Neighbours: `lane` asks, `tail` fills it where nothing is remembered.

use std::collections::{BTreeSet, HashMap, VecDeque};

use jiff::Timestamp;
use tenure_core::{
    chain::Head,
    effect::{Disposition, EffectAct, EffectKey},
    id::{Digest, Epoch, Run, Seq},
    plan::JobFacts,
    record::{Phase, SealedRecord},
};

use super::work::{JobKey, StandingNotice};

/// Appends of one run that are remembered by number; earlier ones are looked up.
const REMEMBERED_APPENDS: usize = 64;

/// Open effects of one run that are remembered; of more than that nothing is known without a look.
const REMEMBERED_EFFECTS: usize = 1_000;

/// What is known of one run's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunMemory {
    /// The last position.
    pub(crate) head: Head,
    /// The time of the last record.
    pub(crate) at: Timestamp,
    /// The epoch of the last record.
    pub(crate) epoch: Epoch,
    /// The run.
    pub(crate) run: Run,
    /// The notices of this run.
    pub(crate) notices: Notices,
    /// The mutating effects of the job of which nobody knows yet whether they happened.
    pub(crate) open_effects: OpenEffects,
    highest_n: u64,
    appends: VecDeque<KnownAppend>,
}

/// What is known of the notices that stand for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notices {
    /// The run was watched from its start: this is the last one, or there is none.
    Last(Option<StandingNotice>),
    /// The journal was read from the middle; an earlier one may stand.
    Unknown,
}

/// What is known of the mutating effects of a job that were announced and have no outcome, or one in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenEffects {
    /// The job was watched from its start, or the journal was asked: these, and no others.
    Known(BTreeSet<EffectKey>),
    /// There may be others.
    Unknown,
}

/// An append that is in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownAppend {
    /// Its number within the run.
    pub(crate) n: u64,
    /// The digest of what was sent.
    pub(crate) request: Digest,
    /// The seq of its last record.
    pub(crate) last_seq: Seq,
}

/// How an append stands to those that are in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its number is above all.
    Fresh,
    /// It is there; the seq of its last record.
    Repeated(Seq),
    /// Its number is there with other contents; the seq of their last record.
    Conflicting(Seq),
    /// Its number is not above the highest, and it is not among those that are known.
    Unknown,
}

impl RunMemory {
    /// A run that began with the record at this head.
    pub(crate) fn of_claim(head: Head, at: Timestamp, epoch: Epoch, run: Run) -> Self {
        let notices = Notices::Last(None);
        // Before its first run nothing of a job can have been announced.
        let open_effects =
            if run == Run(1) { OpenEffects::Known(BTreeSet::new()) } else { OpenEffects::Unknown };
        Self { head, at, epoch, run, notices, open_effects, highest_n: 0, appends: VecDeque::new() }
    }

    /// A run of which the end of the journal was read: its appends, in order.
    pub(crate) fn of_tail(
        head: Head,
        at: Timestamp,
        epoch: Epoch,
        run: Run,
        appends: Vec<KnownAppend>,
    ) -> Self {
        let highest_n = appends.iter().map(|known| known.n).max().unwrap_or(0);
        let (notices, open_effects) = (Notices::Unknown, OpenEffects::Unknown);
        Self { head, at, epoch, run, notices, open_effects, highest_n, appends: appends.into() }
    }

    /// How an append of this run stands.
    pub(crate) fn judge_append(&self, n: u64, request: Digest) -> Standing {
        match self.appends.iter().find(|known| known.n == n) {
            Some(known) if known.request == request => Standing::Repeated(known.last_seq),
            Some(known) => Standing::Conflicting(known.last_seq),
            None if n > self.highest_n => Standing::Fresh,
            None => Standing::Unknown,
        }
    }

    /// The journal has a further record.
    pub(crate) fn advance(&mut self, head: Head, at: Timestamp) {
        self.head = head;
        self.at = at;
    }

    /// The journal has these records; what they say of effects is remembered.
    pub(crate) fn note_effects(&mut self, records: &[SealedRecord]) {
        for mark in records.iter().filter_map(|record| record.effect.as_ref()) {
            let OpenEffects::Known(open) = &mut self.open_effects else { return };
            match &mark.act {
                EffectAct::Announced { declared, .. } if declared.mutates => {
                    open.insert(mark.key.clone());
                    if open.len() > REMEMBERED_EFFECTS {
                        self.open_effects = OpenEffects::Unknown;
                    }
                }
                EffectAct::Announced { .. }
                | EffectAct::Failed(Disposition::InDoubt)
                | EffectAct::Reconciled(Disposition::InDoubt) => {}
                EffectAct::Done | EffectAct::Failed(_) | EffectAct::Reconciled(_) => {
                    open.remove(&mark.key);
                }
            }
        }
    }

    /// What was read of the job at the very head that is remembered says what was unknown of it.
    pub(crate) fn learn(&mut self, facts: &JobFacts) {
        if facts.head != self.head {
            return;
        }
        if self.notices == Notices::Unknown {
            let standing = facts.standing_notice();
            self.notices = Notices::Last(standing.map(|(seq, kind)| StandingNotice { seq, kind }));
        }
        // An unwinding run is no success, whatever its end, and neither is one that a limit refused something: that is decided
        // from facts.
        let is_forward = facts.phase() == Phase::Forward;
        let is_refused = facts.refused().is_some();
        if self.open_effects == OpenEffects::Unknown && facts.doubts.is_empty() && is_forward && !is_refused {
            self.open_effects = OpenEffects::Known(BTreeSet::new());
        }
    }

    /// True where nothing that mutates is open.
    pub(crate) fn has_no_open_effect(&self) -> bool {
        matches!(&self.open_effects, OpenEffects::Known(open) if open.is_empty())
    }

    /// The last record is the end of this append.
    pub(crate) fn note_append(&mut self, n: u64, request: Digest) {
        self.highest_n = self.highest_n.max(n);
        self.appends.push_back(KnownAppend { n, request, last_seq: self.head.seq });
        if self.appends.len() > REMEMBERED_APPENDS {
            self.appends.pop_front();
        }
    }

    /// A limit refused something that the run asked for: its end is decided from facts.
    pub(crate) fn note_refusal(&mut self) {
        self.open_effects = OpenEffects::Unknown;
    }

    /// The last record is a notice of this kind.
    pub(crate) fn note_notice(&mut self, kind: &'static str) {
        self.notices = Notices::Last(Some(StandingNotice { seq: self.head.seq, kind }));
    }
}

/// The memory of one lane.
#[derive(Debug)]
pub(crate) struct Memories {
    runs: HashMap<JobKey, (RunMemory, u64)>,
    uses: u64,
    most: usize,
}

impl Memories {
    /// Remembers at most so many jobs.
    pub(crate) fn new(most: usize) -> Self {
        Self { runs: HashMap::new(), uses: 0, most }
    }

    /// What is remembered of a job.
    pub(crate) fn recall(&mut self, key: &JobKey) -> Option<&RunMemory> {
        self.uses += 1;
        let (memory, used) = self.runs.get_mut(key)?;
        *used = self.uses;
        Some(memory)
    }

    /// What is remembered of a job, to be brought up to date.
    pub(crate) fn recall_mut(&mut self, key: &JobKey) -> Option<&mut RunMemory> {
        self.runs.get_mut(key).map(|(memory, _)| memory)
    }

    /// Remembers, in place of what was remembered before.
    pub(crate) fn remember(&mut self, key: JobKey, memory: RunMemory) {
        self.uses += 1;
        self.runs.insert(key, (memory, self.uses));
        if self.runs.len() > self.most {
            self.forget_oldest_quarter();
        }
    }

    /// Forgets a job: its run is over, or the memory was contradicted.
    pub(crate) fn forget(&mut self, key: &JobKey) {
        self.runs.remove(key);
    }

    /// A quarter at once, so that finding the oldest costs little for each.
    fn forget_oldest_quarter(&mut self) {
        let mut uses: Vec<u64> = self.runs.values().map(|(_, used)| *used).collect();
        let quarter = uses.len() / 4;
        let (_, limit, _) = uses.select_nth_unstable(quarter);
        let limit = *limit;
        self.runs.retain(|_, (_, used)| *used >= limit);
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::id::Tenant;

    use super::*;
    use crate::mint::mint_job_id;

    fn memory() -> RunMemory {
        let head = Head { seq: Seq(3), hash: Digest::of(b"head") };
        RunMemory::of_claim(head, Timestamp::UNIX_EPOCH, Epoch(1), Run(1))
    }

    fn grow(memory: &mut RunMemory, n: u64, request: &[u8]) {
        let head = memory.head.extend(request);
        memory.advance(head, Timestamp::UNIX_EPOCH);
        memory.note_append(n, Digest::of(request));
    }

    #[test]
    fn an_append_is_fresh_repeated_or_conflicting_by_number_and_digest() {
        let mut memory = memory();
        assert_eq!(memory.judge_append(1, Digest::of(b"a")), Standing::Fresh);
        grow(&mut memory, 1, b"a");
        assert_eq!(memory.judge_append(1, Digest::of(b"a")), Standing::Repeated(Seq(4)));
        assert_eq!(memory.judge_append(1, Digest::of(b"b")), Standing::Conflicting(Seq(4)));
        assert_eq!(memory.judge_append(2, Digest::of(b"a")), Standing::Fresh);
    }

    #[test]
    fn an_append_that_is_no_longer_remembered_is_unknown_and_never_fresh() {
        let mut memory = memory();
        for n in 1..=REMEMBERED_APPENDS as u64 + 1 {
            grow(&mut memory, n, &n.to_be_bytes());
        }
        assert_eq!(memory.judge_append(1, Digest::of(&1_u64.to_be_bytes())), Standing::Unknown);
        assert_eq!(memory.judge_append(2, Digest::of(&2_u64.to_be_bytes())), Standing::Repeated(Seq(5)));
    }

    #[test]
    fn a_number_below_the_highest_of_a_tail_is_unknown() {
        let known = KnownAppend { n: 7, request: Digest::of(b"seven"), last_seq: Seq(9) };
        let head = Head { seq: Seq(9), hash: Digest::of(b"head") };
        let memory = RunMemory::of_tail(head, Timestamp::UNIX_EPOCH, Epoch(2), Run(1), vec![known]);
        assert_eq!(memory.judge_append(6, Digest::of(b"six")), Standing::Unknown);
        assert_eq!(memory.judge_append(8, Digest::of(b"eight")), Standing::Fresh);
        assert_eq!(memory.notices, Notices::Unknown);
    }

    #[test]
    fn the_least_recently_used_runs_are_forgotten_first() {
        let mut memories = Memories::new(8);
        let keys: Vec<_> =
            (0..9).map(|_| (Tenant::default_tenant(), mint_job_id(Timestamp::UNIX_EPOCH))).collect();
        for key in &keys[..8] {
            memories.remember(key.clone(), memory());
        }
        assert!(memories.recall(&keys[0]).is_some());
        memories.remember(keys[8].clone(), memory());
        let kept: Vec<bool> = keys.iter().map(|key| memories.recall(key).is_some()).collect();
        assert_eq!(kept, [true, false, false, true, true, true, true, true, true]);
    }
}
