//! Strict replay of a handler: what its journal says it asked for, in order, and whether a program asks for the same. Steps,
//! effects and gifts are answered from the record, and what a group of effects decided is decided; nothing is performed and nothing is
//! written. The first thing that differs is the end: what came after it would differ for that reason. Neighbours: the SDK runs the handler against it, `record` has what is read.
//!
//! ```text
//!   journal ──▶ Script: add up · pay/7 · write the label        handler asks: add up ─▶ its recorded output
//!                                                                             pay/8  ─▶ diverges: the journal has pay/7
//! ```

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{
    effect::{Disposition, EffectKey, EffectRequest},
    id::{AgentName, Seq},
    job::State,
    record::{GroupOutcome, Phase, Record, RecordKind},
    sending::{Given, Way},
    step::StepName,
};

/// The variable that names the file with the journal, a [`Line`] for each record. A program that finds it replays.
pub const JOURNAL_VARIABLE: &str = "TENURE_REPLAY_JOURNAL";
/// The variable that names the file for the [`Answer`].
pub const REPORT_VARIABLE: &str = "TENURE_REPLAY_REPORT";
/// The variable with the version of the handler that is meant; unset where there is but one.
pub const VERSION_VARIABLE: &str = "TENURE_REPLAY_VERSION";

/// A record on its way to the program that replays it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its bytes, which are JSON.
    pub record: String,
    /// The value beside it, in hexadecimal digits; none: there is none, or it was erased.
    #[serde(with = "hexadecimal", skip_serializing_if = "Option::is_none", default)]
    pub value: Option<Vec<u8>>,
}

/// What the program answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It replayed.
    Report(Report),
    /// It could not, and why.
    Refused(String),
}

mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    #[expect(clippy::ref_option, reason = "the shape that serde asks for")]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Vec<u8>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.serialize_str(&hex::encode(value)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let given = Option::<String>::deserialize(deserializer)?;
        given.map(|digits| hex::decode(digits).map_err(D::Error::custom)).transpose()
    }
}

/// Something that a handler asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// A step.
    Step(StepName),
    /// An effect, and the command or payload that it is announced with.
    Effect(EffectKey, Vec<String>),
    /// A group of effects, to be opened.
    Group(StepName),
    /// Whether an invariant of a group holds; the handler says whether it does now.
    Invariant {
        /// The group.
        group: StepName,
        /// The invariant, in the handler's words.
        words: String,
        /// What the handler says.
        holds: bool,
    },
    /// A group, to be committed.
    Commit(StepName),
    /// Work for an agent, under a key where one is named.
    Gift(Way, AgentName, Option<String>),
}

/// What a handler is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// What was recorded.
    Returned(Vec<u8>),
    /// What was recorded was erased.
    Erased,
    /// It failed.
    Failed {
        /// In which attempt.
        attempt: u32,
        /// What became of the world.
        disposition: Disposition,
        /// The end of what was said about it.
        error: String,
    },
    /// The group is reversed.
    Reversed,
    /// The replay goes no further.
    Over,
}

/// What a replay came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How much was answered from the record.
    pub answered: usize,
    /// Where the handler differs from the journal; none: nowhere, as far as the journal goes.
    pub divergence: Option<Divergence>,
    /// Where the replay ended before the handler returned: what a run would do next.
    pub goes_on_with: Option<String>,
}

/// The first place where a handler differs from its journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// The record that stands in the place; none: the journal has none there.
    pub seq: Option<Seq>,
    /// What the journal has.
    pub journal: String,
    /// What the handler does.
    pub handler: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, journal, handler } = self;
        match seq {
            Some(seq) => write!(f, "at record {seq} the journal has {journal}, and the handler {handler}"),
            None => write!(f, "the journal {journal}, and the handler {handler}"),
        }
    }
}

