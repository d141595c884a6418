//! The export over OTLP, as the standard variables configure it: where an endpoint is given, and only there. Batches are
//! sent from threads of their own; what does not fit into their queues while a collector is away is dropped. Neighbours:
//! `telemetry`.

use std::env;

use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::metrics::PeriodicReader;

use crate::telemetry::StartError;

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExportSettings {
    pub(crate) traces: bool,
    pub(crate) metrics: bool,
}

impl ExportSettings {
    /// As the environment of this process says.
    pub(crate) fn from_environment() -> Result<Self, StartError> {
        Self::read(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, StartError> {
        let disabled = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let common = variable("OTEL_EXPORTER_OTLP_ENDPOINT").is_some();
        let wanted = |endpoint, exporter| {
            let none = variable(exporter).is_some_and(|value| value == "none");
            !disabled && !none && (common || variable(endpoint).is_some())
        };
        let settings = Self {
            traces: wanted("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"),
            metrics: wanted("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_METRICS_EXPORTER"),
        };
        let asked = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", settings.traces || settings.metrics),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", settings.traces),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", settings.metrics),
        ];
        for (name, _) in asked.into_iter().filter(|(_, matters)| *matters) {
            if let Some(given) = variable(name).filter(|given| given != "grpc") {
                return Err(StartError::Protocol { variable: name, given });
            }
        }
        Ok(settings)
    }
}

pub(crate) fn build_span_exporter() -> Result<SpanExporter, StartError> {
    let built = SpanExporter::builder().with_tonic().build();
    built.map_err(|source| StartError::Exporter { what: "traces", source })
}

pub(crate) fn build_metric_reader() -> Result<PeriodicReader<MetricExporter>, StartError> {
    let built = MetricExporter::builder().with_tonic().build();
    let exporter = built.map_err(|source| StartError::Exporter { what: "metrics", source })?;
    Ok(PeriodicReader::builder(exporter).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<ExportSettings, StartError> {
        ExportSettings::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317");

    #[test]
    fn without_an_endpoint_nothing_is_exported() {
        let none = ExportSettings { traces: false, metrics: false };
        assert_eq!(read(&[]).unwrap(), none);
        assert_eq!(
            read(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]).unwrap(),
            none,
            "nothing asks for it"
        );
        assert_eq!(read(&[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")]).unwrap(), none);
    }

    #[test]
    fn an_endpoint_exports_both_and_each_can_be_had_alone() {
        assert_eq!(read(&[ENDPOINT]).unwrap(), ExportSettings { traces: true, metrics: true });
        let traces_alone = ExportSettings { traces: true, metrics: false };
        assert_eq!(read(&[ENDPOINT, ("OTEL_METRICS_EXPORTER", "none")]).unwrap(), traces_alone);
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4317");
        assert_eq!(read(&[own]).unwrap(), traces_alone);
    }

    #[test]
    fn a_protocol_that_is_not_spoken_is_refused_by_name() {
        let error = read(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OTEL_EXPORTER_OTLP_PROTOCOL asks for \"http/protobuf\", and only grpc is spoken"
        );
    }
}
