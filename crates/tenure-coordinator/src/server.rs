//! The services on the wire, on one listener: jobs, agents, attention, workers, health and reflection. It owns the settings of the
//! transport (windows, streams, metadata, keepalive) and nothing of what is decided. Neighbours: one module for each
//! service, `connections` and `calls` bound what comes, `authentication` lets in, `caller` says who is asking, `refusals` what a failure is called.

mod authentication;
pub(crate) mod caller;

mod calls;
mod connections;

mod call;
mod intact;
mod job_request;

mod accepted;
mod agent_service;
mod attention_service;
mod halt_service;
mod job_service;
mod worker_service;

mod blobs;
mod effects;
mod erasure;
mod find_job;
pub(crate) mod followers;
mod job_view;
mod joining;
mod layovers;
mod output_stream;
mod reconcile;
mod record_stream;
mod sending;
mod sessions;
mod steps;
mod undo;
mod waits;

use std::time::Duration;

use tenure_core::limits::{
    CALLS_PER_CONNECTION_MAX, MESSAGE_MAX_BYTES, METADATA_MAX_BYTES, TRANSPORT_WINDOW_BYTES,
};
use tenure_proto::{
    FILE_DESCRIPTOR_SET,
    v1::{
        agent_service_server::AgentServiceServer, attention_service_server::AttentionServiceServer,
        halt_service_server::HaltServiceServer, job_service_server::JobServiceServer,
        worker_service_server::WorkerServiceServer,
    },
};
use tokio::{net::TcpListener, task::JoinHandle};
use tonic::transport::{Server, ServerTlsConfig};

use crate::{coordinator::Parts, options::StartError};
use agent_service::Agents;
use attention_service::Attention;
use authentication::AuthenticationLayer;
use calls::{BoundCalls, places::PlacesLayer};
use connections::Connections;
use halt_service::Halts;
use job_service::Jobs;
use worker_service::Workers;

/// A connection that is silent for so long is asked whether it lives.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
/// One that does not answer for so long is closed.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whose health is said; the empty name stands for all.
const SERVICES: [&str; 6] = [
    "",
    "tenure.v1.JobService",
    "tenure.v1.AgentService",
    "tenure.v1.AttentionService",
    "tenure.v1.HaltService",
    "tenure.v1.WorkerService",
];

/// Serves until the coordinator stops; with TLS where that is given, and with `certificates` only workers that show one.
pub(crate) fn serve(
    parts: Parts,
    listener: TcpListener,
    tls: Option<ServerTlsConfig>,
    certificates: bool,
) -> Result<JoinHandle<Result<(), tonic::transport::Error>>, StartError> {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(StartError::Reflection)?;
    let (health_reporter, health) = tonic_health::server::health_reporter();
    parts.tasks.spawn(report_health(parts.clone(), health_reporter));
    let stopping = parts.stopping.clone();
    let places = PlacesLayer::new(parts.credentials.clone(), stopping.clone());
    let gate = AuthenticationLayer::new(parts.credentials.clone(), certificates);
    let jobs = JobServiceServer::new(Jobs::new(parts.clone()))
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES);
    let agents = AgentServiceServer::new(Agents::new(parts.clone()))
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES);
    let attention = AttentionServiceServer::new(Attention::new(parts.clone()))
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES);
    let halts = HaltServiceServer::new(Halts::new(parts.clone()))
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES);
    let workers = WorkerServiceServer::new(Workers::new(parts))
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES);
    let connections = Connections::new();
    let bounds = BoundCalls::new(
        connections.clone(),
        &[FILE_DESCRIPTOR_SET, tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET],
    );
    let builder = match tls {
        Some(tls) => Server::builder().tls_config(tls).map_err(StartError::Tls)?,
        None => Server::builder(),
    };
    let server = builder
        .layer(bounds)
        .max_concurrent_streams(Some(CALLS_PER_CONNECTION_MAX))
        .http2_max_header_list_size(METADATA_MAX_BYTES)
        .initial_connection_window_size(TRANSPORT_WINDOW_BYTES)
        .initial_stream_window_size(TRANSPORT_WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .layer(gate)
        .layer(places)
        .add_service(reflection)
        .add_service(health)
        .add_service(jobs)
        .add_service(agents)
        .add_service(attention)
        .add_service(halts)
        .add_service(workers);
    let incoming = connections.accept(listener);
    Ok(tokio::spawn(server.serve_with_incoming_shutdown(incoming, stopping.cancelled_owned())))
}

/// The health of the server follows whether the database answers.
async fn report_health(parts: Parts, reporter: tonic_health::server::HealthReporter) {
    let mut changes = parts.readiness.hear_changes();
    loop {
        let stopping = parts.stopping.is_cancelled();
        say_health(&reporter, *changes.borrow_and_update() && !stopping).await;
        if stopping {
            return;
        }
        tokio::select! {
            () = parts.stopping.cancelled() => {}
            // The sender is in `parts`, so it is there.
            _ = changes.changed() => {}
        }
    }
}

async fn say_health(reporter: &tonic_health::server::HealthReporter, ready: bool) {
    let status =
        if ready { tonic_health::ServingStatus::Serving } else { tonic_health::ServingStatus::NotServing };
    for service in SERVICES {
        reporter.set_service_status(service, status).await;
    }
}
