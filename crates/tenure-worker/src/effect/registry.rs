//! Which effects of a run are being performed, by whom of its callers, and which keys were ever asked for. It promises that
//! at most one call performs a key at a time; a second one waits and hears what came of the first. What is recorded is not
//! kept here: the journal has it, and a run may have more effects than this process has memory.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenure_core::{
    effect::EffectKey,
    id::Digest,
    limits::{EFFECT_KEYS_REMEMBERED_MAX, UNASKED_KEYS_MAX},
};
use tokio::sync::watch;

use super::answer::Answer;
use crate::journal::UnaskedKeys;

/// The effects of one run.
#[derive(Debug)]
pub(super) struct Registry {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    calls: BTreeMap<EffectKey, watch::Receiver<Option<CallEnd>>>,
    /// Attempts that may still be under way although nobody waits for them, until the run is over.
    left: HashMap<EffectKey, u32>,
    /// Keys of earlier runs that were not asked for yet.
    unasked: BTreeSet<String>,
    /// The keys that this run asked for, where no earlier run announced anything: all others have no record. None: any key
    /// may have one.
    only_asked: Option<HashSet<EffectKey>>,
}

/// What came of a call.
#[derive(Debug, Clone)]
pub(super) enum CallEnd {
    /// An outcome, of a command with this digest.
    Answered(Answer, Digest),
    /// None: whoever waits may try.
    Unanswered,
}

/// What a caller is to a key.
pub(super) enum Role {
    /// It performs, until this is dropped.
    Performer(Performer),
    /// Another does, and this tells what comes of it.
    Waiter(watch::Receiver<Option<CallEnd>>),
    /// Another did, as this attempt, and left without an outcome; what it began may still be under way.
    Left(u32),
}

/// The right to perform a key. Dropping it without an answer lets another try.
#[derive(Debug)]
pub(super) struct Performer {
    registry: Arc<Registry>,
    key: EffectKey,
    tell: watch::Sender<Option<CallEnd>>,
    /// False where nothing can be recorded under the key.
    pub(super) may_be_recorded: bool,
}

impl Registry {
    /// That of a run which is the first, or is told the keys of earlier ones.
    pub(super) fn new(is_first_run: bool, earlier_keys: BTreeSet<String>) -> Self {
        let only_asked = is_first_run.then(HashSet::new);
        Self {
            table: Mutex::new(Table {
                calls: BTreeMap::new(),
                left: HashMap::new(),
                unasked: earlier_keys,
                only_asked,
            }),
        }
    }

    /// Asks for a key.
    pub(super) fn enter(self: &Arc<Self>, key: &EffectKey) -> Role {
        let mut table = self.lock();
        table.unasked.remove(key.as_str());
        if let Some(waiting) = table.calls.get(key) {
            return Role::Waiter(waiting.clone());
        }
        if let Some(attempt) = table.left.get(key) {
            return Role::Left(*attempt);
        }
        let may_be_recorded = table.note_asked(key);
        let (tell, told) = watch::channel(None);
        table.calls.insert(key.clone(), told);
        Role::Performer(Performer { registry: Arc::clone(self), key: key.clone(), tell, may_be_recorded })
    }

    /// The keys of earlier runs that were never asked for.
    pub(super) fn list_unasked(&self) -> UnaskedKeys {
        let table = self.lock();
        let listed = table.unasked.iter().take(UNASKED_KEYS_MAX).cloned().collect();
        UnaskedKeys { listed, count: table.unasked.len() as u64 }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns whether something may be recorded under the key.
    fn note_asked(&mut self, key: &EffectKey) -> bool {
        let Some(asked) = &mut self.only_asked else { return true };
        let is_new = asked.insert(key.clone());
        if asked.len() > EFFECT_KEYS_REMEMBERED_MAX {
            self.only_asked = None;
        }
        !is_new
    }
}

impl Performer {
    /// Tells whoever waits what came of it.
    pub(super) fn answer(self, answer: Answer, digest: Digest) {
        self.finish(CallEnd::Answered(answer, digest));
    }

    /// Lets nobody else in this run try: what was begun as this attempt may still be under way.
    pub(super) fn leave(self, attempt: u32) {
        self.registry.lock().left.insert(self.key.clone(), attempt);
    }

    fn finish(&self, end: CallEnd) {
        // First it is nobody's, then it is told: whoever is told may ask for it at once.
        if self.tell.borrow().is_none() {
            self.registry.lock().calls.remove(&self.key);
            self.tell.send_replace(Some(end));
        }
    }
}

impl Drop for Performer {
    fn drop(&mut self) {
        self.finish(CallEnd::Unanswered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> EffectKey {
        name.parse().unwrap()
    }

    fn perform(registry: &Arc<Registry>, name: &str) -> Performer {
        match registry.enter(&key(name)) {
            Role::Performer(performer) => performer,
            Role::Waiter(_) | Role::Left(_) => panic!("{name} is being performed"),
        }
    }

    #[tokio::test]
    async fn a_second_caller_hears_what_came_of_the_first() {
        let registry = Arc::new(Registry::new(true, BTreeSet::new()));
        let first = perform(&registry, "k");
        let Role::Waiter(mut told) = registry.enter(&key("k")) else { panic!("it performs beside another") };
        let answer = Answer::done(1, "out".into(), false);
        first.answer(answer.clone(), Digest::of(b""));
        let end = told.wait_for(Option::is_some).await.unwrap().clone();
        assert!(matches!(end, Some(CallEnd::Answered(heard, _)) if heard == answer));
        assert!(perform(&registry, "k").may_be_recorded);
    }

    #[tokio::test]
    async fn a_call_that_breaks_off_lets_another_try() {
        let registry = Arc::new(Registry::new(true, BTreeSet::new()));
        let first = perform(&registry, "k");
        let Role::Waiter(mut told) = registry.enter(&key("k")) else { panic!("it performs beside another") };
        drop(first);
        let end = told.wait_for(Option::is_some).await.unwrap().clone();
        assert!(matches!(end, Some(CallEnd::Unanswered)));
        perform(&registry, "k");
    }

    #[test]
    fn nothing_is_recorded_before_a_first_run_asks_and_anything_before_a_later_one() {
        let first = Arc::new(Registry::new(true, BTreeSet::new()));
        assert!(!perform(&first, "k").may_be_recorded);
        assert!(perform(&first, "k").may_be_recorded);
        assert!(perform(&Arc::new(Registry::new(false, BTreeSet::new())), "k").may_be_recorded);
    }

    #[test]
    fn more_keys_than_are_remembered_are_all_looked_up() {
        let registry = Arc::new(Registry::new(true, BTreeSet::new()));
        for number in 0..=EFFECT_KEYS_REMEMBERED_MAX {
            assert!(!perform(&registry, &number.to_string()).may_be_recorded);
        }
        assert!(perform(&registry, "one more").may_be_recorded);
        assert!(registry.lock().only_asked.is_none());
    }

    #[test]
    fn keys_that_earlier_runs_announced_are_unasked_until_they_are_asked_for() {
        let earlier = (0..30).map(|number| format!("k{number:02}")).collect();
        let registry = Arc::new(Registry::new(false, earlier));
        perform(&registry, "k00");
        perform(&registry, "new");
        let unasked = registry.list_unasked();
        assert_eq!((unasked.count, unasked.listed.len()), (29, UNASKED_KEYS_MAX));
        assert_eq!(unasked.listed[0], "k01");
    }
}
