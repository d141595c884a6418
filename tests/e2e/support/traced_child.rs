//! A child that traces, as any instrumented program would: it knows nothing of Tenure but the variable TRACEPARENT, and
//! sends one span over OTLP, named by its argument, with that as its parent. For tests of the whole.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use opentelemetry::{
    propagation::TextMapPropagator as _,
    trace::{Span as _, Tracer as _, TracerProvider as _},
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (name, endpoint) =
        (arguments.next().context("the name")?, arguments.next().context("the collector")?);
    let given = std::env::var("TRACEPARENT").context("TRACEPARENT")?;
    let carrier = HashMap::from([("traceparent".to_owned(), given)]);
    let parent = TraceContextPropagator::new().extract(&carrier);
    let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build()?;
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name("child").build())
        .build();
    provider.tracer("child").start_with_context(name, &parent).end();
    tokio::task::spawn_blocking(move || provider.shutdown()).await??;
    Ok(())
}
