//! Effects of a run: announced before they are performed, recorded after, read back instead of performed twice, and settled
//! as they were declared.

use serde_json::json;
use tenure_core::reason::Reason;
use tenure_proto::v1::{
    AnnounceEffect, AppendRefused, Applied, Effect, EffectDisposition, EffectRecovery, EffectState, Fenced,
    Notice, appended::Outcome,
};

use crate::{
    agent::{run_ref, script},
    coordinator::{Book, Got, Reports},
    effect_call::{Call, count_appends, effect, recorded, wait_for_records},
    fixture::{Fixture, start_sleeper, wait_for_append, wait_for_end, wait_for_file},
};

/// A coordinator that answers no report by itself.
fn silent(book: &Book) {
    book.set_reports(Reports::Silent);
}

/// A run whose job had an earlier one.
async fn start_second_run(fixture: &Fixture, handover: serde_json::Value, rest: &str) -> String {
    let socket = fixture.path("socket");
    let numbers = fixture.book.wait_for_stream(1).await;
    let text = format!("echo \"$TENURE_SOCKET\" > {}; {rest}", socket.display());
    let mut grant = crate::agent::grant(1, numbers, script(&text, json!({})));
    grant.run.as_mut().unwrap().run = 2;
    grant.handover = serde_json::to_vec(&handover).unwrap().into();
    fixture.send_grant(grant).await;
    wait_for_file(&socket).await.trim().to_owned()
}

#[tokio::test]
async fn an_effect_is_performed_once_its_announcement_is_durable_and_not_before() {
    let fixture = Fixture::start_with(silent, |_| {}).await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let mut call = Call::announce(&socket, effect("push/1", EffectRecovery::Ask)).await;
    assert_eq!(wait_for_records(&fixture.book, 1).await, ["push/1 1 started"]);
    let told = tokio::spawn(async move {
        let now = call.wait_to_perform().await;
        (call, now)
    });
    assert!(!told.is_finished(), "nobody has said that it is durable");
    fixture.book.answer(&run_ref(1), 1, Outcome::Applied(Applied { seq: 4 })).await;
    let (mut call, now) = told.await.unwrap();
    assert_eq!((now.attempt, now.idempotency_key.as_str()), (1, &*format!("{}/push/1", run_ref(1).job_id)));
    call.say_ended(0, "pushed").await;
    assert_eq!(wait_for_records(&fixture.book, 2).await, ["push/1 1 done pushed"]);
    fixture.book.answer(&run_ref(1), 2, Outcome::Applied(Applied { seq: 5 })).await;
    let done = call.wait_until_done().await;
    assert_eq!((&*done.output, done.read_back), (&b"pushed"[..], false));
    assert!(!fixture.book.got().iter().any(|got| matches!(got, Got::LookUp(_))), "nothing was there before");
}

/// Provokes `EFFECT_MISMATCH`.
#[tokio::test]
async fn what_an_earlier_run_did_is_read_back_and_written_nowhere() {
    let fixture = Fixture::start().await;
    fixture.book.set_failing_look_ups(1);
    let done = Effect {
        state: EffectState::Done.into(),
        value: Some("pushed".into()),
        ..recorded("push", EffectRecovery::Ask)
    };
    fixture.book.set_effect(done);
    let socket = start_second_run(&fixture, json!({}), "sleep 600").await;
    let mut call = Call::announce(&socket, effect("push", EffectRecovery::Ask)).await;
    let done = call.wait_until_done().await;
    assert_eq!((&*done.output, done.attempt, done.read_back), (&b"pushed"[..], 1, true));
    assert_eq!(count_appends(&fixture.book), 0);
    for got in fixture.book.got() {
        let Got::LookUp(asked) = got else { continue };
        assert_eq!((asked.key.as_str(), &*asked.secret), ("push", &[9; 32][..]), "the run proves itself");
    }
    let other = AnnounceEffect { command: vec!["pull".to_owned()], ..effect("push", EffectRecovery::Ask) };
    let mut call = Call::announce(&socket, other.clone()).await;
    let told = call.try_next().await.unwrap();
    assert!(told.warning.contains("another command"), "{told:?}");
    let mut bound = Call::announce(&socket, AnnounceEffect { bind: true, ..other }).await;
    assert_eq!(bound.wait_until_refused().await, Reason::EffectMismatch);
}

