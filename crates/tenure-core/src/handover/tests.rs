//! What a handover holds, and the JSON that programs read.

use super::*;
use crate::{
    deadline::Deadline,
    effect::{Disposition, EffectRecovery, Outcome},
    factory::{
        Journal, admitted, effect_attempt_ended, effect_attempted, effect_ended, effect_started, job_id,
        note, run_started, second, start, steered,
    },
    id::Seq,
    limits::{HANDOVER_EFFECTS_MAX_BYTES, HANDOVER_NOTES_MAX_BYTES, NOTE_MAX_BYTES},
    record::KeptValue,
};

fn compose(journal: &Journal, up_to: u64, deadline: &Deadline) -> Option<Handover> {
    let mut history = History::up_to(Seq(up_to));
    for record in &journal.records {
        let value = record.value.as_ref().map(|value| value.value.clone());
        history.take_record(serde_json::from_slice(&record.bytes).unwrap(), value);
    }
    history.compose_handover(second(480), deadline)
}

fn recovered() -> Cause {
    Cause::Recovered { previous: Run(1), interruption: Interruption::WorkerLost, attempt: 2 }
}

fn interrupted_once() -> Journal {
    Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch), note("read the diff"), note("wrote \"notes\"")])
        .write(3, 2, vec![run_started(recovered()), note("of the run itself")])
}

#[test]
fn the_json_has_the_documented_shape() {
    let deadline = Deadline::new(start(), Some(second(3_600)));
    let handover = compose(&interrupted_once(), 6, &deadline).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&handover.to_json().unwrap()).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap());
}

#[test]
fn an_input_that_is_no_text_is_flagged_as_base64() {
    let deadline = Deadline::new(start(), None);
    let handover =
        Handover::for_dispatch(job_id(), Run(1), KeptValue::Beside(vec![0xff, 0x00]), &deadline, start());
    let json: serde_json::Value = serde_json::from_slice(&handover.to_json().unwrap()).unwrap();
    assert_eq!(json["input"], serde_json::json!({"encoding": "base64", "value": "/wA="}));
    assert_eq!((&json["deadline"], &json["attempt"]), (&serde_json::Value::Null, &1.into()));
}

#[test]
fn what_comes_after_the_start_of_the_run_is_left_out() {
    let handover = compose(&interrupted_once(), 6, &Deadline::new(start(), None)).unwrap();
    let texts: Vec<_> = handover.notes.iter().filter_map(|note| note.text.as_deref()).collect();
    assert_eq!(texts, ["read the diff", "wrote \"notes\""]);
    assert_eq!((handover.run, handover.cause), (Run(2), recovered()));
}

#[test]
fn a_dispatch_composed_from_the_journal_equals_the_one_made_without_it() {
    let deadline = Deadline::new(start(), Some(second(3_600)));
    let composed = compose(&interrupted_once(), 3, &deadline);
    let made = Handover::for_dispatch(
        job_id(),
        Run(1),
        KeptValue::Beside(b"v1.2.0".to_vec()),
        &deadline,
        second(480),
    );
    assert_eq!(composed, Some(made));
}

#[test]
fn a_record_that_starts_no_run_gives_no_handover() {
    for up_to in [1, 4, 99] {
        assert_eq!(compose(&interrupted_once(), up_to, &Deadline::new(start(), None)), None);
    }
}

#[test]
fn too_many_notes_lose_the_oldest_and_say_how_many() {
    let long = "x".repeat(HANDOVER_NOTES_MAX_BYTES / 64);
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch), note("the first"), note("the second")])
        .write(1, 1, (0..64).map(|_| note(&long)).collect())
        .write(3, 2, vec![run_started(recovered())]);
    let handover = compose(&journal, journal.head().seq.0, &Deadline::new(start(), None)).unwrap();
    assert_eq!((handover.notes.len(), handover.notes_left_out), (63, 3));
    assert!(crate::brief::brief(&handover).contains("- (3 older notes are left out)"));
}

