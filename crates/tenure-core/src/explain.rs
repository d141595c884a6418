//! The whole story of a job in prose, for a person: what happened, run by run, who holds it, what is waited for, what comes next,
//! and whether it needs somebody. It is told from the journal, record by record, and from the job's row; what a program wants to
//! know is in those, and not here. It decides nothing, and names no command that the job's row does not name. Neighbours:
//! `record` has what happened, `brief` tells runs, `job` knows the commands.

mod present;
mod run;

pub use present::{Held, Present};

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    effect::{Disposition, EffectKey},
    job::State,
    record::{GroupOutcome, HandOver, Record, RecordKind},
    recovery::{GoneProof, Pays, Restart},
    sending::Given,
};

use run::RunStory;

/// Letters of a text of somebody else's that a sentence repeats.
const QUOTED_LETTERS_MAX: usize = 120;

/// A story that is being read.
#[derive(Debug, Default)]
pub struct Story {
    opening: String,
    told: Vec<String>,
    run: Option<RunStory>,
    effects: BTreeMap<EffectKey, Option<Disposition>>,
}

impl Story {
    /// Takes the next record with the value beside it; all of them, in order.
    #[expect(clippy::too_many_lines, reason = "the one table of what each kind of record tells")]
    pub fn take_record(&mut self, record: &Record, value: Option<&[u8]>) {
        let at = record.at;
        match &record.kind {
            RecordKind::JobAdmitted { agent, by, .. } => {
                self.opening =
                    format!("It is work for agent {agent}, and {} submitted it at {at}.", by.actor);
            }
            RecordKind::PlanFrozen { .. }
            | RecordKind::StepStarted { .. }
            | RecordKind::GroupOpened { .. } => {}
            RecordKind::Remembered { .. } => {
                self.say(format!("It left this for later sessions: {}.", quote_value(value)));
            }
            RecordKind::Sent(given) => self.tell_given(given, "in this session"),
            RecordKind::Spawned(given) => self.tell_given(given, "as a session of its own"),
            RecordKind::SendRefused { agent, detail, .. } => {
                self.say(format!("It could not give work to agent {agent}: {}.", quote(detail)));
            }
            RecordKind::LayoverBooked { until, waiting_for } => {
                self.say(format!("It set the work down until {until}, waiting for {}.", quote(waiting_for)));
            }
            RecordKind::Suspended { wait } => {
                self.say(format!("It ended at {at} to wait ({:?}).", wait.name.as_str()));
            }
            RecordKind::Woken { name, .. } => {
                self.say(format!("What it waited for ({:?}) was there at {at}.", name.as_str()));
            }
            RecordKind::Spent { .. } => {
                if let Some(run) = &mut self.run {
                    run.spends += 1;
                }
            }
            RecordKind::BudgetRefused { limit, used, allowed } => {
                self.say(format!("At {at} its limit of {limit} refused: {used} of {allowed} were used."));
            }
            RecordKind::BudgetReadmitted { limit, .. } => {
                self.say(format!("At {at} its limit of {limit} stood against it no longer."));
            }
            RecordKind::LimitRaised { limit, from, to, by, why } => {
                let limit = limit.name();
                self.say(format!("{} raised {limit} from {from} to {to} at {at}: {}.", by.actor, quote(why)));
            }
            RecordKind::RunStarted { worker, attempt, cause, .. } => {
                self.close_run();
                self.run = Some(RunStory::begin(record.run, at, worker, *attempt, cause));
            }
            RecordKind::Note { .. } => {
                if let Some(run) = &mut self.run {
                    run.take_note(quote_value(value));
                }
            }
            RecordKind::StepFinished { .. } => {
                if let Some(run) = &mut self.run {
                    run.steps += 1;
                }
            }
            RecordKind::EffectStarted { key, .. } => self.note_effect(key, None),
            RecordKind::EffectDone { key, .. } => self.note_effect(key, Some(Disposition::Landed)),
            RecordKind::EffectFailed { key, disposition, .. } => self.note_effect(key, Some(*disposition)),
            RecordKind::EffectReconciled { key, verdict, by, .. } => {
                self.note_effect(key, Some(*verdict));
                let found = match verdict {
                    Disposition::Landed => "happened",
                    Disposition::DidNotHappen => "did not happen",
                    Disposition::InDoubt => "may or may not have happened",
                };
                self.say(format!("{} found out that the effect {:?} {found}.", by.actor, key.as_str()));
            }
            RecordKind::EffectsUnasked { count, .. } => {
                self.say(format!(
                    "It never asked for {} that earlier runs had announced.",
                    count_of(*count, "effect")
                ));
            }
            RecordKind::ChildGone { proof, by, .. } => self.tell_gone(*proof, &by.actor),
            RecordKind::RunInterrupted { interruption, restart, .. } => {
                self.say(format!("It was interrupted at {at}: {}.", interruption.sentence()));
                self.tell_restart(*restart);
            }
            RecordKind::RunHandedOver { because, restart, .. } => {
                let why = match because {
                    HandOver::Drained => "its worker left",
                    HandOver::Steered => "a person redirected the job",
                };
                self.say(format!("It was ended on purpose at {at}, because {why}."));
                self.tell_restart(*restart);
            }
            RecordKind::RecoveryDenied { denial } => {
                self.say(format!("It was not restarted: {denial}."));
            }
            RecordKind::GrantReleased { reason, .. } => {
                self.say(format!("It never started ({reason}), and counts for nothing."));
            }
            RecordKind::DeadlineDenied { elapsed_s, ceiling_s } => {
                self.say(format!(
                    "The session's deadline refused another run: {elapsed_s} s of its {ceiling_s} s had passed."
                ));
            }
            RecordKind::CancelRequested { by, why } => {
                self.ask(at, &by.actor, "asked for it to be cancelled", why)
            }
            RecordKind::AbandonRequested { by, why } => self.ask(at, &by.actor, "gave it up", why),
            RecordKind::Resumed { by, why } => self.ask(at, &by.actor, "had it go on", why),
            RecordKind::Reopened { by, why, .. } => self.ask(at, &by.actor, "had it judged again", why),
            RecordKind::Steered { by, .. } => {
                let note = quote_value(value);
                self.say(format!("{} redirected it at {at}: {note}.", by.actor));
            }
            RecordKind::OperatorActed { verb, by, why, .. } => {
                self.ask(at, &by.actor, &format!("asked for {verb}"), why);
            }
            RecordKind::QuarantineDecided { effects, count, instead_of, changed, .. } => {
                let named = effects.first().map(|effect| format!(", {:?} first of all", effect.key.as_str()));
                let why = match changed {
                    Some(_) => "nothing carries out the declaration that it was admitted under".to_owned(),
                    None => format!("of {}{}", count_of(*count, "effect"), named.unwrap_or_default()),
                };
                self.say(format!(
                    "It was set aside at {at} because {why}; it would have become {instead_of}."
                ));
            }
            RecordKind::UnwindStarted { instead_of, steps, .. } => {
                let steps = count_of(*steps, "step");
                self.say(format!("From {at} on {steps} are undone, before it becomes {instead_of}."));
            }
            RecordKind::GroupSettled { name, outcome: GroupOutcome::Reversed, .. } => {
                self.say(format!("The effects of the group {:?} were reversed.", name.as_str()));
            }
            RecordKind::GroupSettled { outcome: GroupOutcome::Committed, .. } => {}
            RecordKind::JobConcluded { outcome, reason, .. } => {
                self.conclude(at, *outcome, reason.as_deref())
            }
        }
    }

