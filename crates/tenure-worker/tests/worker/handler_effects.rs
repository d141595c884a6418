//! The effects of a handler: the same announcements, decisions and outcomes as those of a command, with a function that
//! performs.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use serde_json::json;
use tenure_core::{id::Digest, reason::Reason};
use tenure_proto::v1::{Effect as Recorded, EffectRecovery, EndRun, Grant, RunRef, run_end::How};
use tenure_worker::{
    Worker,
    handler::{Disposition, Effect, HandlerError, HandlerWorker, Probe, RunContext},
};

use crate::{
    agent::{grant, handler, run_ref},
    effect_call::{count_appends, recorded, wait_for_records},
    fixture::{Fixture, wait_for_append, wait_for_end},
    handlers::{failure, grant_run, start},
};

/// How often something was performed.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU32>);

impl Count {
    fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A handler with one effect, declared so, whose performance returns its idempotency key and counts.
fn performer(
    declare: impl for<'a> Fn(Effect<'a, String>) -> Effect<'a, String> + Send + Sync + 'static,
) -> (HandlerWorker, Count) {
    let count = Count::default();
    let counted = count.clone();
    let declare = Arc::new(declare);
    let handler = move |run: RunContext, _input: Option<String>| {
        let (declare, counted) = (Arc::clone(&declare), counted.clone());
        async move {
            let effect = declare(run.effect("mail/1"));
            effect
                .perform(async |call| {
                    counted.next();
                    Ok::<_, HandlerError>(call.idempotency_key)
                })
                .await
        }
    };
    (Worker::agent("greeter", "1", handler), count)
}

