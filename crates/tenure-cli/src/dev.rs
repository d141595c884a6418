//! `tenure dev`: a whole fleet here, for one person: a private PostgreSQL, a coordinator and workers, all of this very
//! program, all gone when it goes. Nothing of it listens on anything but loopback.

mod child;
mod fleet;

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use serde_json::json;
use tenure_core::reason::Reason;
use tenure_postgres::{Options, Server, Stop};

use crate::{
    context::Context,
    data_home::find_data_directory,
    database::explain_database,
    dev::fleet::{Fleet, check_port},
    failure::Failure,
    migrate::connect_store,
    shutdown::StopSignals,
};

/// Run a whole fleet here, with a private PostgreSQL
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Where its files are; a later start goes on with them.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// So many workers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: u32,
    /// Apply this fleet file once the fleet is ready.
    #[arg(long, value_name = "FILE")]
    apply: Option<PathBuf>,
    /// Where to serve gRPC.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
}

pub(crate) async fn run_dev(context: &Context, args: DevArgs) -> Result<(), Failure> {
    let mut signals = StopSignals::listen()?;
    check_port(args.listen)?;
    let directory = args.data_dir.clone().unwrap_or_else(|| find_data_directory("dev"));
    let mut postgres = start_postgres(directory.join("postgres")).await?;
    let served = tokio::select! {
        started = start_fleet(context, &args, &directory, &postgres) => match started {
            Ok(fleet) => fleet.serve(context, &mut signals).await,
            Err(failure) => Err(failure),
        },
        () = signals.next() => Ok(()),
    };
    // What blocks is kept off the threads that serve; and the server is stopped whatever happened before.
    let stopped = tokio::task::spawn_blocking(move || postgres.stop(Stop::Fast)).await;
    served.and(stopped.map_err(|error| Failure::from_error(Reason::Internal, &error)))
}

async fn start_postgres(directory: PathBuf) -> Result<Server, Failure> {
    let started = tokio::task::spawn_blocking(|| Server::start(Options::in_directory(directory))).await;
    let started = started.map_err(|error| Failure::from_error(Reason::Internal, &error))?;
    started.map_err(|error| {
        let reason = Reason::from_code(error.reason_code()).unwrap_or(Reason::PostgresNotStarted);
        Failure::from_error(reason, &error)
    })
}

async fn start_fleet(
    context: &Context,
    args: &DevArgs,
    directory: &std::path::Path,
    postgres: &Server,
) -> Result<Fleet, Failure> {
    let url = postgres.url("postgres");
    let store = connect_store(&url).await?;
    store.migrate(None).await.map_err(|error| explain_database(&error))?;
    store.close().await;
    let fleet = Fleet::start(&url, directory, args.listen, args.workers).await?;
    if let Some(file) = &args.apply {
        fleet.apply(context, file).await?;
    }
    print_ready(context, &fleet, directory)?;
    Ok(fleet)
}

fn print_ready(context: &Context, fleet: &Fleet, directory: &std::path::Path) -> Result<(), Failure> {
    let endpoint = fleet.endpoint();
    if context.printer.json {
        return context.printer.object(&json!({ "endpoint": endpoint, "data_dir": directory }));
    }
    context
        .printer
        .line(&format!("a fleet is ready at {endpoint}; its files are in {}", directory.display()))?;
    context.printer.remark(&format!(
        "  export TENURE_ENDPOINT={endpoint}\n  tenure init && tenure apply tenure.toml\n  \
         tenure submit greet --input world --wait\nCtrl-C stops it, and the next start goes on from there"
    ));
    Ok(())
}
