//! The effects of a handler: the same announcements, decisions and outcomes as those of a command, with a function that
//! performs.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use serde_json::json;
use tenure_core::{id::Digest, reason::Reason};
use tenure_proto::v1::{
    CompensationCall, Effect as Recorded, EffectRecovery, EndRun, Grant, RunRef, SettledGroup, StepToUndo,
    UndoFailed, UnwindingGrant, Unwound, run_end::How,
};
use tenure_worker::{
    Worker,
    handler::{Disposition, Effect, HandlerError, HandlerWorker, Probe, RunContext, UndoCall},
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

/// What the compensations were called with, in order.
type Calls = Arc<std::sync::Mutex<Vec<String>>>;

/// A handler that was never called, and a compensation that says what it was called with; `broken` fails it.
fn refunder(broken: Option<Disposition>) -> (HandlerWorker, Calls) {
    let calls = Calls::default();
    let called = Arc::clone(&calls);
    let refund = move |call: UndoCall, order: String| {
        let called = Arc::clone(&called);
        async move {
            let charge: u32 = call.output()?;
            let job = &run_ref(1).job_id;
            let keys =
                [&call.effect_idempotency_key, &call.idempotency_key].map(|key| key.replace(job, "JOB"));
            called.lock().unwrap().push(format!("{} {order} {charge} {}", call.effect, keys.join(" ")));
            match broken {
                Some(disposition) => Err(HandlerError::new("no route").with_disposition(disposition)),
                None => Ok(()),
            }
        }
    };
    let handler = |_run: RunContext, _input: Option<String>| async {
        Err::<(), _>(HandlerError::new("a run that undoes starts no agent").into_final())
    };
    (Worker::agent("greeter", "1", handler).compensation("refund", refund), calls)
}

fn step_to_undo(key: &str, compensation: &str, recovery: EffectRecovery) -> StepToUndo {
    let call = CompensationCall { name: compensation.to_owned(), arguments: "\"order 7\"".to_owned() };
    StepToUndo {
        key: key.to_owned(),
        undo_key: format!("undo:{key}"),
        recovery: recovery.into(),
        tool: "bank".to_owned(),
        output: Some("12".into()),
        idempotency_key: format!("{}/{key}", run_ref(1).job_id),
        undo_by: Some(call),
        ..StepToUndo::default()
    }
}

/// The end of a run that undoes these steps.
async fn undoing_run(handlers: HandlerWorker, steps: Vec<StepToUndo>) -> (Fixture, EndRun) {
    let fixture = Fixture::start_handlers(handlers, |book| book.set_to_undo(steps)).await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let run = RunRef { run: 2, epoch: 3, ..run_ref(1) };
    let first = grant(1, numbers, handler("1", json!({})));
    let unwinding = Some(UnwindingGrant { declaration: first.declaration.clone() });
    let undo = Grant { run: Some(run.clone()), unwinding, declaration: bytes::Bytes::new(), ..first };
    fixture.send_grant(undo).await;
    let end = wait_for_end(&fixture.book, &run, 1).await;
    (fixture, end)
}

fn how(end: &EndRun) -> How {
    end.end.clone().unwrap().how.unwrap()
}

#[tokio::test]
async fn a_run_that_undoes_calls_the_compensations_in_the_order_in_which_it_is_told() {
    let (handlers, calls) = refunder(None);
    let steps = ["mail", "charge"].map(|key| step_to_undo(key, "refund", EffectRecovery::Idempotent));
    let (fixture, end) = undoing_run(handlers, steps.to_vec()).await;
    assert_eq!(how(&end), How::Unwound(Unwound {}));
    assert_eq!(
        *calls.lock().unwrap(),
        ["mail order 7 12 JOB/mail JOB/undo:mail", "charge order 7 12 JOB/charge JOB/undo:charge"]
    );
    for (append, record) in [
        (1, "undo:mail 1 started"),
        (2, "undo:mail 1 done null"),
        (3, "undo:charge 1 started"),
        (4, "undo:charge 1 done null"),
    ] {
        assert_eq!(wait_for_records(&fixture.book, append).await, [record]);
    }
}

#[tokio::test]
async fn a_compensation_that_fails_ends_the_undoing_and_is_named() {
    for (broken, times) in [(Disposition::InDoubt, 1), (Disposition::DidNotHappen, 3)] {
        let (handlers, calls) = refunder(Some(broken));
        let steps = ["mail", "charge"].map(|key| step_to_undo(key, "refund", EffectRecovery::Ask));
        let (_fixture, end) = undoing_run(handlers, steps.to_vec()).await;
        let How::UndoFailed(UndoFailed { key, error }) = how(&end) else { panic!("{end:?}") };
        assert_eq!((key.as_str(), calls.lock().unwrap().len()), ("undo:mail", times), "{broken:?}");
        assert!(error.ends_with("no route"), "{error}");
    }
}

#[tokio::test]
async fn what_no_compensation_undoes_is_named_and_nothing_is_promised_that_could_not_be_called() {
    let (handlers, calls) = refunder(None);
    let (_fixture, end) =
        undoing_run(handlers, vec![step_to_undo("mail", "void", EffectRecovery::Ask)]).await;
    assert!(matches!(how(&end), How::UndoFailed(UndoFailed { key, .. }) if key == "undo:mail"), "{end:?}");
    assert!(calls.lock().unwrap().is_empty());
    let (handlers, count) = performer(|effect| effect.undo("void", &7));
    let fixture = start(handlers).await;
    grant_run(&fixture, "", json!({})).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let (error, is_final) = failure(end);
    assert!(error.contains("\"void\"") && is_final, "{error}");
    assert_eq!((count.get(), count_appends(&fixture.book)), (0, 0), "it was not even announced");
}

/// A handler with a group: a member that is reversed by `refund`, an invariant that holds where the input says so, and a
/// letter that is put off. Counts what was performed: members, letters.
fn grouper() -> (HandlerWorker, [Count; 2], Calls) {
    let (counts, calls) = ([Count::default(), Count::default()], Calls::default());
    let (counted, called) = (counts.clone(), Arc::clone(&calls));
    let handler = move |run: RunContext, holds: bool| {
        let [members, letters] = counted.clone();
        async move {
            let mut group = run.group("order").await?;
            let reserve = run.effect("reserve").idempotent().undo("refund", &"order 7");
            let left: u32 = group
                .perform(reserve, async |_| {
                    members.next();
                    Ok::<_, HandlerError>(12)
                })
                .await?;
            group.check("the shelf is not empty", holds && left > 0).await?;
            group.defer(run.effect("mail").no_undo(), move |_| {
                let letters = letters.clone();
                async move { Ok::<_, HandlerError>(letters.next()) }
            })?;
            group.commit().await
        }
    };
    let refund = move |call: UndoCall, order: String| {
        let called = Arc::clone(&called);
        async move {
            called.lock().unwrap().push(format!("{} {order}", call.effect));
            Ok::<_, HandlerError>(())
        }
    };
    (Worker::agent("greeter", "1", handler).compensation("refund", refund), counts, calls)
}

/// The end of a run of that handler with this input, the so many-th of its job, where `prepare` says what was before.
async fn grouped_run(
    handlers: HandlerWorker,
    run: u32,
    holds: bool,
    prepare: impl FnOnce(&crate::coordinator::Book),
) -> (Fixture, EndRun) {
    let fixture = Fixture::start_handlers(handlers, prepare).await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let run = RunRef { run, epoch: u64::from(run), ..run_ref(1) };
    let first = grant(1, numbers, handler("1", json!({})));
    let input = holds.to_string().into();
    fixture.send_grant(Grant { run: Some(run.clone()), input, ..first }).await;
    let end = wait_for_end(&fixture.book, &run, 1).await;
    (fixture, end)
}

async fn records(fixture: &Fixture, count: usize) -> Vec<String> {
    let mut records = Vec::new();
    for append in 1..=count {
        records.extend(wait_for_records(&fixture.book, append).await);
    }
    assert_eq!(count_appends(&fixture.book), count, "{records:?}");
    records
}

#[tokio::test]
async fn an_invariant_that_fails_reverses_what_was_performed_and_never_sends_what_was_put_off() {
    let (handlers, [members, letters], calls) = grouper();
    let step = step_to_undo("reserve", "refund", EffectRecovery::Idempotent);
    let (fixture, end) = grouped_run(handlers, 1, false, |book| book.set_to_undo([step])).await;
    assert_eq!(
        records(&fixture, 6).await,
        [
            "group order opened",
            "reserve 1 started",
            "reserve 1 done 12",
            "group order reversed reserve the shelf is not empty",
            "undo:reserve 1 started",
            "undo:reserve 1 done null",
        ],
        "decided before anything is reversed"
    );
    assert_eq!((members.get(), letters.get(), calls.lock().unwrap().len()), (1, 0, 1));
    let (error, is_final) = failure(end);
    assert!(is_final && error.contains("the shelf is not empty"), "{error}");
}

#[tokio::test]
async fn a_handler_that_commits_a_group_in_spite_of_its_invariant_sends_nothing_and_decides_nothing_again() {
    let letters = Count::default();
    let counted = letters.clone();
    let handler = move |run: RunContext, _: bool| {
        let letters = counted.clone();
        async move {
            let mut group = run.group("order").await?;
            group.defer(run.effect("mail").no_undo(), move |_| {
                let letters = letters.clone();
                async move { Ok::<_, HandlerError>(letters.next()) }
            })?;
            let broken = group.check("the shelf is not empty", false).await;
            assert!(broken.is_err() && group.check("another", true).await.is_err());
            group.commit().await
        }
    };
    let (fixture, end) = grouped_run(Worker::agent("greeter", "1", handler), 1, false, |_| {}).await;
    assert_eq!(
        records(&fixture, 2).await,
        ["group order opened", "group order reversed  the shelf is not empty"]
    );
    assert_eq!(letters.get(), 0);
    let (error, is_final) = failure(end);
    assert!(is_final && error.contains("the shelf is not empty"), "{error}");
}

#[tokio::test]
async fn a_group_whose_invariants_hold_sends_what_was_put_off_after_it_is_committed() {
    let (handlers, [members, letters], calls) = grouper();
    let (fixture, end) = grouped_run(handlers, 1, true, |_| {}).await;
    assert_eq!(
        records(&fixture, 6).await,
        [
            "group order opened",
            "reserve 1 started",
            "reserve 1 done 12",
            "group order committed reserve ",
            "mail 1 started",
            "mail 1 done 1",
        ]
    );
    assert_eq!((members.get(), letters.get(), calls.lock().unwrap().len()), (1, 1, 0));
    assert_eq!(result(&end), "null");
}

#[tokio::test]
async fn a_later_run_goes_on_with_what_was_decided_whatever_it_would_decide_itself() {
    let settled = |reversed| SettledGroup {
        name: "order".to_owned(),
        reversed,
        members: vec!["reserve".to_owned()],
        invariant: "the shelf is not empty".to_owned(),
    };
    let request_digest = Digest::of(br#"["handler","greeter"]"#).0.to_vec().into();
    let done = Recorded {
        state: tenure_proto::v1::EffectState::Done.into(),
        value: Some("12".into()),
        request_digest,
        ..recorded("reserve", EffectRecovery::Idempotent)
    };
    let (handlers, [members, letters], calls) = grouper();
    let step = step_to_undo("reserve", "refund", EffectRecovery::Idempotent);
    let (fixture, end) = grouped_run(handlers, 2, true, |book| {
        book.set_group(settled(true));
        book.set_to_undo([step]);
    })
    .await;
    assert_eq!(records(&fixture, 2).await, ["undo:reserve 1 started", "undo:reserve 1 done null"]);
    assert_eq!((members.get(), letters.get(), calls.lock().unwrap().len()), (0, 0, 1));
    assert!(failure(end).1);

    let (handlers, [members, letters], calls) = grouper();
    let (fixture, end) = grouped_run(handlers, 2, false, |book| {
        book.set_group(settled(false));
        book.set_effect(done);
    })
    .await;
    assert_eq!(records(&fixture, 2).await, ["mail 1 started", "mail 1 done 1"]);
    assert_eq!((members.get(), letters.get(), calls.lock().unwrap().len()), (0, 1, 0));
    assert_eq!(result(&end), "null");
}

#[tokio::test]
async fn what_cannot_be_reversed_is_no_member_that_is_performed_at_once() {
    let handler = |run: RunContext, _input: Option<String>| async move {
        let mut group = run.group("order").await?;
        group.perform(run.effect("mail"), async |_| Ok::<_, HandlerError>(1_u32)).await
    };
    let fixture = start(Worker::agent("greeter", "1", handler)).await;
    grant_run(&fixture, "", json!({})).await;
    let (error, is_final) = failure(wait_for_end(&fixture.book, &run_ref(1), 1).await);
    assert!(is_final && error.contains("\"mail\" of the group \"order\""), "{error}");
    assert_eq!(records(&fixture, 1).await, ["group order opened"]);
}