    fn note_effect(&mut self, key: &EffectKey, became: Option<Disposition>) {
        if let (Some(run), None) = (&mut self.run, became) {
            run.effects.push(key.clone());
        }
        self.effects.insert(key.clone(), became);
    }

    fn tell_given(&mut self, given: &Given, how: &str) {
        self.say(format!("It gave work to agent {} {how}: job {}.", given.agent, given.child.short()));
    }

    fn tell_gone(&mut self, proof: GoneProof, by: &str) {
        match proof {
            GoneProof::Person => self.say(format!("{by} vouched that its child is gone.")),
            GoneProof::HostReturned => {
                self.say("Its host came back, looked, and found its child gone.".to_owned());
            }
            GoneProof::Observed | GoneProof::Guardian | GoneProof::TermLapsed | GoneProof::NeverStarted => {}
        }
    }

    fn tell_restart(&mut self, restart: Option<Restart>) {
        let Some(Restart { attempt, pays, not_before }) = restart else { return };
        let when = not_before.map_or_else(|| "at once".to_owned(), |at| format!("not before {at}"));
        let uses = match pays {
            Pays::Attempt => "it used an attempt and a hop",
            Pays::Loss => "it used a loss and no attempt, because its child was well",
            Pays::Hop => "it used a hop and no attempt",
            Pays::Run => "nothing was used up",
            Pays::Nothing => "a person granted it",
        };
        self.say(format!("Another run was granted {when}, as attempt {attempt}: {uses}."));
    }