#[tokio::test]
async fn a_second_caller_waits_and_gets_the_answer_of_the_first() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let mut first = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    first.wait_to_perform().await;
    let mut second = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    // Another key is nobody's to wait for; when it is answered the second call was taken too.
    let mut other = Call::announce(&socket, effect("other", EffectRecovery::Ask)).await;
    other.wait_to_perform().await;
    first.say_ended(0, "once").await;
    assert_eq!(&*first.wait_until_done().await.output, b"once");
    let read = second.wait_until_done().await;
    assert_eq!((&*read.output, read.read_back), (&b"once"[..], true));
    assert_eq!(count_appends(&fixture.book), 3, "two announcements and one outcome");
}

#[tokio::test]
async fn what_is_safe_to_repeat_is_performed_again_under_one_announcement_and_stays_open() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Idempotent)).await;
    for _ in 0..3 {
        assert_eq!(call.wait_to_perform().await.attempt, 1);
        call.say_ended(7, "").await;
    }
    let failed = call.wait_until_failed().await;
    assert_eq!((failed.disposition(), failed.exit_code), (EffectDisposition::InDoubt, Some(7)));
    assert_eq!(count_appends(&fixture.book), 1, "the announcement is the last record");
}

#[tokio::test]
async fn what_did_not_happen_is_announced_as_the_next_attempt() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let read = AnnounceEffect { read_only: true, recovery: 0, ..effect("k", EffectRecovery::Retry) };
    let mut call = Call::announce(&socket, read).await;
    assert_eq!(call.wait_to_perform().await.attempt, 1);
    call.say_ended(1, "").await;
    assert_eq!(call.wait_to_perform().await.attempt, 2);
    call.say_ended(0, "read").await;
    assert_eq!(call.wait_until_done().await.attempt, 2);
    let mut records = Vec::new();
    for count in 1..=4 {
        records.extend(wait_for_records(&fixture.book, count).await);
    }
    assert_eq!(records, ["k 1 started", "k 1 failed did_not_happen", "k 2 started", "k 2 done read"]);
}

#[tokio::test]
async fn what_only_a_person_decides_is_recorded_as_in_doubt_at_once() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    call.wait_to_perform().await;
    call.say_ended(3, "").await;
    assert_eq!(call.wait_until_failed().await.disposition(), EffectDisposition::InDoubt);
    assert_eq!(wait_for_records(&fixture.book, 2).await, ["k 1 failed in_doubt"]);
}

#[tokio::test]
async fn a_failure_that_took_effect_is_recorded_and_never_performed_again() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let landed = EffectDisposition::Landed;
    let given = AnnounceEffect { on_failure: landed.into(), ..effect("k", EffectRecovery::Idempotent) };
    let mut call = Call::announce(&socket, given).await;
    call.wait_to_perform().await;
    call.say_ended(3, "").await;
    assert_eq!(call.wait_until_failed().await.disposition(), landed);
    assert_eq!(wait_for_records(&fixture.book, 2).await, ["k 1 failed landed"]);
}

#[tokio::test]
async fn a_probe_that_finds_nothing_is_recorded_together_with_the_next_announcement() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Probe)).await;
    call.wait_to_perform().await;
    call.say_ended(1, "").await;
    call.wait_to_probe().await;
    call.say_probed(EffectDisposition::DidNotHappen, "").await;
    assert_eq!(call.wait_to_perform().await.attempt, 2);
    assert_eq!(wait_for_records(&fixture.book, 2).await, ["k 1 reconciled did_not_happen", "k 2 started"]);
    call.say_ended(1, "").await;
    call.wait_to_probe().await;
    call.say_probed(EffectDisposition::Landed, "found").await;
    assert_eq!(&*call.wait_until_done().await.output, b"found");
    assert_eq!(wait_for_records(&fixture.book, 3).await, ["k 2 reconciled landed found"]);
}

