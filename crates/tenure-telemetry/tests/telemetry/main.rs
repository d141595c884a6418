//! A whole program that is seen, with a collector that answers, one that is dead, one that never answers, and none.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    net::TcpListener,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use tenure_testkit::{Collector, wait_for};

/// Longer than anything here takes on a busy machine, and far below `LONG_EXPORT`.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the exporters would wait for an answer, in milliseconds: a program that waits with them is caught.
const LONG_EXPORT_MS: &str = "600000";

fn program(count: u8) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_telemetry-test-program"));
    command.arg(count.to_string()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OTEL_")) {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end.
async fn run_to_end(command: &mut Command) -> (String, String) {
    let mut process = command.spawn().unwrap();
    wait_for("the program to end", PATIENCE, async || match process.try_wait().unwrap() {
        Some(status) => Ok(status),
        None => Err("it runs"),
    })
    .await;
    let Output { status, stdout, stderr } = process.wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{stderr}");
    (stdout, stderr)
}

/// A program that meets a useless collector does all its work and ends, with a warning of each kind and no error.
async fn assert_unhindered(endpoint: &str) {
    let mut command = program(250);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_EXPORTER_OTLP_TIMEOUT", LONG_EXPORT_MS);
    let begun = Instant::now();
    let (stdout, stderr) = run_to_end(&mut command).await;
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(stdout, "exported true, composed 50000, tenure_test_spans_total 50000\nended\n", "{stderr}");
    assert!(!stderr.contains("\"ERROR\""), "{stderr}");
    let mut kinds: Vec<_> = stderr.lines().filter_map(|line| line.split("\"kind\":").nth(1)).collect();
    let said = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), said, "each kind once: {stderr}");
    assert!(said >= 1, "it is said at all: {stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_collector_hinders_neither_the_work_nor_the_end() {
    // Free a moment ago, and nobody listens.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_unhindered(&format!("http://{address}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_hinders_neither_the_work_nor_the_end() {
    // The kernel takes the connections, and nobody reads them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_unhindered(&format!("http://{}", listener.local_addr().unwrap())).await;
    drop(listener);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_no_span_is_composed() {
    let (stdout, stderr) = run_to_end(&mut program(1)).await;
    assert_eq!(stdout, "exported false, composed 0, tenure_test_spans_total 200\nended\n");
    assert_eq!(stderr, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_and_metrics_arrive_with_the_ids_that_they_were_given() {
    let collector = Collector::start().await.unwrap();
    let mut command = program(2);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    let (_, stderr) = run_to_end(&mut command).await;
    assert_eq!(stderr, "");
    let spans = collector.spans();
    assert_eq!(spans.len(), 400, "what is left is sent at the end");
    let first = spans.iter().find(|span| span.attribute("tenure.run") == "1").unwrap();
    let second = spans.iter().find(|span| span.attribute("tenure.run") == "2").unwrap();
    let trace = "0af7651916cd43dd8448eb211c80319c".to_owned();
    assert_eq!((&*first.service, &*first.name), ("test-program", "run"));
    assert_eq!(
        (&first.trace, &*first.span, &*first.parent),
        (&trace, "0101010101010101", "b7ad6b7169203331")
    );
    assert_eq!((first.links.len(), &first.failure, first.lasted), (0, &None, Duration::from_secs(3)));
    assert_eq!(second.links, [(trace, first.span.clone())]);
    assert_eq!(second.failure.as_deref(), Some("it crashed"));
    assert!(collector.metrics().contains("tenure.test.spans"), "{:?}", collector.metrics());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_is_not_recorded_here_is_not_sent() {
    let collector = Collector::start().await.unwrap();
    let mut command = program(1);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()).env("OTEL_TRACES_SAMPLER", "always_off");
    run_to_end(&mut command).await;
    assert_eq!(collector.spans(), []);
}
