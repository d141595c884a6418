//! What a handover tells of effects: each key once, by its last attempt before the run. Keys and states of all that fit are
//! told, the latest first of what would be too much; outputs are shortened, because the worker reads back the whole.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    effect::{Announcement, EffectKey, EffectMark, EffectRecovery, Outcome, answer_after},
    id::{Run, Seq},
    limits::{HANDOVER_EFFECT_OUTPUT_MAX_BYTES, HANDOVER_EFFECTS_MAX_BYTES},
    record::{Record, RecordKind},
};

/// An effect of earlier runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierEffect {
    /// Its key.
    pub key: EffectKey,
    /// Its last attempt, from 1.
    pub attempt: u32,
    /// The run that announced that.
    pub run: Run,
    /// When.
    pub at: Timestamp,
    /// False where nothing in the world is changed.
    pub mutates: bool,
    /// How it stands.
    pub state: EarlierState,
    /// What is done about it where it is in doubt.
    pub recovery: EffectRecovery,
    /// What it returned, or its error, shortened. None: nothing, or it was erased.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<String>,
    /// True where the output was shortened.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub shortened: bool,
}

/// How an effect of earlier runs stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlierState {
    /// It was done; asking for it reads it back.
    Done,
    /// It took effect, and its answer is unusable; it is not performed again.
    Landed,
    /// It failed and did not happen; asking for it performs it.
    DidNotHappen,
    /// Nobody knows whether it happened; asking for it settles it by its recovery.
    InDoubt,
    /// Nobody knows whether it happened, and only a person can say.
    Undecided,
}

/// What is kept of a job's effects while its journal is read.
#[derive(Debug, Clone, Default)]
pub(super) struct EffectsKept {
    by_key: BTreeMap<EffectKey, (Seq, EarlierEffect)>,
}

impl EffectsKept {
    /// Takes a record with what lies beside it; one that is about no effect says nothing here.
    pub(super) fn keep(&mut self, record: &Record, value: Option<&[u8]>) {
        if let RecordKind::EffectStarted { key, attempt, recovery, mutates, .. } = &record.kind {
            let effect = EarlierEffect {
                key: key.clone(),
                attempt: *attempt,
                run: record.run,
                at: record.at,
                mutates: *mutates,
                state: state_of(Outcome::Open, *recovery),
                recovery: *recovery,
                output: None,
                shortened: false,
            };
            self.by_key.insert(key.clone(), (record.seq, effect));
        } else if let Some(EffectMark { key, act, .. }) = record.kind.effect_mark(None)
            && let Some(outcome) = act.outcome()
            && let Some((_, effect)) = self.by_key.get_mut(&key)
        {
            effect.state = state_of(outcome, effect.recovery);
            (effect.output, effect.shortened) = value.map_or((None, false), shorten);
        }
    }

    /// The effects in the order of their announcements, as many of the latest as fit, and how many were left out.
    pub(super) fn into_told(self) -> (Vec<EarlierEffect>, usize) {
        let mut all: Vec<(Seq, EarlierEffect)> = self.by_key.into_values().collect();
        all.sort_by_key(|(announced, _)| *announced);
        let mut bytes = 0;
        let fit = all.iter().rev().take_while(|(_, effect)| {
            // An effect is text and numbers, and writing those cannot fail.
            bytes += serde_json::to_vec(effect).map_or(0, |json| json.len());
            bytes <= HANDOVER_EFFECTS_MAX_BYTES
        });
        let left_out = all.len() - fit.count();
        (all.into_iter().skip(left_out).map(|(_, effect)| effect).collect(), left_out)
    }
}

/// As an announcement will be answered.
const fn state_of(outcome: Outcome, recovery: EffectRecovery) -> EarlierState {
    match answer_after(1, outcome, recovery) {
        Announcement::Done => EarlierState::Done,
        Announcement::FailedForGood => EarlierState::Landed,
        Announcement::Announce { .. } => EarlierState::DidNotHappen,
        Announcement::PerformAgain { .. } | Announcement::Probe { .. } => EarlierState::InDoubt,
        Announcement::Undecided => EarlierState::Undecided,
    }
}

/// The first bytes of an output, as text.
fn shorten(value: &[u8]) -> (Option<String>, bool) {
    let kept = &value[..value.len().min(HANDOVER_EFFECT_OUTPUT_MAX_BYTES)];
    let mut text = String::from_utf8_lossy(kept).into_owned();
    // A letter that was cut through is no letter.
    if kept.len() < value.len() && text.ends_with('\u{fffd}') {
        text.pop();
    }
    (Some(text), kept.len() < value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_shortened_at_a_letter() {
        let long = "ü".repeat(HANDOVER_EFFECT_OUTPUT_MAX_BYTES);
        let (text, shortened) = shorten(&long.as_bytes()[1..]);
        assert_eq!((text.unwrap().ends_with('ü'), shortened), (true, true));
        assert_eq!(shorten(b"v1.2"), (Some("v1.2".to_owned()), false));
    }
}
