//! The golden briefs: what a run is told, word for word.

use super::*;
use crate::{
    deadline::Deadline,
    effect::{Disposition, EffectRecovery, Outcome},
    factory::{
        Journal, admitted, crashed, effect_ended, effect_started, job_id, note, run_started, second, start,
        steered,
    },
    handover::History,
    id::{Seq, SessionId},
    job::State,
    record::{Draft, RecordKind},
    wait::AwaitedOutcome,
};

fn read(journal: &Journal, up_to: Seq) -> History {
    let mut history = History::up_to(up_to);
    for record in &journal.records {
        let value = record.value.as_ref().map(|value| value.value.clone());
        history.take_record(serde_json::from_slice(&record.bytes).unwrap(), value);
    }
    history
}

fn recovered(previous: u32, interruption: Interruption, attempt: u32) -> Cause {
    Cause::Recovered { previous: Run(previous), interruption, attempt }
}

/// The handover of the last run of a journal that consists of an admission, one run with these notes, and its successor.
fn hand_over(notes: &[&str], cause: Cause) -> Handover {
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch)])
        .write(1, 1, notes.iter().map(|text| note(text)).collect())
        .write(3, 2, vec![run_started(cause)]);
    compose(&journal, journal.head().seq)
}

fn compose(journal: &Journal, up_to: Seq) -> Handover {
    let deadline = Deadline::new(start(), Some(second(3_600)));
    read(journal, up_to).compose_handover(second(480), &deadline).unwrap()
}

#[test]
fn a_first_run_is_told_nothing() {
    assert_eq!(brief(&hand_over(&["began"], Cause::Dispatch)), "");
}

fn woken(due: Option<i64>, jobs: u128) -> Cause {
    let name = "#1".parse().unwrap();
    let job = |number| crate::id::JobId(uuid::Uuid::from_u128(job_id().0.as_u128() + number));
    let told = |number| AwaitedOutcome {
        job: job(number),
        outcome: if number == 1 { State::Failed } else { State::Succeeded },
        reason: (number == 1).then(|| "execution".to_owned()),
    };
    let jobs_told = (1..=jobs.min(3)).map(told).collect();
    let count = u64::try_from(jobs).unwrap();
    let wait = WokenBy { name, due: due.map(second), jobs: jobs_told, count };
    Cause::Woken { previous: Run(1), wait, attempt: 1 }
}

#[test]
fn a_woken_run_is_told_what_came_and_nothing_that_sends_it_looking_for_damage() {
    let told = [
        brief(&hand_over(&[], woken(Some(300), 0))),
        brief(&hand_over(&["asked the release team"], woken(Some(300), 0))),
        brief(&hand_over(&[], woken(None, 2))),
        brief(&hand_over(&[], woken(None, 30))),
    ];
    for words in &told {
        assert!(!words.contains("check whether an earlier run already did it"), "{words}");
    }
    insta::assert_snapshot!(told.join("---\n"));
}

#[test]
fn a_run_that_picks_up_work_is_told_who_set_it_down_and_for_what() {
    let cause = |checks| Cause::Resumed {
        booked_by: SessionId(job_id().0),
        job: job_id(),
        waiting_for: "the review\nof the release notes ".to_owned(),
        booked_at: second(60),
        checks,
    };
    let told = [brief(&hand_over(&[], cause(0))), brief(&hand_over(&[], cause(u32::MAX)))];
    insta::assert_snapshot!(told.join("---\n"));
}

#[test]
fn a_booking_that_came_to_nothing_is_told_to_the_next_run() {
    let booked =
        Draft::bare(RecordKind::LayoverBooked { until: second(900), waiting_for: "the review".to_owned() });
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch), booked])
        .write(3, 2, vec![run_started(recovered(1, Interruption::WorkerLost, 2))]);
    insta::assert_snapshot!(brief(&compose(&journal, journal.head().seq)));
}

#[test]
fn a_recovered_run_without_notes_is_told_that_nothing_was_recorded() {
    insta::assert_snapshot!(brief(&hand_over(&[], recovered(1, Interruption::WorkerLost, 2))));
}

#[test]
fn a_recovered_run_is_told_every_note_as_a_bullet() {
    let notes = ["  read the diff of v1.2.0 \n", "wrote the notes:\n- fixes\n\n- features\n", "\n"];
    insta::assert_snapshot!(brief(&hand_over(&notes, recovered(1, Interruption::LostContact, 2))));
}

#[test]
fn every_interruption_has_its_sentence() {
    let kinds = [
        Interruption::WorkerLost,
        Interruption::LostContact,
        Interruption::TimedOut { idle: false, limit_ms: 900_000 },
        Interruption::TimedOut { idle: true, limit_ms: 1_500 },
        crashed(3),
        Interruption::Crashed { exit_code: None, signal: Some(11), not_started: None, error: None },
        Interruption::Crashed {
            exit_code: None,
            signal: None,
            not_started: Some("no notes".to_owned()),
            error: None,
        },
        Interruption::Crashed { exit_code: None, signal: None, not_started: None, error: None },
        Interruption::GroundStop,
    ];
    let mut told = String::new();
    for (attempt, kind) in (2..).zip(kinds) {
        let text = brief(&hand_over(&["pushed the branch"], recovered(attempt - 1, kind, attempt)));
        told.push_str(&text);
        told.push_str("\n---\n");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn repeated_handovers_tell_each_note_once_and_in_order() {
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch), note("one")])
        .write(3, 2, vec![run_started(recovered(1, Interruption::WorkerLost, 2)), note("two")])
        .write(5, 3, vec![run_started(recovered(2, crashed(1), 3)), note("three")]);
    let told = brief(&compose(&journal, Seq(7)));
    let bullets: Vec<_> = told.lines().filter(|line| line.starts_with("- ")).collect();
    assert_eq!(bullets, ["- run 1: one", "- run 2: two"]);
    assert!(told.contains("This is attempt 3."), "{told}");
}