/// What run 1 announced of that effect, without an outcome.
fn announced(recovery: EffectRecovery) -> Recorded {
    let request_digest = Digest::of(br#"["handler","greeter"]"#).0.to_vec().into();
    Recorded { request_digest, ..recorded("mail/1", recovery) }
}

/// The end of run 2 of the job, where run 1 left this.
async fn second_run(handlers: HandlerWorker, left: Recorded) -> (Fixture, EndRun) {
    let fixture = Fixture::start_handlers(handlers, |book| book.set_effect(left)).await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let run = RunRef { run: 2, epoch: 3, ..run_ref(1) };
    let first = grant(1, numbers, handler("1", json!({})));
    fixture.send_grant(Grant { run: Some(run.clone()), input: bytes::Bytes::new(), ..first }).await;
    let end = wait_for_end(&fixture.book, &run, 1).await;
    (fixture, end)
}

fn result(end: &EndRun) -> String {
    String::from_utf8(end.result.clone().expect("it has a result").to_vec()).unwrap()
}

#[tokio::test]
async fn an_effect_is_announced_before_it_is_performed_and_recorded_after() {
    let (handlers, count) = performer(|effect| effect.ask());
    let fixture = start(handlers).await;
    grant_run(&fixture, "", json!({})).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let key = format!("\"{}/mail/1\"", run_ref(1).job_id);
    assert_eq!((result(&end), count.get()), (key.clone(), 1));
    assert_eq!(wait_for_records(&fixture.book, 1).await, ["mail/1 1 started"]);
    assert_eq!(wait_for_records(&fixture.book, 2).await, [format!("mail/1 1 done {key}")]);
    assert_eq!(end.n, 3);
}

#[tokio::test]
async fn what_an_earlier_run_did_is_read_back_and_not_performed() {
    let (handlers, count) = performer(|effect| effect);
    let done = tenure_proto::v1::EffectState::Done.into();
    let left = Recorded { state: done, value: Some("\"sent\"".into()), ..announced(EffectRecovery::Ask) };
    let (fixture, end) = second_run(handlers, left).await;
    assert_eq!((result(&end).as_str(), count.get()), ("\"sent\"", 0));
    assert_eq!(count_appends(&fixture.book), 0);
}

#[tokio::test]
async fn a_doubt_of_an_idempotent_effect_is_performed_again_under_its_announcement() {
    let (handlers, count) = performer(|effect| effect.idempotent());
    let (fixture, end) = second_run(handlers, announced(EffectRecovery::Idempotent)).await;
    let key = format!("\"{}/mail/1\"", run_ref(1).job_id);
    assert_eq!((result(&end), count.get()), (key.clone(), 1));
    assert_eq!(wait_for_records(&fixture.book, 1).await, [format!("mail/1 1 done {key}")]);
}

#[tokio::test]
async fn a_doubt_is_looked_up_by_the_probe_and_its_verdict_is_recorded_before_it_is_used() {
    fn found(effect: Effect<'_, String>) -> Effect<'_, String> {
        effect.probe(async |_| Ok::<_, HandlerError>(Probe::Landed("found".to_owned())))
    }
    let (handlers, count) = performer(found);
    let (fixture, end) = second_run(handlers, announced(EffectRecovery::Probe)).await;
    assert_eq!((result(&end).as_str(), count.get()), ("\"found\"", 0));
    assert_eq!(wait_for_records(&fixture.book, 1).await, ["mail/1 1 reconciled landed \"found\""]);

    fn missed(effect: Effect<'_, String>) -> Effect<'_, String> {
        effect.probe(async |_| Ok::<_, HandlerError>(Probe::DidNotHappen))
    }
    let (handlers, count) = performer(missed);
    let (fixture, _) = second_run(handlers, announced(EffectRecovery::Probe)).await;
    assert_eq!(count.get(), 1);
    assert_eq!(
        wait_for_records(&fixture.book, 1).await,
        ["mail/1 1 reconciled did_not_happen", "mail/1 2 started"]
    );
}

#[tokio::test]
async fn what_only_a_person_can_decide_is_not_performed_and_handed_on_as_a_refusal() {
    let (handlers, count) = performer(|effect| effect.ask());
    let (fixture, end) = second_run(handlers, announced(EffectRecovery::Ask)).await;
    let (error, is_final) = failure(end);
    assert!(error.starts_with("the effect mail/1 is in doubt"), "{error}");
    assert_eq!((count.get(), is_final, count_appends(&fixture.book)), (0, false, 0));
}

#[tokio::test]
async fn an_error_says_what_became_of_the_world_and_one_that_landed_is_final() {
    async fn fail(run: RunContext, disposition: String) -> Result<String, HandlerError> {
        let known = if disposition == "landed" { Disposition::Landed } else { Disposition::DidNotHappen };
        run.effect("mail/1")
            .perform(async |_| Err(HandlerError::new("no route").with_disposition(known)))
            .await
    }
    let fixture = start(Worker::agent("greeter", "1", fail)).await;
    grant_run(&fixture, "\"landed\"", json!({})).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let words = "the effect \"mail/1\" failed in attempt 1, and it took effect: no route";
    assert_eq!(failure(end), (words.to_owned(), true));
    assert_eq!(wait_for_records(&fixture.book, 2).await, ["mail/1 1 failed landed"]);

    let fixture = start(Worker::agent("greeter", "1", fail)).await;
    grant_run(&fixture, "\"did not happen\"", json!({})).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let words = "the effect \"mail/1\" failed in attempt 3, and nothing happened: no route";
    assert_eq!(failure(end), (words.to_owned(), false), "it is tried three times in all");
}

#[tokio::test]
async fn an_effect_whose_future_is_dropped_has_no_outcome() {
    async fn hang(run: RunContext, _input: Option<String>) -> Result<(), HandlerError> {
        run.effect("mail/1").perform(async |_| std::future::pending::<Result<(), HandlerError>>().await).await
    }
    let fixture = start(Worker::agent("greeter", "1", hang)).await;
    grant_run(&fixture, "", json!({ "timeout": "100ms", "stop-grace": "10ms" })).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(How::OwnTimeout(_))));
    wait_for_append(&fixture.book, &run_ref(1), 1).await;
    assert_eq!((end.n, wait_for_records(&fixture.book, 1).await), (2, vec!["mail/1 1 started".to_owned()]));
}

/// Provokes `EFFECT_IN_DOUBT`.
#[tokio::test]
async fn what_may_still_be_under_way_is_neither_performed_nor_looked_up_again_in_its_run() {
    let count = Count::default();
    let counted = count.clone();
    let lose_patience = move |run: RunContext, _input: Option<String>| {
        let counted = counted.clone();
        async move {
            let begun = tokio::sync::Notify::new();
            let perform = || {
                let effect = run.effect::<u32>("mail/1").probe(async |_| {
                    counted.next();
                    Ok::<_, HandlerError>(Probe::DidNotHappen)
                });
                effect.perform(async |_| {
                    counted.next();
                    begun.notify_one();
                    std::future::pending::<Result<u32, HandlerError>>().await
                })
            };
            tokio::select! {
                _ = perform() => panic!("it hangs"),
                () = begun.notified() => {}
            }
            let refused = perform().await.unwrap_err();
            assert_eq!(refused.refusal().map(|refusal| refusal.reason), Some(Reason::EffectInDoubt));
            Err::<(), _>(refused)
        }
    };
    let fixture = start(Worker::agent("greeter", "1", lose_patience)).await;
    grant_run(&fixture, "", json!({})).await;
    let (error, is_final) = failure(wait_for_end(&fixture.book, &run_ref(1), 1).await);
    assert!(error.contains("may still be under way") && !is_final, "{error}");
    assert_eq!((count.get(), count_appends(&fixture.book)), (1, 1));
}

#[tokio::test]
async fn a_value_that_nobody_gave_is_null_and_one_that_was_erased_is_named() {
    async fn note_sent(run: RunContext, _input: Option<String>) -> Result<(), HandlerError> {
        run.effect::<()>("mail/1").perform(async |_| Ok::<_, HandlerError>(())).await
    }
    let left = |state: tenure_proto::v1::EffectState, value: Option<&'static str>| Recorded {
        state: state.into(),
        disposition: tenure_proto::v1::EffectDisposition::Landed.into(),
        value: value.map(Into::into),
        ..announced(EffectRecovery::Ask)
    };
    use tenure_proto::v1::EffectState::{Done, Reconciled};
    for given in [left(Done, Some("")), left(Reconciled, None)] {
        let (_fixture, end) = second_run(Worker::agent("greeter", "1", note_sent), given).await;
        assert_eq!(result(&end), "null");
    }
    let (_fixture, end) = second_run(Worker::agent("greeter", "1", note_sent), left(Done, None)).await;
    let words =
        "what was recorded of the effect \"mail/1\" was erased, and it is not performed a second time";
    assert_eq!(failure(end), (words.to_owned(), true));
}