/// What a handler asked for in its runs, in the order in which it did first, and how far the replay is.
#[derive(Debug, Clone, Default)]
pub struct Script {
    items: Vec<Item>,
    /// The first item that was not asked for.
    next: usize,
    answered: usize,
    /// What the job returned, where it succeeded.
    result: Option<Option<Vec<u8>>>,
    over: Option<Over>,
    /// How often each was given without a key: in the journal, and by the handler.
    recorded: GiftCounts,
    asked: GiftCounts,
}

type GiftCounts = BTreeMap<(&'static str, AgentName), u32>;

#[derive(Debug, Clone)]
enum Over {
    Diverged(Divergence),
    GoesOnWith(String),
}

#[derive(Debug, Clone)]
struct Item {
    seq: Seq,
    what: What,
    /// What an effect was announced with; none: it was erased.
    request: Option<Vec<String>>,
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Step(StepName),
    Effect(EffectKey),
    Group(StepName),
    /// What a group decided.
    Decision(StepName),
    /// Work for an agent, under a key or as the so-manieth without one.
    Gift(&'static str, AgentName, Result<String, u32>),
}

impl What {
    fn gift(counts: &mut GiftCounts, way: Way, agent: &AgentName, key: Option<String>) -> Self {
        let which = key.ok_or_else(|| {
            let count = counts.entry((way.verb(), agent.clone())).or_default();
            *count += 1;
            *count
        });
        Self::Gift(way.verb(), agent.clone(), which)
    }
}

#[derive(Debug, Clone)]
enum Outcome {
    /// None is recorded, or it is in doubt.
    Open,
    Returned(Option<Vec<u8>>),
    Failed {
        attempt: u32,
        disposition: Disposition,
        error: String,
    },
    /// A group: because of this invariant.
    Reversed(String),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(name) => write!(f, "the step {:?}", name.as_str()),
            Self::Effect(key) => write!(f, "the effect {:?}", key.as_str()),
            Self::Group(name) => write!(f, "the group {:?}", name.as_str()),
            Self::Decision(name) => write!(f, "the decision about the group {:?}", name.as_str()),
            Self::Gift(verb, agent, Ok(key)) => write!(f, "{verb} {agent} under the key {key:?}"),
            Self::Gift(verb, agent, Err(count)) => write!(f, "{verb} {agent}, number {count}"),
        }
    }
}

impl Script {
    /// Takes the next record of the journal with the value beside it; all of them, in order.
    pub fn take_record(&mut self, record: &Record, value: Option<&[u8]>) {
        if record.phase == Phase::Compensating {
            return;
        }
        let owned = || value.map(<[u8]>::to_vec);
        match &record.kind {
            RecordKind::RunStarted { .. } => self.result = None,
            RecordKind::StepStarted { name } => {
                self.find_or_add(record.seq, What::Step(name.clone()));
            }
            RecordKind::StepFinished { name, .. } => {
                let item = self.find_or_add(record.seq, What::Step(name.clone()));
                // What was recorded first is what other steps were told.
                if matches!(item.outcome, Outcome::Open) {
                    item.outcome = Outcome::Returned(owned());
                }
            }
            RecordKind::EffectStarted { key, .. } => {
                let item = self.find_or_add(record.seq, What::Effect(key.clone()));
                item.outcome = Outcome::Open;
                item.request =
                    value.and_then(|json| EffectRequest::parse(json).ok()).map(|request| request.command);
            }
            RecordKind::EffectDone { key, .. } => {
                self.end_effect(record.seq, key, Outcome::Returned(owned()))
            }
            RecordKind::EffectFailed { key, attempt, disposition, .. } => {
                let error = String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
                let (attempt, disposition) = (*attempt, *disposition);
                self.end_effect(record.seq, key, Outcome::Failed { attempt, disposition, error });
            }
            RecordKind::EffectReconciled { key, verdict, .. } => {
                let outcome = match verdict {
                    Disposition::Landed => Outcome::Returned(owned().or_else(|| Some(Vec::new()))),
                    Disposition::DidNotHappen | Disposition::InDoubt => Outcome::Open,
                };
                self.end_effect(record.seq, key, outcome);
            }
            RecordKind::GroupOpened { name } => {
                // Nothing is said beside it, and nothing is answered.
                self.find_or_add(record.seq, What::Group(name.clone())).outcome =
                    Outcome::Returned(Some(Vec::new()));
            }
            RecordKind::GroupSettled { name, outcome, invariant, .. } => {
                self.find_or_add(record.seq, What::Decision(name.clone())).outcome = match outcome {
                    GroupOutcome::Committed => Outcome::Returned(Some(Vec::new())),
                    GroupOutcome::Reversed => Outcome::Reversed(invariant.clone().unwrap_or_default()),
                };
            }
            RecordKind::Sent(given) => self.take_gift(record.seq, Way::Send, given),
            RecordKind::Spawned(given) => self.take_gift(record.seq, Way::Spawn, given),
            RecordKind::JobConcluded { outcome: State::Succeeded, .. } => self.result = Some(owned()),
            _ => {}
        }
    }