/// Provokes `EFFECT_IN_DOUBT`.
#[tokio::test]
async fn a_doubt_of_an_earlier_run_is_probed_before_anything_is_performed() {
    let fixture = Fixture::start().await;
    fixture.book.set_effect(recorded("k", EffectRecovery::Probe));
    let socket = start_second_run(&fixture, json!({}), "sleep 600").await;
    let mut without = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    assert_eq!(without.wait_until_refused().await, Reason::EffectInDoubt, "it brings no probe");
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Probe)).await;
    call.wait_to_probe().await;
    call.say_probed(EffectDisposition::InDoubt, "").await;
    assert_eq!(call.wait_until_refused().await, Reason::EffectInDoubt);
    assert_eq!(wait_for_records(&fixture.book, 1).await, ["k 1 reconciled in_doubt"]);
    let mut again = Call::announce(&socket, effect("k", EffectRecovery::Probe)).await;
    again.wait_to_probe().await;
    again.say_probed(EffectDisposition::DidNotHappen, "").await;
    assert_eq!(again.wait_to_perform().await.attempt, 2);
}

#[tokio::test]
async fn an_open_effect_of_an_earlier_run_is_performed_again_or_left_to_a_person() {
    let fixture = Fixture::start().await;
    fixture.book.set_effect(recorded("again", EffectRecovery::Idempotent));
    fixture.book.set_effect(recorded("ask", EffectRecovery::Ask));
    let socket = start_second_run(&fixture, json!({}), "sleep 600").await;
    let mut again = Call::announce(&socket, effect("again", EffectRecovery::Ask)).await;
    assert_eq!(again.wait_to_perform().await.attempt, 1);
    assert_eq!(count_appends(&fixture.book), 0, "its announcement is the last record");
    let mut ask = Call::announce(&socket, effect("ask", EffectRecovery::Idempotent)).await;
    assert_eq!(ask.wait_until_refused().await, Reason::EffectInDoubt, "the record decides");
}

#[tokio::test]
async fn another_command_under_an_open_announcement_is_refused_where_something_is_mutated() {
    let fixture = Fixture::start().await;
    let recoveries = [EffectRecovery::Idempotent, EffectRecovery::Retry, EffectRecovery::Probe];
    for recovery in recoveries {
        fixture.book.set_effect(recorded(&format!("{recovery:?}"), recovery));
    }
    let read = Effect { mutates: false, ..recorded("read", EffectRecovery::Retry) };
    fixture.book.set_effect(read);
    let socket = start_second_run(&fixture, json!({}), "sleep 600").await;
    let other =
        |key: &str, recovery| AnnounceEffect { command: vec!["pull".to_owned()], ..effect(key, recovery) };
    for recovery in recoveries {
        let mut call = Call::announce(&socket, other(&format!("{recovery:?}"), recovery)).await;
        assert_eq!(call.wait_until_refused().await, Reason::EffectMismatch, "{recovery:?}");
    }
    fixture.book.set_effect(recorded("ask", EffectRecovery::Ask));
    let mut ask = Call::announce(&socket, other("ask", EffectRecovery::Ask)).await;
    assert_eq!(ask.wait_until_refused().await, Reason::EffectInDoubt, "a person decides");
    assert_eq!(count_appends(&fixture.book), 0);
    let reading = AnnounceEffect { read_only: true, ..other("read", EffectRecovery::Retry) };
    let mut call = Call::announce(&socket, reading).await;
    assert_eq!(call.wait_to_perform().await.attempt, 2, "what changes nothing did not happen");
    let records = wait_for_records(&fixture.book, 1).await;
    assert_eq!(records, ["read 1 reconciled did_not_happen", "read 2 started"]);
}

#[tokio::test]
async fn what_a_command_did_not_do_now_it_may_have_done_before_under_the_same_announcement() {
    let fixture = Fixture::start().await;
    fixture.book.set_effect(recorded("k", EffectRecovery::Idempotent));
    let socket = start_second_run(&fixture, json!({}), "sleep 600").await;
    let given = AnnounceEffect {
        on_failure: EffectDisposition::DidNotHappen.into(),
        ..effect("k", EffectRecovery::Idempotent)
    };
    let mut call = Call::announce(&socket, given).await;
    for _ in 0..3 {
        call.wait_to_perform().await;
        call.say_ended(1, "").await;
    }
    assert_eq!(call.wait_until_failed().await.disposition(), EffectDisposition::InDoubt);
    assert_eq!(count_appends(&fixture.book), 0, "its announcement stays open");
}

