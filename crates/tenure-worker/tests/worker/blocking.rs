//! A host whose files are slow: a runtime that lends no thread to whoever would wait for them.

use std::sync::mpsc;

use serde_json::json;
use tenure_proto::v1::attach_request::Message;
use tokio::runtime::{Builder, Runtime};

use crate::{
    agent::{run_ref, script},
    coordinator::{Book, Got},
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
