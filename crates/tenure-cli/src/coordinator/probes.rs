//! What an orchestrator asks over HTTP: `/livez` (this process answers) and `/readyz` (its database answers too). It
//! serves nothing else.

use std::{io, net::SocketAddr};

use axum::{Router, http::StatusCode, routing::get};
use tenure_coordinator::Readiness;
use tenure_core::{reason::Reason, refusal::Refusal};
use tokio::net::TcpListener;

use crate::failure::Failure;

/// Takes the port, before anything else is started.
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
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
            .with_next("tenure coordinator --http 127.0.0.1:0");
        Failure::caused(refusal, &error)
    })
}

/// Answers probes until the program ends.
pub(super) async fn serve(listener: TcpListener, readiness: Readiness) {
    let ready = move || {
        let readiness = readiness.clone();
        async move {
            if readiness.is_ready() {
                (StatusCode::OK, "ready\n")
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n")
            }
        }
    };
    let router = Router::new().route("/livez", get(async || "live\n")).route("/readyz", get(ready));
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "the probes are no longer served");
    }
}