#[tokio::test]
async fn a_call_that_breaks_off_has_its_command_ended_before_the_effect_is_in_doubt() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let mut sleeper = {
        use std::os::unix::process::CommandExt as _;
        std::process::Command::new("sleep").arg("600").process_group(0).spawn().unwrap()
    };
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Idempotent)).await;
    call.wait_to_perform().await;
    call.say_started(sleeper.id().try_into().unwrap()).await;
    let mut second = Call::announce(&socket, effect("k", EffectRecovery::Idempotent)).await;
    fixture.book.set_effect(recorded("k", EffectRecovery::Idempotent));
    drop(call);
    assert_eq!(second.wait_to_perform().await.attempt, 1, "the next caller settles it");
    assert!(sleeper.try_wait().unwrap().is_some(), "it was performed by nobody when it was settled");
    assert_eq!(count_appends(&fixture.book), 1);
}

#[tokio::test]
async fn what_a_failed_command_left_behind_is_ended_before_anything_follows() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    for recovery in [EffectRecovery::Idempotent, EffectRecovery::Probe, EffectRecovery::Ask] {
        let key = format!("{recovery:?}");
        let mut call = Call::announce(&socket, effect(&key, recovery)).await;
        call.wait_to_perform().await;
        let job = run_ref(1).job_id;
        // It left the command's group, and nobody but its environment tells whose it is.
        let mut left = std::process::Command::new("sleep")
            .arg("600")
            .env("TENURE_SOCKET", &socket)
            .env("TENURE_IDEMPOTENCY_KEY", format!("{job}/{key}"))
            .spawn()
            .unwrap();
        call.say_ended(1, "").await;
        call.next().await;
        assert!(left.try_wait().unwrap().is_some(), "{key}: it runs beside what follows");
    }
}

#[tokio::test]
async fn what_a_command_that_succeeded_left_behind_goes_on() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    call.wait_to_perform().await;
    let mut left = {
        use std::os::unix::process::CommandExt as _;
        std::process::Command::new("sleep").arg("600").process_group(0).spawn().unwrap()
    };
    call.say_started(left.id().try_into().unwrap()).await;
    call.say_ended(0, "").await;
    call.wait_until_done().await;
    assert!(left.try_wait().unwrap().is_none(), "it was meant to stay");
    left.kill().unwrap();
    left.wait().unwrap();
}

#[tokio::test]
async fn an_effect_whose_caller_leaves_before_it_is_permitted_did_not_happen() {
    let fixture = Fixture::start_with(silent, |_| {}).await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    wait_for_append(&fixture.book, &run_ref(1), 1).await;
    drop(call);
    assert_eq!(wait_for_records(&fixture.book, 2).await, ["k 1 failed did_not_happen"]);
}

