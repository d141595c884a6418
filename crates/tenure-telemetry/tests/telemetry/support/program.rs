//! A program for tests: it hands over as many spans as it is told, counts as often, says so, and ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::{Duration, SystemTime};

use tenure_core::trace::{SpanId, TraceContext};
use tenure_telemetry::{
    FinishedSpan, KeyValue, LogFormat, SpanKind, Telemetry, TelemetryOptions, meter, spans,
};

/// The trace of its submitter.
const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::main]
async fn main() {
    let count: u8 = std::env::args().nth(1).unwrap().parse().unwrap();
    let options = TelemetryOptions {
        service: "test-program",
        instance: "one".to_owned(),
        log_filter: "info".to_owned(),
        log_format: LogFormat::Json,
        metrics_page: true,
    };
    let telemetry = Telemetry::start(&options).unwrap();
    let given: TraceContext = GIVEN.parse().unwrap();
    let counter = meter().u64_counter("tenure.test.spans").build();
    let mut composed = 0;
    for number in 1..=count {
        // More than any queue holds, so that a dead collector is met by full ones.
        for _ in 0..200 {
            counter.add(1, &[]);
            spans().record(given.sampled, || {
                composed += 1;
                compose_span(given, number)
            });
        }
    }
    let page = telemetry.metrics_page().unwrap().render().unwrap();
    let counted = page.lines().find(|line| line.starts_with("tenure_test_spans_total"));
    println!("exported {}, composed {composed}, {}", spans().are_exported(), counted.unwrap());
    telemetry.shutdown().await;
    println!("ended");
}

fn compose_span(given: TraceContext, number: u8) -> FinishedSpan {
    let now = SystemTime::now();
    FinishedSpan {
        name: "run",
        context: given.at(SpanId([number; 8])),
        parent: Some(given.span),
        continues: (number > 1).then(|| SpanId([number - 1; 8])),
        kind: SpanKind::Internal,
        began: now - Duration::from_secs(3),
        ended: now,
        attributes: vec![KeyValue::new("tenure.run", i64::from(number))],
        failure: (number == 2).then(|| "it crashed".to_owned()),
    }
}
