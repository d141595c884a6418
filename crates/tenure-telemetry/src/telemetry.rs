//! Everything that is seen of one program, from its start to its end. Neighbours: `logs`, `otlp`, `page` and `spans` are
//! its parts.

use std::{thread, time::Duration};

use opentelemetry::{KeyValue, global, metrics::Meter};
use opentelemetry_sdk::{
    Resource, error::OTelSdkResult, metrics::SdkMeterProvider, trace::SdkTracerProvider,
};
use tenure_core::limits::TELEMETRY_SHUTDOWN_MAX;
use tokio::{sync::oneshot, time::timeout};

use crate::{
    logs::{self, LogFormat},
    otlp::{ExportSettings, build_metric_reader, build_span_exporter},
    page::MetricsPage,
    sampling::{UnknownSampler, read_sampler},
    spans::{GivenIds, Spans, set_spans},
};

/// The name under which spans and metrics are known.
const SCOPE: &str = "tenure";

/// How a program is seen.
#[derive(Debug, Clone)]
pub struct TelemetryOptions {
    /// The name of the service, where OTEL_SERVICE_NAME gives no other.
    pub service: &'static str,
    /// What tells this instance from others: the name of a worker, host and port of a coordinator.
    pub instance: String,
    /// What is logged, in the form of `tracing_subscriber::EnvFilter`.
    pub log_filter: String,
    /// How it is logged.
    pub log_format: LogFormat,
    /// Whether metrics are kept to be rendered as a page.
    pub metrics_page: bool,
}

/// A program that cannot be seen as it is told to be.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The filter.
    #[error("the filter {given:?} of the log cannot be read")]
    Filter {
        /// As given.
        given: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The log was started before.
    #[error("starting the log")]
    Log(#[source] tracing_subscriber::util::TryInitError),
    /// A protocol that is not spoken.
    #[error("{variable} asks for {given:?}, and only grpc is spoken")]
    Protocol {
        /// The variable of the environment.
        variable: &'static str,
        /// Its value.
        given: String,
    },
    /// A sampler that is not known.
    #[error(transparent)]
    Sampler(#[from] UnknownSampler),
    /// An exporter that cannot be made, mostly because of its address.
    #[error("preparing the export of {what} over OTLP")]
    Exporter {
        /// Traces or metrics.
        what: &'static str,
        /// What is wrong.
        #[source]
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// The page of metrics cannot be kept.
    #[error("preparing the page of metrics")]
    Page(#[source] opentelemetry_sdk::error::OTelSdkError),
}

/// What is seen of a running program.
#[derive(Debug)]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    page: Option<MetricsPage>,
}

impl Telemetry {
    /// Begins to log, and to export what the environment configures. Call it inside the runtime that lives as long as the
    /// program: exporters send through it.
    ///
    /// # Errors
    /// A setting that cannot be read; a log that was started before.
    pub fn start(options: &TelemetryOptions) -> Result<Self, StartError> {
        let settings = ExportSettings::from_environment()?;
        let sampler = read_sampler(|name| std::env::var(name).ok())?;
        logs::start_log(&options.log_filter, options.log_format)?;
        let resource = describe_program(options);
        let traces = if settings.traces {
            let provider = SdkTracerProvider::builder()
                .with_batch_exporter(build_span_exporter()?)
                .with_id_generator(GivenIds::default())
                .with_sampler(sampler.clone())
                .with_resource(resource.clone());
            Some(provider.build())
        } else {
            None
        };
        let (metrics, page) = start_metrics(settings.metrics, options.metrics_page, resource)?;
        if let Some(provider) = &metrics {
            global::set_meter_provider(provider.clone());
        }
        set_spans(Spans::new(traces.as_ref(), SCOPE, sampler));
        Ok(Self { traces, metrics, page })
    }

    /// The page of metrics, where it was wanted.
    #[must_use]
    pub fn metrics_page(&self) -> Option<MetricsPage> {
        self.page.clone()
    }

    /// Sends what is left, for as long as the limit allows. A collector that does not answer is left behind: the threads
    /// that wait for it end with the program.
    pub async fn shutdown(self) {
        let (done, heard) = oneshot::channel();
        let flush = move || {
            self.flush(TELEMETRY_SHUTDOWN_MAX);
            // Whoever waited for too long is gone.
            let _ = done.send(());
        };
        // No thread of the runtime: that would wait for its threads.
        if thread::Builder::new().name("telemetry".to_owned()).spawn(flush).is_ok() {
            let _ = timeout(TELEMETRY_SHUTDOWN_MAX, heard).await;
        }
    }

    /// Both at once, because each may take as long as is allowed.
    fn flush(self, within: Duration) {
        let Self { traces, metrics, page: _ } = self;
        thread::scope(|scope| {
            if let Some(traces) = traces {
                scope.spawn(move || note_shutdown("traces", traces.shutdown_with_timeout(within)));
            }
            if let Some(metrics) = metrics {
                scope.spawn(move || note_shutdown("metrics", metrics.shutdown_with_timeout(within)));
            }
        });
    }
}

/// What metrics are made from. Ask for it after [`Telemetry::start`]; before, and where nobody reads metrics, what is made
/// from it measures nothing.
#[must_use]
pub fn meter() -> Meter {
    global::meter(SCOPE)
}

fn note_shutdown(what: &str, ended: OTelSdkResult) {
    if let Err(error) = ended {
        tracing::debug!(what, %error, "what was left could not be exported");
    }
}

fn start_metrics(
    exported: bool,
    as_page: bool,
    resource: Resource,
) -> Result<(Option<SdkMeterProvider>, Option<MetricsPage>), StartError> {
    if !exported && !as_page {
        return Ok((None, None));
    }
    let mut provider = SdkMeterProvider::builder().with_resource(resource);
    let mut page = None;
    if exported {
        provider = provider.with_reader(build_metric_reader()?);
    }
    if as_page {
        let (reader, kept) = MetricsPage::keep().map_err(StartError::Page)?;
        provider = provider.with_reader(reader);
        page = Some(kept);
    }
    Ok((Some(provider.build()), page))
}

/// What every span and metric says of where it comes from. The environment's OTEL_RESOURCE_ATTRIBUTES are added.
fn describe_program(options: &TelemetryOptions) -> Resource {
    let described = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", options.instance.clone()),
    ]);
    if std::env::var_os("OTEL_SERVICE_NAME").is_some() {
        described.build()
    } else {
        described.with_service_name(options.service).build()
    }
}
