//! What is seen of the programs that serve: their log, the spans of jobs, and metrics. It sets up the exporters from the
//! standard OTEL_* variables and takes them down again. Promises: where nothing is configured nothing is exported and
//! nothing is kept; exporting never makes the work wait; a collector that is dead or never answers costs one warning, and
//! delays the end of the program by `limits::TELEMETRY_SHUTDOWN_MAX` at most.
//!
//! It defines no metric: coordinators and workers do, in one file each. It says nothing over the
//! network but OTLP, and serves nothing: whoever has an HTTP listener serves the text that [`MetricsPage`] renders.
//! As the log is, [`spans`] and [`meter`] are one for the process. Neighbours: the command line starts it,
//! `tenure-coordinator` and `tenure-worker` use it.

mod telemetry;

mod job_spans;
mod logs;
mod otlp;
mod page;
mod sampling;
mod spans;

pub use job_spans::{AdmissionSpan, RunSpan};
pub use logs::LogFormat;
pub use opentelemetry::{
    KeyValue,
    metrics::{Counter, Histogram, Meter, ObservableGauge},
};
pub use page::{MetricsPage, RenderError};
pub use spans::{FinishedSpan, SpanKind, Spans, spans};
pub use telemetry::{StartError, Telemetry, TelemetryOptions, meter};
