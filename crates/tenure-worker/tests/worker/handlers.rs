//! Handlers: called with their input, concluded by what they return, and asked to end.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tenure_core::reason::Reason;
use tenure_proto::v1::{
    EndRun, Fenced, Fencing, Grant, Notice, Order, attach_request::Message, attach_response, order,
    run_end::How,
};
use tenure_worker::{
    Worker,
    handler::{Ending, HandlerError, HandlerWorker, RunContext},
};

use crate::{
    agent::{grant, handler, run_ref},
    coordinator::{Got, Renewals},
    fixture::{Fixture, ends, messages, note_text, output, wait_for_append, wait_for_end, wait_until},
};

async fn greet(run: RunContext, to: String) -> Result<String, HandlerError> {
    run.note(format!("greeting {to}")).await?;
    Ok(format!("Dear {to}"))
}

fn greeter() -> HandlerWorker {
    Worker::agent("greeter", "1", greet)
}

pub(crate) async fn start(handlers: HandlerWorker) -> Fixture {
    Fixture::start_handlers(handlers, |_| {}).await
}

/// Grants run 1 with this input, under further keys of the declaration.
pub(crate) async fn grant_run(fixture: &Fixture, input: &str, keys: serde_json::Value) {
    let numbers = fixture.book.wait_for_stream(fixture.book.stream_count()).await;
    let granted = grant(1, numbers, handler("1", keys));
    fixture.send_grant(Grant { input: input.to_owned().into(), ..granted }).await;
}

async fn send_order(fixture: &Fixture, order: order::Order) {
    let order = Order { run: Some(run_ref(1)), order: Some(order) };
    fixture.book.send(attach_response::Message::Order(order)).await;
}

async fn end_of(handlers: HandlerWorker, input: &str, keys: serde_json::Value) -> EndRun {
    let fixture = start(handlers).await;
    grant_run(&fixture, input, keys).await;
    wait_for_end(&fixture.book, &run_ref(1), 1).await
}

pub(crate) fn failure(end: EndRun) -> (String, bool) {
    match end.end.unwrap().how.unwrap() {
        How::HandlerFailed(failed) => (failed.error, failed.is_final),
        other => panic!("it ended by {other:?}"),
    }
}

#[tokio::test]
async fn a_worker_registers_the_versions_of_its_handlers_and_its_own_labels() {
    let fixture = start(greeter().agent("greeter", "2", greet)).await;
    let got = fixture.book.got();
    let Got::Registration(registration) = &got[0] else { panic!("it does not register first") };
    assert_eq!(registration.labels, ["tenure.handler/greeter=1", "tenure.handler/greeter=2"]);
    assert_ne!(registration.fencing(), Fencing::Unspecified);
}

#[tokio::test]
async fn an_output_is_the_result_and_a_note_stands_before_the_end() {
    let fixture = start(greeter()).await;
    grant_run(&fixture, "\"Ada\"", json!({})).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.end.unwrap().how, Some(How::ExitCode(0)));
    assert_eq!(end.result.as_deref(), Some(&b"\"Dear Ada\""[..]));
    let note = wait_for_append(&fixture.book, &run_ref(1), 1).await;
    assert_eq!((note_text(&note).as_str(), note.n, end.n), ("greeting Ada", 1, 2));
}

#[tokio::test]
async fn an_input_that_is_no_input_of_the_handler_fails_the_job_for_good() {
    let (error, is_final) = failure(end_of(greeter(), "{\"to\":3}", json!({})).await);
    assert!(error.starts_with("the input cannot be read as what the handler takes: "), "{error}");
    assert!(is_final);
}

#[tokio::test]
async fn an_error_is_told_with_its_causes_and_stands_in_the_runs_output() {
    async fn fail(_run: RunContext, _input: Option<String>) -> Result<(), HandlerError> {
        Err(std::io::Error::other("no route"))?
    }
    let fixture = start(Worker::agent("greeter", "1", fail)).await;
    grant_run(&fixture, "", json!({})).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(failure(end), ("no route".to_owned(), false));
    assert_eq!(output(&fixture.book.got(), &run_ref(1)), "error: no route\n");
}

