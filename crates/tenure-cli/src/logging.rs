//! How the programs that serve are seen: their log, to stderr, as text or as JSON, filtered by TENURE_LOG; spans and metrics
//! over OTLP where the standard OTEL_* variables say so. The verbs of people do not log: what they have to say they print.
//! Neighbours: `tenure-telemetry` does it.

use clap::{Args, ValueEnum};
use tenure_core::reason::Reason;
use tenure_telemetry::{LogFormat, StartError, Telemetry, TelemetryOptions};

use crate::failure::Failure;

/// What is logged, where nothing is said.
const DEFAULT_FILTER: &str = "info";

/// How to log.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoggingArgs {
    /// What to log to stderr, for example debug or tenure_coordinator=trace.
    #[arg(long, env = "TENURE_LOG", hide_env_values = true, value_name = "FILTER", default_value = DEFAULT_FILTER)]
    log: String,
    /// How to log it; json is one object a line.
    #[arg(
        long,
        env = "TENURE_LOG_FORMAT",
        hide_env_values = true,
        value_name = "FORMAT",
        default_value = "text"
    )]
    log_format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Begins to log, to trace and to measure. `metrics_page`: whether metrics are kept for /metrics.
pub(crate) fn start_telemetry(
    args: &LoggingArgs,
    service: &'static str,
    instance: String,
    metrics_page: bool,
) -> Result<Telemetry, Failure> {
    let options = TelemetryOptions {
        service,
        instance,
        log_filter: args.log.clone(),
        log_format: match args.log_format {
            Format::Text => LogFormat::Text,
            Format::Json => LogFormat::Json,
        },
        metrics_page,
    };
    Telemetry::start(&options).map_err(|error| explain_start(&error))
}

fn explain_start(error: &StartError) -> Failure {
    let reason = match error {
        StartError::Filter { .. }
        | StartError::Protocol { .. }
        | StartError::Sampler(_)
        | StartError::Exporter { .. } => Reason::InvalidArgument,
        StartError::Log(_) | StartError::Page(_) => Reason::Internal,
    };
    Failure::from_error(reason, error)
}
