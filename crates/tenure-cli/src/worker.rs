//! `tenure worker`: executes runs until it is told to stop.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use tenure_core::{limits, reason::Reason, refusal::Refusal};
use tenure_telemetry::MetricsPage;
use tenure_worker::{InvalidOption, ServeError, StartError, Worker, WorkerOptions, conceal_process};

use crate::{
    context::Context,
    data_home::find_data_directory,
    failure::Failure,
    host_name::name_of_host,
    logging::{LoggingArgs, start_telemetry},
    probes,
    relative::parse_span,
};

/// Execute runs
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The worker's name; otherwise the host's.
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Runs at the same time.
    #[arg(long, value_name = "N", default_value_t = limits::SLOTS_DEFAULT)]
    slots: u32,
    /// What this host offers to agents that require it.
    #[arg(long, value_name = "K[=V]")]
    label: Vec<String>,
    /// Take only this agent's jobs.
    #[arg(long, value_name = "A")]
    agent: Vec<String>,
    /// How long its leases live without a renewal: 5s to 5m. Shorter finds a dead host sooner, longer rides out more.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = parse_span)]
    ttl: Duration,
    /// As root: the user of every child whose agent names none.
    #[arg(long, value_name = "USER")]
    run_as: Option<String>,
    /// Where the runs' directories are.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Keep the runs' directories.
    #[arg(long)]
    keep_runs: bool,
    /// Where to serve /livez, /readyz and /metrics; otherwise nowhere.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    #[command(flatten)]
    logging: LoggingArgs,
}

pub(crate) async fn run_worker(context: &Context, args: WorkerArgs) -> Result<(), Failure> {
    let name = args.name.clone().unwrap_or_else(|| name_of_host("worker"));
    let telemetry = start_telemetry(&args.logging, "tenure-worker", name.clone(), args.http.is_some())?;
    let served = serve(context, args, name, telemetry.metrics_page()).await;
    telemetry.shutdown().await;
    served
}

async fn serve(
    context: &Context,
    args: WorkerArgs,
    name: String,
    page: Option<MetricsPage>,
) -> Result<(), Failure> {
    let listener = match args.http {
        Some(address) => Some(probes::listen(address, "worker").await?),
        None => None,
    };
    let data_dir = args.data_dir.unwrap_or_else(|| find_data_directory("worker"));
    let options = WorkerOptions {
        slots: args.slots,
        labels: args.label,
        agents: args.agent,
        ttl: args.ttl,
        run_as: args.run_as,
        keep_runs: args.keep_runs,
        credential: context.global.credential.read_worker()?,
        ..WorkerOptions::new(name, context.global.endpoint.clone(), data_dir)
    };
    let running = Worker::start(options).map_err(|error| explain_start(&error))?;
    if let Err(error) = conceal_process() {
        tracing::warn!(%error, "children of the worker's own user can read its memory");
    }
    if let Some(listener) = listener {
        tracing::info!(address = ?listener.local_addr().ok(), "probes and metrics are served");
        let attached = running.watch_attached();
        let not_ready = move || (!*attached.borrow()).then_some("no coordinator has attached the worker");
        tokio::spawn(probes::serve(listener, page, not_ready));
    }
    running.serve_until_signalled().await.map_err(|error| explain_serve(&error))
}

fn explain_start(error: &StartError) -> Failure {
    let reason = match error {
        StartError::Option { source: InvalidOption::Plaintext(_), .. } => Reason::TlsRequired,
        StartError::Option { .. } | StartError::Handler(_) | StartError::ReplayAsked => {
            Reason::InvalidArgument
        }
        StartError::Places(_) | StartError::Guard(_) => Reason::Internal,
    };
    Failure::from_error(reason, error)
}

fn explain_serve(error: &ServeError) -> Failure {
    match error {
        ServeError::Refused(refused) => Failure::from_error(refused.refusal.reason, refused),
        ServeError::Signals(_) | ServeError::Failed(_) => {
            Failure::caused(Refusal::new(Reason::Internal, "the worker ended"), error)
        }
    }
}
