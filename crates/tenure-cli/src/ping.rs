//! `tenure ping`: does a coordinator answer, and is it ready for work. With `--http` it asks the probes of one process on this
//! host instead, be it a coordinator or a worker. Neighbours: `probes` serves those.

use std::net::SocketAddr;

use axum::body::{Body, to_bytes};
use clap::Args;
use hyper::{Request, StatusCode, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tenure_core::{reason::Reason, refusal::Refusal};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    context::{Context, PATIENCE},
    failure::Failure,
};

/// What is read of an answer: it is a line.
const ANSWER_MAX_BYTES: usize = 4 * 1024;

/// Ask whether a coordinator answers
#[derive(Debug, Args)]
pub(crate) struct PingArgs {
    /// Ask also whether it is ready: its database answers.
    #[arg(long)]
    ready: bool,
    /// Ask the coordinator or worker that serves probes here whether it is ready: a worker is once it is attached.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "ready")]
    http: Option<SocketAddr>,
}

pub(crate) async fn ping(context: &Context, args: PingArgs) -> Result<(), Failure> {
    match args.http {
        Some(address) => ping_probes(context, address).await,
        None => ping_coordinator(context, args.ready).await,
    }
}

async fn ping_coordinator(context: &Context, wants_ready: bool) -> Result<(), Failure> {
    let health = context.client()?.check_health().await?;
    if wants_ready && !health.ready {
        let message = format!("the coordinator at {} is not ready for work", health.endpoint);
        return Err(Failure::new(Reason::DatabaseUnavailable, message));
    }
    if context.printer.json {
        return context.printer.object(&health);
    }
    let ready = if health.ready { "ready" } else { "not ready" };
    context.printer.line(&format!("{} answers and is {ready}", health.endpoint))
}

async fn ping_probes(context: &Context, address: SocketAddr) -> Result<(), Failure> {
    let unavailable = |words: String| Refusal::new(Reason::CoordinatorUnavailable, words);
    let asked = timeout(PATIENCE, ask_readiness(address)).await;
    let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs()).into()));
    let (status, words) = asked.map_err(|cause| {
        Failure::caused(unavailable(format!("asking http://{address}/readyz")), cause.as_ref())
    })?;
    if status != StatusCode::OK {
        return Err(unavailable(format!("what serves at {address} is not ready: {}", words.trim())).into());
    }
    if context.printer.json {
        return context.printer.object(&json!({ "http": address, "ready": true }));
    }
    context.printer.line(&format!("what serves at {address} is ready"))
}

async fn ask_readiness(
    address: SocketAddr,
) -> Result<(StatusCode, String), Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It drives the request, and ends with the runtime; its own failure is the request's too.
    tokio::spawn(connection);
    let request = Request::get("/readyz").header(HOST, address.to_string()).body(String::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let words = to_bytes(Body::new(response.into_body()), ANSWER_MAX_BYTES).await?;
    Ok((status, String::from_utf8_lossy(&words).into_owned()))
}