/// A journal whose first run left an effect in each state.
fn journal_of_effects() -> Journal {
    let mut drafts = vec![run_started(Cause::Dispatch)];
    let failed = |disposition| Some(Outcome::Failed(disposition));
    for (name, recovery, outcome) in [
        ("git/push", EffectRecovery::Probe, Some(Outcome::Done)),
        ("mail/announce", EffectRecovery::Idempotent, None),
        ("git/tag", EffectRecovery::Probe, None),
        ("look", EffectRecovery::Retry, None),
        ("payment", EffectRecovery::Ask, failed(Disposition::InDoubt)),
        ("upload", EffectRecovery::Ask, failed(Disposition::DidNotHappen)),
        ("order", EffectRecovery::Ask, failed(Disposition::Landed)),
    ] {
        drafts.push(effect_started(name, recovery));
        drafts.extend(outcome.map(|outcome| effect_ended(name, outcome)));
    }
    Journal::of(job_id()).write(0, 0, admitted("v1.2.0")).write(1, 1, drafts).write(
        3,
        2,
        vec![run_started(recovered(1, Interruption::WorkerLost, 2))],
    )
}

#[test]
fn a_recovered_run_is_told_how_every_effect_stands_and_what_is_done_about_it() {
    let journal = journal_of_effects();
    insta::assert_snapshot!(brief(&compose(&journal, journal.head().seq)));
}

/// Work that a run gave to an agent, under a key where one is named.
fn given(key: Option<&str>) -> crate::sending::Given {
    crate::sending::Given {
        child: job_id(),
        session: crate::id::SessionId(job_id().0),
        agent: "reviewer".parse().unwrap(),
        key: key.map(str::to_owned),
    }
}

#[test]
fn a_recovered_run_is_told_what_was_given_to_other_agents() {
    use crate::record::{Draft, RecordKind};
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch), Draft::bare(RecordKind::Sent(given(None)))])
        .write(1, 1, vec![Draft::bare(RecordKind::Spawned(given(Some("audit/1"))))])
        .write(3, 2, vec![run_started(recovered(1, Interruption::WorkerLost, 2))]);
    insta::assert_snapshot!(brief(&compose(&journal, journal.head().seq)));
}

/// The handover of the last run of a journal of one run, with these notes and what persons redirected it with.
fn redirected(notes: &[&str], steers: &[&str], cause: Cause) -> Handover {
    let journal = Journal::of(job_id())
        .write(0, 0, admitted("v1.2.0"))
        .write(1, 1, vec![run_started(Cause::Dispatch)])
        .write(1, 1, notes.iter().map(|text| note(text)).collect())
        .write(1, 1, steers.iter().map(|text| steered(text)).collect())
        .write(3, 2, vec![run_started(cause)]);
    compose(&journal, journal.head().seq)
}

fn for_note() -> Cause {
    Cause::Steered { previous: Some(Run(1)), steered: Seq(4), attempt: 1 }
}

#[test]
fn a_redirected_run_is_told_the_note_as_a_quotation_on_every_one_of_its_lines() {
    let note = "  use the release branch\n\n# not main\n> and push nothing \n";
    insta::assert_snapshot!(brief(&redirected(&["read the diff"], &[note], for_note())));
}

#[test]
fn a_redirected_run_is_told_that_nothing_was_recorded_and_what_it_was_redirected_with_before() {
    insta::assert_snapshot!(brief(&redirected(&[], &["use the release branch", "and tag it"], for_note())));
}

#[test]
fn a_job_that_is_redirected_before_its_first_run_is_told_the_note_and_nothing_of_earlier_work() {
    let cause = Cause::Steered { previous: None, steered: Seq(3), attempt: 1 };
    let journal = Journal::of(job_id())
        .write(0, 0, [admitted("v1.2.0"), vec![steered("use the release branch")]].concat())
        .write(1, 1, vec![run_started(cause)]);
    insta::assert_snapshot!(brief(&compose(&journal, journal.head().seq)));
}

#[test]
fn a_moved_run_is_told_that_nothing_was_wrong_and_to_check() {
    let cause = Cause::Drained { previous: Run(1), attempt: 1 };
    insta::assert_snapshot!(brief(&redirected(&["read the diff"], &[], cause)));
}

#[test]
fn whoever_recovers_or_begins_a_redirected_job_is_told_the_note_too() {
    let mut told = String::new();
    for cause in [recovered(1, Interruption::WorkerLost, 2), Cause::Dispatch] {
        told.push_str(&brief(&redirected(&["read the diff"], &["use the release branch"], cause)));
        told.push_str("\n---\n");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_continued_run_is_told_why_a_person_had_it_go_on() {
    let by = crate::factory::person();
    let cause =
        Cause::Continued { previous: Run(1), by, why: "the bucket\nis there now".to_owned(), attempt: 2 };
    insta::assert_snapshot!(brief(&redirected(&["read the diff"], &[], cause)));
}