#[tokio::test]
async fn two_calls_of_one_key_perform_it_once() {
    let count = Count::default();
    let counted = count.clone();
    let both = move |run: RunContext, _input: Option<String>| {
        let counted = counted.clone();
        async move {
            let one = || run.effect::<u32>("mail/1").perform(async |_| Ok::<_, HandlerError>(counted.next()));
            let (first, second) = tokio::join!(one(), one());
            Ok::<_, HandlerError>((first?, second?))
        }
    };
    let fixture = start(Worker::agent("greeter", "1", both)).await;
    grant_run(&fixture, "", json!({})).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!((result(&end).as_str(), count.get()), ("[1,1]", 1));
}

#[tokio::test]
async fn another_payload_under_a_bound_key_is_refused() {
    async fn vary(run: RunContext, _input: Option<String>) -> Result<(), HandlerError> {
        for payload in [1, 2] {
            let effect = run.effect::<u32>("mail/1").payload(&payload).bind();
            if let Err(refused) = effect.perform(async |_| Ok::<_, HandlerError>(payload)).await {
                assert_eq!(refused.refusal().map(|refusal| refusal.reason), Some(Reason::EffectMismatch));
                return Err(refused.into_final());
            }
        }
        Ok(())
    }
    let fixture = Fixture::start_handlers(Worker::agent("greeter", "1", vary), |book| {
        let request_digest = Digest::of(br#"["handler","greeter","1"]"#).0.to_vec().into();
        let state = tenure_proto::v1::EffectState::Done.into();
        let value = Some("1".into());
        book.set_effect(Recorded { request_digest, state, value, ..recorded("mail/1", EffectRecovery::Ask) });
    })
    .await;
    grant_run(&fixture, "", json!({})).await;
    let (error, is_final) = failure(wait_for_end(&fixture.book, &run_ref(1), 1).await);
    assert!(error.contains("was announced with another command") && is_final, "{error}");
}