    fn ask(&mut self, at: Timestamp, actor: &str, what: &str, why: &str) {
        self.say(format!("{actor} {what} at {at}: {}.", quote(why)));
    }

    fn conclude(&mut self, at: Timestamp, outcome: State, reason: Option<&str>) {
        let because = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
        self.say(format!("It became {outcome} at {at}{because}."));
    }

    /// Of the present run, or of the job between two of them.
    fn say(&mut self, sentence: String) {
        match &mut self.run {
            Some(run) => run.sentences.push(sentence),
            None => self.told.push(sentence),
        }
    }

    fn close_run(&mut self) {
        if let Some(run) = self.run.take() {
            self.told.push(run.tell());
        }
    }

    /// The story as it stands now.
    #[must_use]
    pub fn tell(mut self, present: &Present) -> String {
        self.close_run();
        let mut paragraphs = vec![format!("{} {}", present.tell_what(), self.opening).trim_end().to_owned()];
        paragraphs.append(&mut self.told);
        let doubts: Vec<&EffectKey> =
            self.effects.iter().filter(|(_, became)| is_doubt(**became)).map(|(key, _)| key).collect();
        paragraphs.extend(tell_doubts(&doubts, present.state));
        paragraphs.push(present.tell_now());
        paragraphs.push(present.tell_next());
        paragraphs.push(present.tell_needs());
        let mut text = paragraphs.join("\n\n");
        text.push('\n');
        text
    }
}

const fn is_doubt(became: Option<Disposition>) -> bool {
    match became {
        None | Some(Disposition::InDoubt) => true,
        Some(Disposition::Landed | Disposition::DidNotHappen) => false,
    }
}

/// Under a living run an effect without an outcome is under way, and no doubt.
fn tell_doubts(doubts: &[&EffectKey], state: State) -> Option<String> {
    let first = doubts.first()?;
    let (count, first) = (count_of(doubts.len() as u64, "effect"), first.as_str());
    Some(if state == State::Running {
        format!("Without an outcome as yet: {count}, {first:?} first of all.")
    } else {
        format!("Nobody knows whether {count} happened, {first:?} first of all.")
    })
}

fn count_of(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The beginning of what somebody wrote, in one line and in quotation marks.
fn quote(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().filter(|letter| !letter.is_control()).take(QUOTED_LETTERS_MAX).collect();
    let more = if line.chars().count() > QUOTED_LETTERS_MAX { " …" } else { "" };
    format!("“{shown}{more}”")
}

fn quote_value(value: Option<&[u8]>) -> String {
    value.map_or_else(|| "(erased)".to_owned(), |value| quote(&String::from_utf8_lossy(value)))
}

#[cfg(test)]
mod tests;
