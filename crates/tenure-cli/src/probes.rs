//! What an orchestrator and Prometheus ask over HTTP: `/livez` (this process answers), `/readyz` (it can do its work too) and
//! `/metrics`. It serves nothing else, and nothing that is a secret.

use std::{io, net::SocketAddr};

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::get,
};
use tenure_core::{reason::Reason, refusal::Refusal};
use tenure_telemetry::MetricsPage;
use tokio::net::TcpListener;

use crate::failure::Failure;

/// Takes the port, before anything else is started. `verb` is the one that was told the address.
pub(crate) async fn listen(address: SocketAddr, verb: &str) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() {
        let message = format!("serving probes on {address} is refused, because it is not a loopback address");
        return Err(Failure::new(Reason::LoopbackOnly, message));
    }
    TcpListener::bind(address).await.map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::AddrInUse => Reason::PortInUse,
            _ => Reason::InvalidArgument,
        };
        let refusal = Refusal::new(reason, format!("serving probes on {address}"))
            .with_detail("address", address)
            .with_next(format!("tenure {verb} --http 127.0.0.1:0"));
        Failure::caused(refusal, &error)
    })
}

/// Answers until the program ends. `not_ready` says why it is not, where it is not.
pub(crate) async fn serve(
    listener: TcpListener,
    page: Option<MetricsPage>,
    not_ready: impl Fn() -> Option<&'static str> + Clone + Send + Sync + 'static,
) {
    let ready = async move || match not_ready() {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    };
    let router = Router::new()
        .route("/livez", get(async || "live\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(async move || render_metrics(page.as_ref())));
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "the probes are no longer served");
    }
}

fn render_metrics(page: Option<&MetricsPage>) -> Response {
    match page.map(MetricsPage::render) {
        Some(Ok(text)) => ([(CONTENT_TYPE, MetricsPage::CONTENT_TYPE)], text).into_response(),
        Some(Err(error)) => {
            tracing::error!(%error, "the metrics cannot be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
