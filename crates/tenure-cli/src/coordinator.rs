//! `tenure coordinator`: serves gRPC until it is told to stop. Any number of them may run on one database.

mod exposure;

use std::{net::SocketAddr, time::Duration};

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tenure_coordinator::{BlobLocation, Coordinator, CoordinatorOptions, StartError};
use tenure_core::reason::Reason;
use tenure_telemetry::MetricsPage;

pub(crate) use self::exposure::EXPOSURE_VARIABLES;
use self::exposure::ExposureArgs;
use crate::{
    context::Context,
    database::{DatabaseArgs, ListenerArgs, add_next},
    failure::Failure,
    host_name::name_of_coordinator,
    logging::{LoggingArgs, start_telemetry},
    probes,
    relative::parse_span,
    shutdown::StopSignals,
};

/// How long what is under way may take to end after a signal: less than the 30 s after which Kubernetes kills.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(25);

/// Serve clients and workers
#[derive(Debug, Args)]
pub(crate) struct CoordinatorArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    listener: ListenerArgs,
    /// Where to serve gRPC; without credentials only a loopback address, beyond it only with TLS.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// Where to serve /livez, /readyz and /metrics.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7421")]
    http: SocketAddr,
    /// How long to wait at the start for a database that does not answer.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    wait_for_database: Duration,
    /// How often to look without being told by another coordinator: 100ms to 5m. What a lost notification may cost.
    #[arg(long, env = "TENURE_POLL_INTERVAL", value_name = "SPAN", default_value = "5s", value_parser = parse_span)]
    poll_interval: Duration,
    /// Where values of more than 256 KiB are: a directory, or s3://BUCKET/PREFIX?endpoint=URL&region=R. Without it they are
    /// refused.
    #[arg(long, env = "TENURE_BLOBS", value_name = "PLACE")]
    blobs: Option<BlobLocation>,
    #[command(flatten)]
    exposure: ExposureArgs,
    #[command(flatten)]
    logging: LoggingArgs,
}

pub(crate) async fn run_coordinator(context: &Context, args: CoordinatorArgs) -> Result<(), Failure> {
    let instance = name_of_coordinator(args.listen);
    let telemetry = start_telemetry(&args.logging, "tenure-coordinator", instance, true)?;
    let served = serve(context, args, telemetry.metrics_page()).await;
    telemetry.shutdown().await;
    served
}

async fn serve(context: &Context, args: CoordinatorArgs, page: Option<MetricsPage>) -> Result<(), Failure> {
    raise_open_files();
    let mut signals = StopSignals::listen()?;
    let listener = probes::listen(args.http, "coordinator").await?;
    let options = CoordinatorOptions {
        wait_for_database: args.wait_for_database,
        poll_interval: args.poll_interval,
        listen_database_url: args.listener.into_url()?,
        tokens: args.exposure.tokens.clone(),
        allow_plaintext: context.global.credential.allow_plaintext,
        tls: args.exposure.tls_files(),
        blobs: args.blobs.clone(),
        ..CoordinatorOptions::new(args.database.into_url()?, args.listen)
    };
    let started = tokio::select! {
        started = Coordinator::start(options) => started.map_err(|error| explain_start(&error))?,
        () = signals.next() => return Ok(()),
    };
    let http = listener.local_addr()?;
    let readiness = started.readiness();
    let not_ready = move || (!readiness.is_ready()).then_some("the database does not answer");
    tokio::spawn(probes::serve(listener, page, not_ready));
    print_ready(context, started.scheme(), started.local_addr(), http)?;
    let ended = tokio::select! {
        () = signals.next() => Ok(()),
        () = started.await_end() => Err(explain_defect()),
    };
    tracing::info!("the coordinator drains: no new calls and grants; a second signal ends it at once");
    tokio::select! {
        () = started.shutdown(SHUTDOWN_GRACE) => {}
        () = signals.next() => {}
    }
    ended
}

/// Takes all the open files that the system lets this process have: each connection is one. Where that is refused, the
/// coordinator takes as many connections as there is room for.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    if let Err(error) = raised {
        tracing::warn!(%error, files = ?limit.current, "the number of open files could not be raised");
    }
}

/// Says where it listens: port 0 has become a number. Whoever started it may wait for this line.
fn print_ready(context: &Context, scheme: &str, listen: SocketAddr, http: SocketAddr) -> Result<(), Failure> {
    if context.printer.json {
        return context.printer.object(&json!({ "listen": listen, "http": http }));
    }
    context
        .printer
        .line(&format!("the coordinator is ready at {scheme}://{listen} (probes at http://{http}/readyz)"))
}

fn explain_defect() -> Failure {
    Failure::new(Reason::Internal, "a part of the coordinator ended by a defect, which its log names")
}

fn explain_start(error: &StartError) -> Failure {
    add_next(error.reason(), Failure::from_error(error.reason(), error))
}