#[test]
fn notes_count_as_what_they_become_in_the_handover() {
    // Each of these is six times as long there, and an empty one is not for nothing.
    for text in ["\u{1}".repeat(NOTE_MAX_BYTES), String::new()] {
        let count = HANDOVER_NOTES_MAX_BYTES / 40;
        let notes = if text.is_empty() { count } else { 64 };
        let journal = Journal::of(job_id())
            .write(0, 0, admitted("v1.2.0"))
            .write(1, 1, vec![run_started(Cause::Dispatch)])
            .write(1, 1, (0..notes).map(|_| note(&text)).collect())
            .write(3, 2, vec![run_started(recovered())]);
        let deadline = Deadline::new(start(), None);
        let handover = compose(&journal, journal.head().seq.0, &deadline).unwrap();
        assert_eq!(handover.notes.len() + handover.notes_left_out, notes);
        let without = Handover { notes: Vec::new(), ..handover.clone() };
        let written = |handover: &Handover| handover.to_json().unwrap().len();
        let taken = written(&handover) - written(&without);
        // Between two notes there is a comma.
        let most = HANDOVER_NOTES_MAX_BYTES + handover.notes.len();
        assert!((HANDOVER_NOTES_MAX_BYTES * 9 / 10..=most).contains(&taken), "{taken}");
    }
}

#[test]
fn erased_values_are_told_as_erased() {
    let mut journal = interrupted_once();
    for record in &mut journal.records {
        record.value = None;
    }
    let handover = compose(&journal, 6, &Deadline::new(start(), None)).unwrap();
    assert_eq!((&handover.input, handover.notes[0].text.as_ref()), (&KeptValue::Erased, None));
    assert!(crate::brief::brief(&handover).contains("- run 1: (this note was erased)"));
}

#[test]
fn the_last_attempt_of_each_effect_is_told_with_its_output_shortened() {
    let again = vec![
        effect_started("push", EffectRecovery::Ask),
        effect_ended("push", Outcome::Failed(Disposition::DidNotHappen)),
        effect_attempted("push", EffectRecovery::Ask, 2),
        effect_attempt_ended("push", 2, Outcome::Done),
        effect_started("pull", EffectRecovery::Probe),
    ];
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch)])
        .write(1, 1, again)
        .write(3, 2, vec![run_started(recovered()), effect_ended("pull", Outcome::Done)]);
    let handover = compose(&journal, 9, &Deadline::new(start(), None)).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&handover.to_json().unwrap()).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&json["effects"]).unwrap());
}

#[test]
fn too_many_effects_lose_the_oldest_and_say_how_many() {
    let long = "x".repeat(500);
    let effects: Vec<_> =
        (0..600).map(|no| effect_started(&format!("{no:04}/{long}"), EffectRecovery::Ask)).collect();
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch)])
        .write(1, 1, effects)
        .write(3, 2, vec![run_started(recovered())]);
    let handover = compose(&journal, journal.head().seq.0, &Deadline::new(start(), None)).unwrap();
    assert_eq!(handover.effects.len() + handover.effects_left_out, 600);
    assert!(
        handover.effects_left_out > 0 && handover.effects.last().unwrap().key.as_str().starts_with("0599")
    );
    let left_out = format!("- ({} older effects are left out)", handover.effects_left_out);
    assert!(crate::brief::brief(&handover).contains(&left_out));
    let without = Handover { effects: Vec::new(), ..handover.clone() };
    let taken = handover.to_json().unwrap().len() - without.to_json().unwrap().len();
    assert!(taken <= HANDOVER_EFFECTS_MAX_BYTES + 600, "{taken}");
}

#[test]
fn the_latest_gifts_are_told_and_older_ones_are_counted() {
    let given = |no: usize| {
        let key = Some(no.to_string());
        let (child, session) = (job_id(), crate::id::SessionId(job_id().0));
        let agent = "reviewer".parse().unwrap();
        crate::record::Draft::bare(crate::record::RecordKind::Sent(crate::sending::Given {
            child,
            session,
            agent,
            key,
        }))
    };
    let most = crate::limits::HANDOVER_GIFTS_MAX;
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch)])
        .write(1, 1, (0..most + 3).map(given).collect())
        .write(3, 2, vec![run_started(recovered()), given(0)]);
    let handover =
        compose(&journal, u64::try_from(most).unwrap() + 7, &Deadline::new(start(), None)).unwrap();
    assert_eq!((handover.gifts.len(), handover.gifts_left_out), (most, 3));
    let json: serde_json::Value = serde_json::from_slice(&handover.to_json().unwrap()).unwrap();
    assert_eq!((&json["gifts"][0]["key"], &json["gifts_left_out"]), (&"3".into(), &3.into()));
}

#[test]
fn the_json_of_a_redirected_run_says_the_note_when_it_was_left_and_by_whom() {
    let cause = Cause::Steered { previous: Some(Run(1)), steered: Seq(4), attempt: 1 };
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch), steered("use the release branch")])
        .write(3, 2, vec![run_started(cause)]);
    let deadline = Deadline::new(start(), Some(second(3_600)));
    let handover = compose(&journal, journal.head().seq.0, &deadline).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&handover.to_json().unwrap()).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap());
}
