//! The golden stories: what a person is told, word for word.

use super::*;
use crate::{
    effect::EffectRecovery,
    factory::{
        Journal, admitted, crashed, effect_ended, effect_started, job_id, note, person, run_started, second,
        steered, worker,
    },
    handover::Cause,
    id::{Epoch, Run, Seq},
    record::Draft,
    recovery::Interruption,
};

fn read(journal: &Journal) -> Story {
    let mut story = Story::default();
    for sealed in &journal.records {
        let record: Record = serde_json::from_slice(&sealed.bytes).unwrap();
        story.take_record(&record, sealed.value.as_ref().map(|beside| &beside.value[..]));
    }
    story
}

fn present(state: State) -> Present {
    Present {
        job: job_id(),
        state,
        since: second(20),
        detail: String::new(),
        run: Run(2),
        held: None,
        deadline_at: Some(second(3_600)),
        not_before: None,
        waiting_for: None,
        asked: None,
        unwinding_to: None,
        commands: vec!["tenure watch …9f3c21".to_owned(), "tenure cancel …9f3c21 --why W".to_owned()],
        now: second(60),
    }
}

fn held(live: bool) -> Option<Held> {
    Some(Held { worker: worker(), epoch: Epoch(3), live })
}

/// A run that crashed, one that was redirected, and one that was moved.
fn eventful() -> Journal {
    let restart = |attempt, pays| Some(Restart { attempt, pays, not_before: None });
    let interrupted = RecordKind::RunInterrupted {
        of_epoch: Epoch(1),
        interruption: crashed(3),
        restart: Some(Restart { attempt: 2, pays: Pays::Attempt, not_before: Some(second(9)) }),
    };
    let handed_over = |of_epoch, because, pays| {
        Draft::bare(RecordKind::RunHandedOver {
            of_epoch: Epoch(of_epoch),
            because,
            restart: restart(2, pays),
        })
    };
    Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch), note("read the diff"), note("wrote\nthe notes")])
        .write(1, 1, vec![effect_started("git/push", EffectRecovery::Probe)])
        .write(1, 1, vec![effect_ended("git/push", crate::effect::Outcome::Done), Draft::bare(interrupted)])
        .write(
            2,
            2,
            vec![run_started(Cause::Recovered { previous: Run(1), interruption: crashed(3), attempt: 2 })],
        )
        .write(2, 2, vec![steered("use the release branch"), handed_over(2, HandOver::Steered, Pays::Hop)])
        .write(
            3,
            3,
            vec![run_started(Cause::Steered { previous: Some(Run(2)), steered: Seq(10), attempt: 2 })],
        )
        .write(3, 3, vec![handed_over(3, HandOver::Drained, Pays::Run)])
        .write(4, 4, vec![run_started(Cause::Drained { previous: Run(3), attempt: 2 })])
}

#[test]
fn a_running_job_is_told_run_by_run_with_who_holds_it_and_what_comes_next() {
    let present = Present { held: held(true), run: Run(4), ..present(State::Running) };
    insta::assert_snapshot!(read(&eventful()).tell(&present));
}

#[test]
fn a_job_whose_child_may_live_says_what_is_waited_for_and_whom_it_needs() {
    let lost = RecordKind::RunInterrupted {
        of_epoch: Epoch(1),
        interruption: Interruption::LostContact,
        restart: None,
    };
    let denied = RecordKind::RecoveryDenied { denial: crate::recovery::Denial::ChildUnaccountedFor };
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch), effect_started("mail/1", EffectRecovery::Ask)])
        .write(2, 1, vec![Draft::bare(lost), Draft::bare(denied)]);
    let present = Present {
        held: held(false),
        detail: "sight of the process was lost".to_owned(),
        commands: vec!["tenure confirm-gone …9f3c21 --epoch 1 --why W".to_owned()],
        ..present(State::Interrupted)
    };
    insta::assert_snapshot!(read(&journal).tell(&present));
}

#[test]
fn a_job_that_is_over_says_how_it_ended_and_that_nothing_comes_next() {
    let cancelled = RecordKind::CancelRequested { by: person(), why: "not needed".to_owned() };
    let concluded = RecordKind::JobConcluded {
        outcome: State::Cancelled,
        reason: None,
        result: None,
        output_chunks: None,
    };
    let journal = Journal::of(job_id()).write(0, 0, admitted("v1.2.0")).write(
        0,
        0,
        vec![Draft::bare(cancelled), Draft::bare(concluded)],
    );
    insta::assert_snapshot!(read(&journal).tell(&present(State::Cancelled)));
}

#[test]
fn what_is_waited_for_and_what_comes_next_is_told_of_every_state() {
    let mut told = String::new();
    for state in State::ALL {
        let present = present(*state);
        told.push_str(&format!(
            "{state}\n    {}\n    {}\n",
            present.tell_next(),
            present.tell_needs().lines().next().unwrap()
        ));
    }
    let asked = Present { asked: Some("steer"), held: held(true), ..present(State::Running) };
    told.push_str(&format!("running, asked\n    {}\n", asked.tell_next()));
    let halted = Present { waiting_for: Some("the lift of halt 3".to_owned()), ..present(State::Ready) };
    told.push_str(&format!("ready, halted\n    {}\n", halted.tell_next()));
    insta::assert_snapshot!(told);
}

#[test]
fn a_text_of_somebody_elses_is_shortened_and_shown_in_one_line() {
    assert_eq!(quote("a\nb\u{1b}c"), "“a bc”");
    assert!(quote(&"ü".repeat(200)).ends_with("ü …”"));
    assert_eq!(quote_value(None), "(erased)");
}