#[tokio::test]
async fn an_error_longer_than_a_message_stands_in_the_output_as_far_as_it_is_kept() {
    async fn fail(_run: RunContext, length_bytes: usize) -> Result<(), HandlerError> {
        Err(HandlerError::new("x".repeat(length_bytes)))
    }
    for (length_bytes, kept_bytes) in [(70 * 1024, 70 * 1024), (5 * 1024 * 1024, 256 * 1024)] {
        let fixture = start(Worker::agent("greeter", "1", fail)).await;
        grant_run(&fixture, &length_bytes.to_string(), json!({})).await;
        wait_for_end(&fixture.book, &run_ref(1), 1).await;
        let got = fixture.book.got();
        let written = output(&got, &run_ref(1));
        assert_eq!(written.matches('x').count(), kept_bytes);
        assert_eq!(written.ends_with("… (the rest is cut off)\n"), kept_bytes < length_bytes);
        let longest = messages(&got).map(|message| match message {
            Message::WriteOutput(output) => output.bytes.len(),
            _ => 0,
        });
        assert_eq!(longest.max(), Some(64 * 1024));
    }
}

#[tokio::test]
async fn an_error_that_panics_when_it_is_told_ends_its_run_and_not_the_worker() {
    #[derive(Debug)]
    struct Trap;
    impl std::fmt::Display for Trap {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("it cannot be told")
        }
    }
    impl std::error::Error for Trap {}
    async fn fail(_run: RunContext, _input: Option<String>) -> Result<(), HandlerError> {
        Err(Trap)?
    }
    let (error, is_final) = failure(end_of(Worker::agent("greeter", "1", fail), "", json!({})).await);
    assert!(error.starts_with("it panicked: it cannot be told") && !is_final, "{error}");
}

#[tokio::test]
async fn a_panic_ends_its_run_and_not_the_worker() {
    async fn greet_all_but_bob(run: RunContext, to: String) -> Result<String, HandlerError> {
        assert_ne!(to, "Bob", "Bob is not greeted");
        greet(run, to).await
    }
    let fixture = start(Worker::agent("greeter", "1", greet_all_but_bob)).await;
    grant_run(&fixture, "\"Bob\"", json!({})).await;
    let (error, is_final) = failure(wait_for_end(&fixture.book, &run_ref(1), 1).await);
    assert!(error.starts_with("it panicked: ") && error.contains("Bob is not greeted"), "{error}");
    assert!(!is_final);
    let numbers = fixture.book.wait_for_stream(1).await;
    let next = grant(2, numbers, handler("1", json!({})));
    fixture.send_grant(Grant { input: "\"Ada\"".into(), ..next }).await;
    let end = wait_for_end(&fixture.book, &run_ref(2), 1).await;
    assert_eq!(end.end.unwrap().how, Some(How::ExitCode(0)));
}

#[tokio::test]
async fn a_version_that_the_worker_does_not_hold_is_not_started() {
    let fixture = start(greeter()).await;
    let numbers = fixture.book.wait_for_stream(1).await;
    fixture.send_grant(grant(1, numbers, handler("2", json!({})))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let Some(How::NotStarted(not_started)) = end.end.unwrap().how else { panic!("it was started") };
    assert_eq!(not_started.reason, "this worker does not hold the handler greeter in version 2");
}

/// Waits until it is asked to end, and says why in its error.
async fn wait_for_the_end(run: RunContext, _input: Option<String>) -> Result<(), HandlerError> {
    run.note("waiting").await?;
    run.cancellation().cancelled().await;
    run.note(format!("{:?}", run.ending())).await?;
    Err(HandlerError::new("asked to end"))
}

#[tokio::test]
async fn a_cancel_is_heard_by_the_token_and_named_at_the_end() {
    let fixture = start(Worker::agent("greeter", "1", wait_for_the_end)).await;
    grant_run(&fixture, "", json!({})).await;
    wait_for_append(&fixture.book, &run_ref(1), 1).await;
    let notice = Notice { seq: 7, kind: "cancel_requested".to_owned() };
    send_order(&fixture, order::Order::Notice(notice)).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(How::Cancel(_))));
    assert_eq!(end.last_notice_seq, 7);
    let note = wait_for_append(&fixture.book, &run_ref(1), 2).await;
    assert_eq!(note_text(&note), format!("{:?}", Some(Ending::Cancelled)), "a note is taken in the grace");
}

