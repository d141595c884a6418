//! The metrics of a program as a page for Prometheus. Neighbours: `telemetry` keeps it, whoever serves HTTP renders it.

use opentelemetry_prometheus::PrometheusExporter;
use opentelemetry_sdk::error::OTelSdkError;
use prometheus::{Registry, TextEncoder};

/// Metrics that can be rendered at any time. Clones share them.
#[derive(Debug, Clone)]
pub struct MetricsPage {
    registry: Registry,
}

/// A page that could not be rendered.
#[derive(Debug, thiserror::Error)]
#[error("rendering the metrics")]
pub struct RenderError(#[source] prometheus::Error);

impl MetricsPage {
    /// What a page is sent as.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// A reader that keeps what is measured, and the page of it.
    pub(crate) fn keep() -> Result<(PrometheusExporter, Self), OTelSdkError> {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter().with_registry(registry.clone());
        Ok((exporter.scope_info_enabled(false).build()?, Self { registry }))
    }

    /// The page as it is now.
    ///
    /// # Errors
    /// What was measured has no form on the page: a defect.
    pub fn render(&self) -> Result<String, RenderError> {
        TextEncoder::new().encode_to_string(&self.registry.gather()).map_err(RenderError)
    }
}