    /// A handler is answered with the job that came of it.
    fn take_gift(&mut self, seq: Seq, way: Way, given: &Given) {
        let what = What::gift(&mut self.recorded, way, &given.agent, given.key.clone());
        // What is text and ids can be written.
        let told = serde_json::to_vec(given).unwrap_or_default();
        self.find_or_add(seq, what).outcome = Outcome::Returned(Some(told));
    }

    fn find_or_add(&mut self, seq: Seq, what: What) -> &mut Item {
        let place = self.find(&what).unwrap_or(self.items.len());
        if place == self.items.len() {
            self.items.push(Item { seq, what, request: None, outcome: Outcome::Open });
        }
        &mut self.items[place]
    }

    fn end_effect(&mut self, seq: Seq, key: &EffectKey, outcome: Outcome) {
        self.find_or_add(seq, What::Effect(key.clone())).outcome = outcome;
    }

    /// Answers what the handler asks for.
    pub fn ask(&mut self, asked: Asked) -> Told {
        if self.over.is_some() {
            return Told::Over;
        }
        let (what, request) = match asked {
            Asked::Step(name) => (What::Step(name), None),
            Asked::Effect(key, request) => (What::Effect(key), Some(request)),
            Asked::Group(name) => (What::Group(name), None),
            Asked::Commit(name) => (What::Decision(name), None),
            Asked::Invariant { group, words, holds } => return self.ask_invariant(group, &words, holds),
            Asked::Gift(way, agent, key) => (What::gift(&mut self.asked, way, &agent, key), None),
        };
        let Some(place) = self.find(&what) else { return self.meet_unknown(&what) };
        if place > self.next {
            return self.diverge_at_next(format!("asks for {what}"));
        }
        let item = &self.items[place];
        if let (Some(request), Some(recorded)) = (request, &item.request)
            && request != *recorded
        {
            let (seq, journal) = (Some(item.seq), format!("{what} with {recorded:?}"));
            return self.diverge(Divergence {
                seq,
                journal,
                handler: format!("asks for it with {request:?}"),
            });
        }
        if let Outcome::Reversed(invariant) = &item.outcome {
            let (seq, journal) = (Some(item.seq), format!("{what}: reversed, {invariant:?} does not hold"));
            return self.diverge(Divergence { seq, journal, handler: "commits it".to_owned() });
        }
        self.next = self.next.max(place + 1);
        self.answer(place, what)
    }

    /// An invariant is asked once: what was decided stands, whatever the handler says now.
    fn ask_invariant(&mut self, group: StepName, words: &str, holds: bool) -> Told {
        let what = What::Decision(group);
        let held = || Told::Returned(Vec::new());
        let Some(place) = self.find(&what) else {
            return if holds { held() } else { self.meet_unknown(&what) };
        };
        if !matches!(&self.items[place].outcome, Outcome::Reversed(broken) if broken == words) {
            return held();
        }
        if place > self.next {
            return self.diverge_at_next(format!("reverses the group: {words:?} does not hold"));
        }
        self.next = self.next.max(place + 1);
        self.answered += 1;
        Told::Reversed
    }