/// What a handler leaves that stays until its future is dropped.
#[derive(Clone, Default)]
struct Stay {
    run: Arc<Mutex<Option<RunContext>>>,
    is_dropped: Arc<AtomicBool>,
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Stay {
    fn worker(&self) -> HandlerWorker {
        let stay = self.clone();
        Worker::agent("greeter", "1", move |run: RunContext, _input: Option<String>| {
            let guard = Dropped(Arc::clone(&stay.is_dropped));
            *stay.run.lock().unwrap() = Some(run);
            async move {
                let _guard = guard;
                std::future::pending::<Result<(), HandlerError>>().await
            }
        })
    }

    async fn wait_until_called(&self) -> RunContext {
        wait_until("the handler to be called", || self.run.lock().unwrap().clone()).await
    }

    fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_handler_that_does_not_return_in_its_grace_is_dropped_and_timed_out() {
    let stay = Stay::default();
    let keys = json!({ "timeout": "50ms", "stop-grace": "20ms" });
    let end = end_of(stay.worker(), "", keys).await;
    let Some(How::OwnTimeout(timeout)) = end.end.unwrap().how else { panic!("it did not time out") };
    assert_eq!(timeout.limit.unwrap().nanos, 50_000_000);
    assert!(stay.is_dropped());
}

#[tokio::test]
async fn a_fenced_handler_is_dropped_at_once_and_its_run_reported_gone() {
    let stay = Stay::default();
    let fixture = start(stay.worker()).await;
    grant_run(&fixture, "", json!({ "stop-grace": "600s" })).await;
    let run = stay.wait_until_called().await;
    let fenced = order::Order::Fenced(Fenced { held_by: "w2".to_owned(), epoch: 2, applied_seq: 0 });
    send_order(&fixture, fenced).await;
    let find = |got: &[Got]| {
        got.iter().find_map(|got| if let Got::Gone(gone) = got { Some(gone.clone()) } else { None })
    };
    let gone = fixture.book.wait_for("a report that the handler is gone", find).await;
    assert_eq!((gone.job_id, gone.epoch), (run_ref(1).job_id, 1));
    assert!(matches!(gone.end.unwrap().how, Some(How::ContactLost(_))));
    assert!(stay.is_dropped());
    assert_eq!(run.ending(), Some(Ending::Fenced));
    let refused = run.note("too late").await.unwrap_err();
    assert_eq!(refused.refusal().map(|refusal| refusal.reason), Some(Reason::Fenced));
    assert!(ends(&fixture.book.got(), &run_ref(1)).is_empty(), "nothing more is reported under that epoch");
}

#[tokio::test]
async fn a_handler_whose_lease_is_not_renewed_is_asked_to_end_and_is_no_success() {
    async fn finish_early(run: RunContext, _input: Option<String>) -> Result<String, HandlerError> {
        run.note("waiting").await?;
        run.cancellation().cancelled().await;
        Ok(format!("{:?}", run.ending()))
    }
    // Shorter than a real one may be. Where the handler were not asked, its guardian would end this very process.
    let ttl = Duration::from_secs(12);
    let greeter = Worker::agent("greeter", "1", finish_early);
    let fixture = Fixture::start_handlers(greeter, |book| book.set_ttl(ttl)).await;
    grant_run(&fixture, "", json!({})).await;
    wait_for_append(&fixture.book, &run_ref(1), 1).await;
    fixture.book.set_renewals(Renewals::Silent);
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(How::ContactLost(_))), "nobody knows who acts by now");
    assert_eq!(end.result, None);
}

#[tokio::test]
async fn a_worker_that_is_hastened_drops_its_handlers_at_once() {
    let stay = Stay::default();
    let fixture = start(stay.worker()).await;
    grant_run(&fixture, "", json!({ "stop-grace": "600s" })).await;
    let run = stay.wait_until_called().await;
    fixture.worker.begin_shutdown();
    run.cancellation().cancelled().await;
    assert_eq!((run.ending(), stay.is_dropped()), (Some(Ending::Draining), false));
    fixture.worker.begin_shutdown();
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(How::ContactLost(_))));
    assert!(stay.is_dropped());
}

#[tokio::test]
async fn nothing_can_be_said_once_the_run_is_over() {
    let kept: Arc<Mutex<Option<RunContext>>> = Arc::default();
    let keeping = Arc::clone(&kept);
    let keep = move |run: RunContext, _input: Option<String>| {
        *keeping.lock().unwrap() = Some(run);
        async { Ok::<(), HandlerError>(()) }
    };
    let fixture = start(Worker::agent("greeter", "1", keep)).await;
    grant_run(&fixture, "", json!({})).await;
    wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let run = wait_until("the handler to be called", || kept.lock().unwrap().clone()).await;
    let refused = run.note("too late").await.unwrap_err();
    assert_eq!(refused.refusal().map(|refusal| refusal.reason), Some(Reason::RunOver));
}

#[tokio::test]
async fn a_leaving_worker_asks_its_handlers_and_hands_their_runs_over() {
    let fixture = start(Worker::agent("greeter", "1", wait_for_the_end)).await;
    grant_run(&fixture, "", json!({ "stop-grace": "25s" })).await;
    wait_for_append(&fixture.book, &run_ref(1), 1).await;
    let book = fixture.book.clone();
    fixture.worker.shutdown().await;
    let end = wait_for_end(&book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(How::ContactLost(_))));
}
