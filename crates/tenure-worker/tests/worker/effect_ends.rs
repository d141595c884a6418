//! Effects of a run that was asked to end: nothing more is begun, and what was begun is heard to its outcome.

use serde_json::json;
use tenure_core::reason::Reason;
use tenure_proto::v1::{Applied, EffectDisposition, EffectRecovery, appended::Outcome};

use crate::{
    agent::{run_ref, script},
    coordinator::Reports,
    effect_call::{Call, count_appends, effect, recorded, wait_for_records},
    fixture::{Fixture, wait_for_append, wait_for_file},
};

/// A run that leaves a trace where it is asked to end, and goes on. Returns the path of its socket.
async fn start_deaf(fixture: &Fixture, keys: serde_json::Value) -> String {
    let (socket, asked) = (fixture.path("socket"), fixture.path("asked"));
    let text = format!(
        "trap 'echo yes > {}' TERM; echo \"$TENURE_SOCKET\" > {}; while :; do sleep 0.02 || :; done",
        asked.display(),
        socket.display()
    );
    fixture.grant(1, script(&text, keys)).await;
    wait_for_file(&socket).await.trim().to_owned()
}

/// Has the worker leave, which asks a run at once whose grace is that long.
async fn drain(fixture: &Fixture) {
    fixture.worker.begin_shutdown();
    wait_for_file(&fixture.path("asked")).await;
}

const LONG_GRACE: &str = "120s";

/// Provokes `RUN_OVER`.
#[tokio::test]
async fn a_run_that_was_asked_to_end_begins_no_effect_whatever_asked() {
    for limit in [json!({"timeout": "1s"}), json!({"idle-timeout": "1s"}), json!({})] {
        let fixture = Fixture::start().await;
        let mut keys = limit.clone();
        keys["stop-grace"] = LONG_GRACE.into();
        let socket = start_deaf(&fixture, keys).await;
        if limit == json!({}) {
            drain(&fixture).await;
        }
        wait_for_file(&fixture.path("asked")).await;
        let mut call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
        assert_eq!(call.wait_until_refused().await, Reason::RunOver, "{limit}");
        assert_eq!(count_appends(&fixture.book), 0, "{limit}");
        fixture.worker.begin_shutdown();
        fixture.worker.begin_shutdown();
    }
}

#[tokio::test]
async fn an_outcome_is_taken_after_the_ask_and_a_failure_is_not_tried_again() {
    let fixture = Fixture::start().await;
    let socket = start_deaf(&fixture, json!({"stop-grace": LONG_GRACE})).await;
    let mut done = Call::announce(&socket, effect("done", EffectRecovery::Ask)).await;
    done.wait_to_perform().await;
    let mut fails = Call::announce(&socket, effect("fails", EffectRecovery::Idempotent)).await;
    fails.wait_to_perform().await;
    drain(&fixture).await;
    done.say_ended(0, "out").await;
    assert_eq!(&*done.wait_until_done().await.output, b"out");
    fails.say_ended(1, "").await;
    assert_eq!(fails.wait_until_failed().await.disposition(), EffectDisposition::InDoubt);
    assert_eq!(count_appends(&fixture.book), 3, "the announcement of what failed stays open");
    fixture.worker.begin_shutdown();
}

#[tokio::test]
async fn an_effect_that_is_open_is_not_performed_again_after_the_ask() {
    let fixture = Fixture::start().await;
    fixture.book.set_effect(recorded("k", EffectRecovery::Idempotent));
    let socket = start_deaf(&fixture, json!({"stop-grace": LONG_GRACE})).await;
    // The run's first question needs no look-up, and this leaves its announcement open.
    let mut first = Call::announce(&socket, effect("k", EffectRecovery::Idempotent)).await;
    first.wait_to_perform().await;
    drop(first);
    drain(&fixture).await;
    let mut again = Call::announce(&socket, effect("k", EffectRecovery::Idempotent)).await;
    assert_eq!(again.wait_until_refused().await, Reason::RunOver);
    assert_eq!(count_appends(&fixture.book), 1);
    fixture.worker.begin_shutdown();
}

#[tokio::test]
async fn a_permission_that_arrives_after_the_ask_is_recorded_as_not_used() {
    let fixture = Fixture::start_with(|book| book.set_reports(Reports::Silent), |_| {}).await;
    let socket = start_deaf(&fixture, json!({"stop-grace": LONG_GRACE})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Ask)).await;
    let append = wait_for_append(&fixture.book, &run_ref(1), 1).await;
    drain(&fixture).await;
    fixture.book.set_reports(Reports::Apply);
    fixture.book.answer(&run_ref(1), append.n, Outcome::Applied(Applied { seq: 4 })).await;
    assert_eq!(call.wait_until_refused().await, Reason::RunOver);
    assert_eq!(wait_for_records(&fixture.book, 2).await, ["k 1 failed did_not_happen"]);
    fixture.worker.begin_shutdown();
}

#[tokio::test]
async fn a_probe_that_found_out_nothing_after_the_ask_is_not_recorded_as_inconclusive() {
    let fixture = Fixture::start().await;
    let socket = start_deaf(&fixture, json!({"stop-grace": LONG_GRACE})).await;
    let mut call = Call::announce(&socket, effect("k", EffectRecovery::Probe)).await;
    call.wait_to_perform().await;
    call.say_ended(1, "").await;
    call.wait_to_probe().await;
    drain(&fixture).await;
    call.say_probed(EffectDisposition::InDoubt, "").await;
    assert_eq!(call.wait_until_failed().await.disposition(), EffectDisposition::InDoubt);
    assert_eq!(count_appends(&fixture.book), 1, "the next run may probe it");
    fixture.worker.begin_shutdown();
}