    fn find(&self, what: &What) -> Option<usize> {
        self.items.iter().position(|item| item.what == *what)
    }

    /// A failure is told where the journal goes on after it, so that the handler was told of it then, or where it is for good.
    fn answer(&mut self, place: usize, what: What) -> Told {
        let went_on = self.next < self.items.len() || self.result.is_some();
        let told = match &self.items[place].outcome {
            Outcome::Returned(Some(value)) => Told::Returned(value.clone()),
            Outcome::Returned(None) => Told::Erased,
            Outcome::Reversed(_) => Told::Reversed,
            Outcome::Failed { attempt, disposition, error }
                if went_on || *disposition == Disposition::Landed =>
            {
                Told::Failed { attempt: *attempt, disposition: *disposition, error: error.clone() }
            }
            Outcome::Failed { .. } | Outcome::Open => {
                self.over = Some(Over::GoesOnWith(what.to_string()));
                return Told::Over;
            }
        };
        self.answered += 1;
        told
    }

    fn meet_unknown(&mut self, what: &What) -> Told {
        if self.next < self.items.len() {
            return self.diverge_at_next(format!("asks for {what}"));
        }
        if self.result.is_some() {
            let (journal, handler) = ("ends with a success there".to_owned(), format!("asks for {what}"));
            return self.diverge(Divergence { seq: None, journal, handler });
        }
        self.over = Some(Over::GoesOnWith(what.to_string()));
        Told::Over
    }

    fn diverge_at_next(&mut self, handler: String) -> Told {
        let item = &self.items[self.next];
        let (seq, journal) = (Some(item.seq), item.what.to_string());
        self.diverge(Divergence { seq, journal, handler })
    }

    fn diverge(&mut self, divergence: Divergence) -> Told {
        self.over = Some(Over::Diverged(divergence));
        Told::Over
    }

    /// The report of a replay whose handler returned this, or was stopped: then nothing is said of what it returned.
    #[must_use]
    pub fn finish(mut self, returned: Option<Result<&[u8], &str>>) -> Report {
        if let (None, Some(returned)) = (&self.over, returned) {
            self.judge_return(returned);
        }
        let (divergence, goes_on_with) = match self.over {
            Some(Over::Diverged(divergence)) => (Some(divergence), None),
            Some(Over::GoesOnWith(what)) => (None, Some(what)),
            None => (None, None),
        };
        Report { answered: self.answered, divergence, goes_on_with }
    }

    fn judge_return(&mut self, returned: Result<&[u8], &str>) {
        let handler = match returned {
            Ok(_) => "returns".to_owned(),
            Err(error) => format!("fails: {error}"),
        };
        if self.next < self.items.len() {
            self.diverge_at_next(format!("never asks for it and {handler}"));
            return;
        }
        let Some(recorded) = &self.result else { return };
        let is_same = match (returned, recorded) {
            (Err(_), _) => false,
            // What was erased is not compared.
            (Ok(_), None) => true,
            (Ok(json), Some(recorded)) => equals_as_json(json, recorded),
        };
        if !is_same {
            let handler = if returned.is_ok() { "returns another one".to_owned() } else { handler };
            let journal = "ends with a success and its result".to_owned();
            self.diverge(Divergence { seq: None, journal, handler });
        }
    }
}