/// Provokes `CANCEL_REQUESTED`.
#[tokio::test]
async fn a_cancel_that_stands_is_answered_first_and_nothing_is_performed() {
    let fixture = Fixture::start_with(silent, |_| {}).await;
    let socket = start_sleeper(&fixture, json!({"stop-grace": "60s"})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    let append = wait_for_append(&fixture.book, &run_ref(1), 1).await;
    let notice = Notice { seq: 9, kind: "cancel_requested".to_owned() };
    fixture.book.answer(&run_ref(1), append.n, Outcome::Notice(notice)).await;
    assert_eq!(call.wait_until_refused().await, Reason::CancelRequested);
}

#[tokio::test]
async fn a_permission_that_comes_with_a_fence_is_none() {
    let fixture = Fixture::start_with(silent, |_| {}).await;
    let socket = start_sleeper(&fixture, json!({"stop-grace": "60s"})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    let append = wait_for_append(&fixture.book, &run_ref(1), 1).await;
    let fenced = Fenced { held_by: "w2".to_owned(), epoch: 4, applied_seq: 4 };
    fixture.book.answer(&run_ref(1), append.n, Outcome::Fenced(fenced)).await;
    assert_eq!(call.wait_until_refused().await, Reason::Fenced);
    let said = wait_for_records(&fixture.book, 2).await;
    assert_eq!(said, ["k 1 failed did_not_happen"], "the announcement stands, and nobody acted on it");
}

#[tokio::test]
async fn a_lease_that_one_renewal_leaves_too_short_is_not_waited_for_again() {
    let ttl = std::time::Duration::from_secs(5);
    let fixture = Fixture::start_with(|book| book.set_ttl(ttl), |_| {}).await;
    let socket = start_sleeper(&fixture, json!({})).await;
    // All that a renewal can leave, less so little that no answer of a renewal is as quick.
    let most = ttl - tenure_core::term::margin(ttl) * 2 - std::time::Duration::from_micros(1);
    let min_lease = Some(tenure_proto::convert::time::write_duration(most));
    let mut call =
        Call::announce(&socket, AnnounceEffect { min_lease, ..effect("k", EffectRecovery::Ask) }).await;
    assert_eq!(call.wait_until_refused().await, Reason::LeaseTooShort);
    assert_eq!(count_appends(&fixture.book), 0);
}

#[tokio::test]
async fn an_announcement_that_the_journal_does_not_admit_is_refused_with_its_code() {
    let fixture = Fixture::start_with(silent, |_| {}).await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    let append = wait_for_append(&fixture.book, &run_ref(1), 1).await;
    let refused = AppendRefused { code: "EFFECT_REFUSED".to_owned(), message: "no".to_owned() };
    fixture.book.answer(&run_ref(1), append.n, Outcome::Refused(refused)).await;
    assert_eq!(call.wait_until_refused().await, Reason::EffectRefused);
}

/// Provokes `LEASE_TOO_SHORT`.
#[tokio::test]
async fn a_lease_that_can_never_be_long_enough_is_refused_without_an_announcement() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let min_lease = Some(prost_types::Duration { seconds: 30, nanos: 0 });
    let mut call =
        Call::announce(&socket, AnnounceEffect { min_lease, ..effect("k", EffectRecovery::Ask) }).await;
    assert_eq!(call.wait_until_refused().await, Reason::LeaseTooShort);
    assert_eq!(count_appends(&fixture.book), 0);
}

#[tokio::test]
async fn an_outcome_is_sent_again_until_it_is_durable() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    call.wait_to_perform().await;
    fixture.book.set_reports(Reports::Silent);
    call.say_ended(0, "out").await;
    let first = wait_for_append(&fixture.book, &run_ref(1), 2).await;
    fixture.book.break_streams().await;
    fixture.book.set_reports(Reports::Apply);
    assert_eq!(&*call.wait_until_done().await.output, b"out");
    let again = wait_for_append(&fixture.book, &run_ref(1), 3).await;
    assert_eq!((again.n, &again.records), (first.n, &first.records));
}

#[tokio::test]
async fn secrets_do_not_get_into_the_record_of_an_effect() {
    let fixture = Fixture::start().await;
    // PATH is a variable that every worker has.
    let secret = std::env::var("PATH").unwrap();
    let socket = start_sleeper(&fixture, json!({"secrets": ["PATH"]})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    call.wait_to_perform().await;
    call.say_ended(0, &format!("found {secret}!")).await;
    assert_eq!(&*call.wait_until_done().await.output, b"found [redacted:PATH]!");
    assert_eq!(wait_for_records(&fixture.book, 2).await, ["k 1 done found [redacted:PATH]!"]);
}

#[tokio::test]
async fn an_effect_under_way_is_a_sign_of_life() {
    let fixture = Fixture::start().await;
    let socket = start_sleeper(&fixture, json!({"idle-timeout": "1s"})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    call.wait_to_perform().await;
    let begun = std::time::Instant::now();
    crate::fixture::wait_until("twice the idle timeout to pass", || {
        (begun.elapsed().as_secs() >= 2).then_some(())
    })
    .await;
    call.say_ended(0, "").await;
    call.wait_until_done().await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(
        matches!(end.end.unwrap().how, Some(tenure_proto::v1::run_end::How::IdleTimeout(_))),
        "then silence"
    );
}

#[tokio::test]
async fn a_run_that_succeeds_names_the_keys_of_earlier_runs_that_it_never_asked_for() {
    let fixture = Fixture::start().await;
    fixture
        .book
        .set_effect(Effect { state: EffectState::Done.into(), ..recorded("asked", EffectRecovery::Ask) });
    let go_on = fixture.path("go-on");
    let rest = format!("while [ ! -e {} ]; do sleep 0.02; done", go_on.display());
    let handover = json!({"effects": [{"key": "asked"}, {"key": "dated/2026-11-30"}]});
    let socket = start_second_run(&fixture, handover, &rest).await;
    Call::announce(&socket, effect("asked", EffectRecovery::Ask)).await.wait_until_done().await;
    std::fs::write(&go_on, "").unwrap();
    let mut run = run_ref(1);
    run.run = 2;
    let end = wait_for_end(&fixture.book, &run, 1).await;
    assert_eq!((end.unasked_keys, end.unasked_count), (vec!["dated/2026-11-30".to_owned()], 1));
}
