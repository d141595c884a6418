//! The program around the handler: `order-worker NAME ENDPOINTS DATA_DIR TTL_SECONDS`. It is its own guardian, so that it
//! needs no other program beside it.

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;
use tenure_telemetry::{LogFormat, Telemetry, TelemetryOptions};
use tenure_worker::WorkerOptions;

#[tokio::main]
async fn main() -> ExitCode {
    tenure_worker::guardian::run_if_asked();
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("order-worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what| arguments.next().with_context(|| format!("{what} is missing"));
    let (name, endpoints, data_dir) = (next("NAME")?, next("ENDPOINTS")?, next("DATA_DIR")?);
    let ttl = Duration::from_secs(next("TTL_SECONDS")?.parse()?);
    let endpoints = endpoints.split(',').map(str::to_owned).collect();
    let telemetry = Telemetry::start(&describe_telemetry(&name))?;
    let options = WorkerOptions { ttl, ..WorkerOptions::new(name, endpoints, data_dir.into()) };
    let worker = tenure_example_handler::orders::worker().replay_if_asked().await;
    let served = worker.start(options)?.serve_until_signalled().await;
    telemetry.shutdown().await;
    Ok(served?)
}

/// The log goes to stderr; spans and metrics go where the standard OTEL_* variables say.
fn describe_telemetry(worker: &str) -> TelemetryOptions {
    TelemetryOptions {
        service: "order-worker",
        instance: worker.to_owned(),
        log_filter: "info".to_owned(),
        log_format: LogFormat::Text,
        metrics_page: false,
    }
}