fn equals_as_json(one: &[u8], other: &[u8]) -> bool {
    let read = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).ok();
    one == other || read(one).is_some_and(|one| read(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        effect::{EffectRecovery, Outcome as EffectOutcome},
        factory::{Journal, admitted, effect_ended, effect_started, job_id, run_started, salted},
        handover::Cause,
        record::{Draft, SealedRecord},
    };

    fn began(name: &str) -> Draft {
        Draft::bare(RecordKind::StepStarted { name: name.parse().unwrap() })
    }

    fn step(name: &str, output: &str) -> Vec<Draft> {
        let named = name.parse().unwrap();
        let finished =
            Draft::with_value(salted(output), |output| RecordKind::StepFinished { name: named, output });
        vec![began(name), finished]
    }

    fn concluded(result: &str) -> Draft {
        Draft::with_value(salted(result), |result| RecordKind::JobConcluded {
            outcome: State::Succeeded,
            reason: None,
            result: Some(result),
            output_chunks: None,
        })
    }

    fn script(drafts: Vec<Draft>) -> Script {
        let started = [admitted("7"), vec![run_started(Cause::Dispatch)]].concat();
        let journal = Journal::of(job_id()).write(1, 1, [started, drafts].concat());
        let mut script = Script::default();
        for SealedRecord { bytes, value, .. } in &journal.records {
            let record: Record = serde_json::from_slice(bytes).unwrap();
            script.take_record(&record, value.as_ref().map(|value| &value.value[..]));
        }
        script
    }

    /// add up, pay, write the label.
    fn order() -> Vec<Draft> {
        let paid =
            vec![effect_started("pay/7", EffectRecovery::Ask), effect_ended("pay/7", EffectOutcome::Done)];
        [step("add up", "12"), paid, step("label", "\"7\"")].concat()
    }

    fn ask_step(script: &mut Script, name: &str) -> Told {
        script.ask(Asked::Step(name.parse().unwrap()))
    }

    fn pay(script: &mut Script, key: &str) -> Told {
        script.ask(Asked::Effect(key.parse().unwrap(), vec!["git".into(), "push".into()]))
    }

    fn diverged(report: Report) -> String {
        report.divergence.expect("a divergence").to_string()
    }

    #[test]
    fn the_same_handler_is_answered_from_the_record_and_agrees() {
        let mut script = script([order(), vec![concluded("{\"a\": 1}")]].concat());
        assert_eq!(ask_step(&mut script, "add up"), Told::Returned(b"12".to_vec()));
        assert_eq!(pay(&mut script, "pay/7"), Told::Returned(b"abc123\nto origin".to_vec()));
        assert_eq!(
            pay(&mut script, "pay/7"),
            Told::Returned(b"abc123\nto origin".to_vec()),
            "as often as it asks"
        );
        assert_eq!(ask_step(&mut script, "label"), Told::Returned(b"\"7\"".to_vec()));
        let report = script.finish(Some(Ok(b"{\"a\":1}")));
        assert_eq!(report, Report { answered: 4, divergence: None, goes_on_with: None });
    }

    #[test]
    fn what_is_asked_for_in_another_place_is_where_it_diverges() {
        let mut another = script(order());
        ask_step(&mut another, "add up");
        assert_eq!(pay(&mut another, "pay/8"), Told::Over);
        assert_eq!(ask_step(&mut another, "label"), Told::Over, "nothing is answered after it");
        assert_eq!(
            diverged(another.finish(None)),
            "at record 6 the journal has the effect \"pay/7\", and the handler asks for the effect \"pay/8\""
        );
        let mut skipped = script(order());
        ask_step(&mut skipped, "add up");
        assert_eq!(ask_step(&mut skipped, "label"), Told::Over);
        assert!(
            diverged(skipped.finish(None)).starts_with("at record 6 the journal has the effect \"pay/7\"")
        );
        let mut other = script(order());
        ask_step(&mut other, "add up");
        let asked = Asked::Effect("pay/7".parse().unwrap(), vec!["git".into(), "pull".into()]);
        assert_eq!(other.ask(asked), Told::Over);
        assert!(diverged(other.finish(None)).ends_with("the handler asks for it with [\"git\", \"pull\"]"));
    }

    #[test]
    fn what_is_never_asked_for_and_another_end_are_divergences() {
        let mut short = script(order());
        ask_step(&mut short, "add up");
        assert_eq!(
            diverged(short.finish(Some(Ok(b"1")))),
            "at record 6 the journal has the effect \"pay/7\", and the handler never asks for it and returns"
        );
        for (returned, words) in
            [(Ok(&b"2"[..]), "returns another one"), (Err("no route"), "fails: no route")]
        {
            let mut succeeded = script([step("add up", "12"), vec![concluded("1")]].concat());
            ask_step(&mut succeeded, "add up");
            assert!(diverged(succeeded.finish(Some(returned))).ends_with(words));
        }
        let mut longer = script([step("add up", "12"), vec![concluded("1")]].concat());
        ask_step(&mut longer, "add up");
        assert_eq!(ask_step(&mut longer, "ship"), Told::Over);
        assert!(diverged(longer.finish(None)).ends_with("the handler asks for the step \"ship\""));
    }

    #[test]
    fn the_end_of_an_unfinished_journal_is_no_divergence() {
        let mut open =
            script([step("add up", "12"), vec![effect_started("pay/7", EffectRecovery::Ask)]].concat());
        ask_step(&mut open, "add up");
        assert_eq!(pay(&mut open, "pay/7"), Told::Over);
        let report = open.finish(None);
        assert_eq!((report.divergence, report.goes_on_with.as_deref()), (None, Some("the effect \"pay/7\"")));
        let mut ended = script(step("add up", "12"));
        ask_step(&mut ended, "add up");
        assert_eq!(ask_step(&mut ended, "ship"), Told::Over);
        assert_eq!(ended.finish(None).goes_on_with.as_deref(), Some("the step \"ship\""));
    }

    #[test]
    fn a_failure_that_the_handler_went_on_from_is_told_again() {
        let failed = EffectOutcome::Failed(Disposition::DidNotHappen);
        let failure = vec![effect_started("pay/7", EffectRecovery::Ask), effect_ended("pay/7", failed)];
        let mut went_on = script([failure.clone(), step("label", "\"7\"")].concat());
        assert!(matches!(pay(&mut went_on, "pay/7"), Told::Failed { attempt: 1, .. }));
        assert_eq!(ask_step(&mut went_on, "label"), Told::Returned(b"\"7\"".to_vec()));
        let mut last = script(failure);
        assert_eq!(pay(&mut last, "pay/7"), Told::Over, "a run would perform it anew");
    }
    fn opened() -> Draft {
        Draft::bare(RecordKind::GroupOpened { name: "order".parse().unwrap() })
    }

    fn settled(invariant: Option<&str>) -> Draft {
        Draft::bare(RecordKind::GroupSettled {
            name: "order".parse().unwrap(),
            outcome: if invariant.is_some() { GroupOutcome::Reversed } else { GroupOutcome::Committed },
            members: vec!["pay/7".parse().unwrap()],
            invariant: invariant.map(str::to_owned),
        })
    }

    fn grouped(invariant: Option<&str>) -> Vec<Draft> {
        let paid = [effect_started("pay/7", EffectRecovery::Ask), effect_ended("pay/7", EffectOutcome::Done)];
        [vec![opened()], paid.into(), vec![settled(invariant)], step("label", "\"7\"")].concat()
    }

    /// As far as its first invariant.
    fn begin_group(script: &mut Script) {
        assert_eq!(script.ask(Asked::Group("order".parse().unwrap())), Told::Returned(Vec::new()));
        assert!(matches!(pay(script, "pay/7"), Told::Returned(_)));
    }

    fn check(script: &mut Script, words: &str, holds: bool) -> Told {
        let (group, words) = ("order".parse().unwrap(), words.to_owned());
        script.ask(Asked::Invariant { group, words, holds })
    }

    fn commit(script: &mut Script) -> Told {
        script.ask(Asked::Commit("order".parse().unwrap()))
    }

    #[test]
    fn what_a_group_decided_is_followed_whatever_the_handler_says_now() {
        let mut committed = script(grouped(None));
        begin_group(&mut committed);
        assert_eq!(check(&mut committed, "it is covered", false), Told::Returned(Vec::new()));
        assert_eq!(commit(&mut committed), Told::Returned(Vec::new()));
        assert_eq!(ask_step(&mut committed, "label"), Told::Returned(b"\"7\"".to_vec()));
        let report = committed.finish(None);
        assert_eq!(report, Report { answered: 4, divergence: None, goes_on_with: None });
        let mut reversed = script(grouped(Some("it is covered")));
        begin_group(&mut reversed);
        assert_eq!(check(&mut reversed, "it is open", false), Told::Returned(Vec::new()), "that one held");
        assert_eq!(check(&mut reversed, "it is covered", true), Told::Reversed);
        assert_eq!(ask_step(&mut reversed, "label"), Told::Returned(b"\"7\"".to_vec()));
        assert_eq!(reversed.finish(None).divergence, None);
    }

    #[test]
    fn a_group_that_the_journal_reversed_and_the_handler_commits_is_where_it_diverges() {
        let mut another = script(grouped(Some("it is covered")));
        begin_group(&mut another);
        assert_eq!(check(&mut another, "it is paid", true), Told::Returned(Vec::new()));
        assert_eq!(commit(&mut another), Told::Over);
        assert_eq!(
            diverged(another.finish(None)),
            "at record 7 the journal has the decision about the group \"order\": reversed, \"it is covered\" does not hold, \
             and the handler commits it"
        );
        let mut ungrouped = script(grouped(None));
        assert_eq!(pay(&mut ungrouped, "pay/7"), Told::Over);
        assert!(diverged(ungrouped.finish(None)).starts_with("at record 4 the journal has the group"));
        let mut hasty = script(grouped(Some("it is covered")));
        hasty.ask(Asked::Group("order".parse().unwrap()));
        assert_eq!(check(&mut hasty, "it is covered", false), Told::Over);
        assert!(diverged(hasty.finish(None)).starts_with("at record 5 the journal has the effect \"pay/7\""));
    }

    #[test]
    fn a_group_that_nothing_was_decided_about_is_where_a_run_would_go_on() {
        let undecided = || script(grouped(None).drain(..3).collect());
        for decide in [commit as fn(&mut Script) -> Told, |script| check(script, "it is covered", false)] {
            let mut open = undecided();
            begin_group(&mut open);
            assert_eq!(check(&mut open, "it is open", true), Told::Returned(Vec::new()));
            assert_eq!(decide(&mut open), Told::Over);
            let report = open.finish(None);
            let goes_on_with = report.goes_on_with.as_deref();
            assert_eq!(
                (report.divergence, goes_on_with),
                (None, Some("the decision about the group \"order\""))
            );
        }
    }

    fn sent(agent: &str, key: Option<&str>) -> Draft {
        let (child, session) = (job_id(), crate::id::SessionId(job_id().0));
        let (agent, key) = (agent.parse().unwrap(), key.map(str::to_owned));
        Draft::bare(RecordKind::Sent(Given { child, session, agent, key }))
    }

    #[test]
    fn gifts_are_answered_with_their_jobs_and_another_agent_is_a_divergence() {
        let give = |agent: &str, key: Option<&str>| {
            Asked::Gift(Way::Send, agent.parse().unwrap(), key.map(str::to_owned))
        };
        let journal = || vec![sent("reviewer", None), sent("reviewer", None), sent("reviewer", Some("k"))];
        let mut same = script(journal());
        for key in [None, None, Some("k"), Some("k")] {
            let Told::Returned(json) = same.ask(give("reviewer", key)) else { panic!("{key:?}") };
            let given: Given = serde_json::from_slice(&json).unwrap();
            assert_eq!(given.child, job_id());
        }
        assert_eq!(same.ask(give("reviewer", None)), Told::Over);
        assert_eq!(same.finish(None).goes_on_with.unwrap(), "send reviewer, number 3");
        let mut other = script(journal());
        assert_eq!(other.ask(give("developer", None)), Told::Over);
        let divergence = other.finish(None).divergence.unwrap();
        assert_eq!(
            (&*divergence.journal, &*divergence.handler),
            ("send reviewer, number 1", "asks for send developer, number 1")
        );
    }
}
