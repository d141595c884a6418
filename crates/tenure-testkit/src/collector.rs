//! An OTLP collector over gRPC that keeps what it is sent, for tests to look at. It takes traces and metrics and answers
//! everything with success; it draws nothing together and forgets nothing. Whoever wants one that is dead or never answers
//! binds a port and does nothing.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::{
            ExportMetricsServiceRequest, ExportMetricsServiceResponse,
            metrics_service_server::{MetricsService, MetricsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    common::v1::{KeyValue, any_value::Value},
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::wait_for;

/// A span as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedSpan {
    /// The service that sent it.
    pub service: String,
    /// What it is called.
    pub name: String,
    /// Its trace, in hexadecimal digits.
    pub trace: String,
    /// Its own id.
    pub span: String,
    /// Its parent's id; empty: it has none.
    pub parent: String,
    /// The ids of the spans that it links to, each with its trace.
    pub links: Vec<(String, String)>,
    /// Its attributes as text, in the order sent.
    pub attributes: Vec<(String, String)>,
    /// Why it failed; none: it did not.
    pub failure: Option<String>,
    /// How long it lasted.
    pub lasted: Duration,
}

impl ReceivedSpan {
    /// The value of an attribute; empty where it has none.
    #[must_use]
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// A collector, until it is dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    received: Arc<Received>,
    serving: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Received {
    spans: Mutex<Vec<ReceivedSpan>>,
    metrics: Mutex<BTreeSet<String>>,
}

impl Collector {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("listening for OTLP")?;
        let address = listener.local_addr()?;
        let received = Arc::new(Received::default());
        let server = Server::builder()
            .add_service(TraceServiceServer::from_arc(Arc::clone(&received)))
            .add_service(MetricsServiceServer::from_arc(Arc::clone(&received)))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let serving = tokio::spawn(async move {
            // A collector that fails receives nothing, and that is what its test finds.
            let _ = server.await;
        });
        Ok(Self { address, received, serving })
    }

    /// As OTEL_EXPORTER_OTLP_ENDPOINT takes it.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans that arrived, in their order.
    #[must_use]
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.received.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The names of the metrics that arrived.
    #[must_use]
    pub fn metrics(&self) -> BTreeSet<String> {
        self.received.metrics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a span that is wanted.
    ///
    /// # Panics
    /// None arrived in time.
    pub async fn wait_for_span(
        &self,
        what: &str,
        timeout: Duration,
        wanted: impl Fn(&ReceivedSpan) -> bool,
    ) -> ReceivedSpan {
        wait_for(what, timeout, async || {
            let spans = self.spans();
            let seen: Vec<_> = spans.iter().map(|span| span.name.clone()).collect();
            spans.into_iter().find(|span| wanted(span)).ok_or(seen)
        })
        .await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut kept = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        for resource_spans in request.into_inner().resource_spans {
            let resource = resource_spans.resource.unwrap_or_default();
            let service = read_attributes(&resource.attributes);
            let service = service.into_iter().find(|(name, _)| name == "service.name");
            let service = service.map(|(_, value)| value).unwrap_or_default();
            let spans = resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
            kept.extend(spans.map(|span| read_span(service.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Received {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let mut kept = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let resources = request.into_inner().resource_metrics.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_metrics);
        kept.extend(scopes.flat_map(|scope| scope.metrics).map(|metric| metric.name));
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

fn read_span(service: String, span: opentelemetry_proto::tonic::trace::v1::Span) -> ReceivedSpan {
    // 2 is the code of an error.
    let failure = span.status.filter(|status| status.code == 2).map(|status| status.message);
    let lasted_ns = span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano);
    ReceivedSpan {
        service,
        name: span.name,
        trace: hex::encode(span.trace_id),
        span: hex::encode(span.span_id),
        parent: hex::encode(span.parent_span_id),
        links: span
            .links
            .into_iter()
            .map(|link| (hex::encode(link.trace_id), hex::encode(link.span_id)))
            .collect(),
        attributes: read_attributes(&span.attributes),
        failure,
        lasted: Duration::from_nanos(lasted_ns),
    }
}

fn read_attributes(given: &[KeyValue]) -> Vec<(String, String)> {
    given.iter().map(|attribute| (attribute.key.clone(), read_value(attribute))).collect()
}

fn read_value(attribute: &KeyValue) -> String {
    match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(truth)) => truth.to_string(),
        Some(other) => format!("{other:?}"),
        None => String::new(),
    }
}
