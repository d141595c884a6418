//! A host whose files are slow: a runtime that lends no thread to whoever would wait for them.

use std::sync::mpsc;

use serde_json::json;
use tenure_proto::v1::{
    Fenced, LostGrants, Notice, Order, attach_request::Message, attach_response, order, run_end::How,
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    agent::{run_ref, script},
    coordinator::{Book, Got, Renewals},
    fixture::{Fixture, messages, wait_for_end, wait_for_file, wait_until},
};

/// A runtime with one thread for what may block.
fn build_runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap()
}

/// The one thread that may block, taken until this is dropped.
struct Taken {
    _until_dropped: mpsc::Sender<()>,
}

async fn take_blocking_thread() -> Taken {
    let (held, released) = mpsc::channel();
    let (tell_taken, taken) = tokio::sync::oneshot::channel();
    tokio::task::spawn_blocking(move || {
        tell_taken.send(()).unwrap();
        let _ = released.recv();
    });
    taken.await.unwrap();
    Taken { _until_dropped: held }
}

fn count_renewals(got: &[Got]) -> usize {
    messages(got).filter(|message| matches!(message, Message::Renew(_))).count()
}

/// Waits until the worker has renewed its term twice more.
async fn wait_for_renewals(book: &Book) {
    let before = count_renewals(&book.got());
    book.wait_for("two renewals", |got| (count_renewals(got) >= before + 2).then_some(())).await;
}

async fn start_with_short_term() -> Fixture {
    Fixture::start_with(|book| book.set_ttl(std::time::Duration::from_secs(5)), |_| {}).await
}

#[test]
fn a_host_with_slow_files_holds_up_the_run_alone_and_no_renewal() {
    build_runtime().block_on(async {
        let fixture = start_with_short_term().await;
        let (started, go_on) = (fixture.path("started"), fixture.path("go-on"));
        let text = format!(
            "echo yes > {}; while [ ! -e {} ]; do sleep 0.02; done; exit 3",
            started.display(),
            go_on.display()
        );
        let taken = take_blocking_thread().await;
        fixture.grant(1, script(&text, json!({}))).await;
        wait_for_renewals(&fixture.book).await;
        assert!(fixture.run_directories().is_empty(), "files are made where one may wait for them");
        drop(taken);
        wait_for_file(&started).await;

        let taken = take_blocking_thread().await;
        std::fs::write(&go_on, "").unwrap();
        wait_for_end(&fixture.book, &run_ref(1), 1).await;
        wait_for_renewals(&fixture.book).await;
        assert_eq!(fixture.run_directories().len(), 1, "and removed there");
        drop(taken);
        wait_until("the run's directory to be removed", || {
            fixture.run_directories().is_empty().then_some(())
        })
        .await;
    });
}

/// Grants a run that would leave a trace, and has it wait before its child until this returns. What happens meanwhile is
/// known to the worker by then.
async fn hold_up_start(fixture: &Fixture, meanwhile: impl AsyncFnOnce(&Fixture)) {
    let taken = take_blocking_thread().await;
    let leave_trace = script(&format!("echo ran > {}", fixture.path("trace").display()), json!({}));
    fixture.grant(1, leave_trace).await;
    wait_until_read(&fixture.book, 2).await;
    meanwhile(fixture).await;
    wait_until_read(&fixture.book, 3).await;
    drop(taken);
}

/// Waits until the worker has read everything that was sent on the newest stream: it answers what comes after that, which
/// is about a run that nobody knows.
async fn wait_until_read(book: &Book, unknown: u32) {
    let lost = LostGrants { runs: vec![run_ref(unknown)] };
    book.send(attach_response::Message::LostGrants(lost)).await;
    book.wait_for("everything before it to be read", |got| {
        messages(got)
            .any(|m| matches!(m, Message::NotMine(refused) if refused.run == Some(run_ref(unknown))))
            .then_some(())
    })
    .await;
}

async fn send_order(fixture: &Fixture, order: order::Order) {
    let order = Order { run: Some(run_ref(1)), order: Some(order) };
    fixture.book.send(attach_response::Message::Order(order)).await;
}

#[test]
fn a_run_that_is_fenced_before_its_child_starts_has_none() {
    build_runtime().block_on(async {
        let fixture = Fixture::start().await;
        let fenced = Fenced { held_by: "w2".to_owned(), epoch: 2, applied_seq: 0 };
        hold_up_start(&fixture, async |fixture| send_order(fixture, order::Order::Fenced(fenced)).await)
            .await;
        fixture
            .book
            .wait_for("a report that no child is left", |got| {
                got.iter().any(|got| matches!(got, Got::Gone(_))).then_some(())
            })
            .await;
        assert!(!fixture.path("trace").exists());
    });
}

#[test]
fn a_run_that_is_cancelled_before_its_child_starts_has_none() {
    build_runtime().block_on(async {
        let fixture = Fixture::start().await;
        let notice = Notice { seq: 9, kind: "cancel_requested".to_owned() };
        hold_up_start(&fixture, async |fixture| send_order(fixture, order::Order::Notice(notice)).await)
            .await;
        let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
        assert!(matches!(end.end.unwrap().how, Some(How::Cancel(_))));
        assert!(!fixture.path("trace").exists());
    });
}

#[test]
fn a_worker_that_drains_starts_no_child_and_it_costs_no_attempt() {
    build_runtime().block_on(async {
        let fixture = Fixture::start().await;
        hold_up_start(&fixture, async |fixture| fixture.worker.begin_shutdown()).await;
        let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
        assert!(matches!(end.end.unwrap().how, Some(How::ContactLost(_))));
        assert!(!fixture.path("trace").exists());
    });
}

#[test]
fn no_child_is_started_after_the_local_deadline() {
    build_runtime().block_on(async {
        let fixture = start_with_short_term().await;
        fixture.book.set_renewals(Renewals::Silent);
        let begun = std::time::Instant::now();
        hold_up_start(&fixture, async |fixture| {
            wait_until("the term to be over", || (begun.elapsed().as_secs() > 5).then_some(())).await;
            let streams = fixture.book.stream_count();
            fixture.book.wait_for_stream(streams).await;
        })
        .await;
        let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
        assert!(matches!(end.end.unwrap().how, Some(How::ContactLost(_))));
        assert!(!fixture.path("trace").exists());
    });
}
