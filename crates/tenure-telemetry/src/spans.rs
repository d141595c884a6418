//! Spans of jobs. A span is handed over once it is complete, with the ids that the job and the run give it: nothing is
//! kept while it lasts, and where nothing is exported not even it is composed. Neighbours: the core's `trace` names spans,
//! coordinators and workers hand them over.

use std::{cell::Cell, fmt, sync::OnceLock, time::SystemTime};

pub use opentelemetry::trace::SpanKind;
use opentelemetry::{
    Context, KeyValue,
    trace::{
        Link, Span as _, SpanContext, SpanId, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
        Tracer as _, TracerProvider as _,
    },
};
use opentelemetry_sdk::trace::{
    IdGenerator, RandomIdGenerator, Sampler, SamplingDecision, SdkTracer, SdkTracerProvider,
    ShouldSample as _,
};
use tenure_core::trace::{self, TraceContext};

thread_local! {
    /// The ids of the span that this thread is about to hand over.
    static GIVEN: Cell<Option<(TraceId, SpanId)>> = const { Cell::new(None) };
}

/// Gives a span the ids that it was handed over with.
#[derive(Debug, Default)]
pub(crate) struct GivenIds {
    random: RandomIdGenerator,
}

impl IdGenerator for GivenIds {
    fn new_trace_id(&self) -> TraceId {
        GIVEN.get().map_or_else(|| self.random.new_trace_id(), |(trace, _)| trace)
    }

    fn new_span_id(&self) -> SpanId {
        GIVEN.get().map_or_else(|| self.random.new_span_id(), |(_, span)| span)
    }
}

/// A span that is complete.
#[derive(Debug, Clone)]
pub struct FinishedSpan {
    /// What it is, in a word of the glossary.
    pub name: &'static str,
    /// Its trace, its own id, and whether the trace is recorded.
    pub context: TraceContext,
    /// The span that it is a part of; none: it begins the trace.
    pub parent: Option<trace::SpanId>,
    /// The earlier span of the same trace that it continues.
    pub continues: Option<trace::SpanId>,
    /// Which side of a call it is.
    pub kind: SpanKind,
    /// When it began.
    pub began: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
    /// What is known of it.
    pub attributes: Vec<KeyValue>,
    /// Why it failed; none: it did not.
    pub failure: Option<String>,
}

/// Where spans go.
pub struct Spans {
    tracer: Option<SdkTracer>,
    sampler: Sampler,
}

/// Nobody wants spans, and whoever does records every trace.
static UNSET: Spans = Spans { tracer: None, sampler: Sampler::AlwaysOn };
static SET: OnceLock<Spans> = OnceLock::new();

/// Where the spans of this process go.
#[must_use]
pub fn spans() -> &'static Spans {
    SET.get().unwrap_or(&UNSET)
}

/// Sets it, once.
pub(crate) fn set_spans(spans: Spans) {
    // The log, which is started before, is started once.
    let _ = SET.set(spans);
}

impl Spans {
    pub(crate) fn new(provider: Option<&SdkTracerProvider>, scope: &'static str, sampler: Sampler) -> Self {
        Self { tracer: provider.map(|provider| provider.tracer(scope)), sampler }
    }

    /// True where spans are exported.
    #[must_use]
    pub const fn are_exported(&self) -> bool {
        self.tracer.is_some()
    }

    /// Whether a trace that begins here is recorded.
    #[must_use]
    pub fn samples(&self, trace: [u8; 16]) -> bool {
        let trace = TraceId::from_bytes(trace);
        let sampled = self.sampler.should_sample(None, trace, "", &SpanKind::Internal, &[], &[]);
        sampled.decision == SamplingDecision::RecordAndSample
    }

    /// Hands a span over; it is composed only where somebody wants it. Never waits: what does not fit is dropped.
    pub fn record(&self, sampled: bool, compose: impl FnOnce() -> FinishedSpan) {
        if let Some(tracer) = self.tracer.as_ref().filter(|_| sampled) {
            hand_over(tracer, compose());
        }
    }
}

fn hand_over(tracer: &SdkTracer, span: FinishedSpan) {
    let at = |id: trace::SpanId| {
        let flags = if span.context.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
        let trace = TraceId::from_bytes(span.context.trace);
        SpanContext::new(trace, SpanId::from_bytes(id.0), flags, true, TraceState::NONE)
    };
    let parent = match span.parent {
        Some(parent) => Context::new().with_remote_span_context(at(parent)),
        None => Context::new(),
    };
    let own = at(span.context.span);
    let builder = tracer
        .span_builder(span.name)
        .with_kind(span.kind.clone())
        .with_start_time(span.began)
        .with_links(span.continues.map(|earlier| Link::with_context(at(earlier))).into_iter().collect())
        .with_attributes(span.attributes);
    GIVEN.set(Some((own.trace_id(), own.span_id())));
    let mut started = tracer.build_with_context(builder, &parent);
    GIVEN.set(None);
    if let Some(why) = span.failure {
        started.set_status(Status::error(why));
    }
    started.end_with_timestamp(span.ended);
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("exported", &self.are_exported()).finish_non_exhaustive()
    }
}
