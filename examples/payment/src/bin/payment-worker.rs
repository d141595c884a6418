//! The program around the handler: `payment-worker NAME ENDPOINTS DATA_DIR`. It is its own guardian, so that it needs no other
//! program beside it.

use std::process::ExitCode;

use anyhow::Context as _;
use tenure_worker::WorkerOptions;

#[tokio::main]
async fn main() -> ExitCode {
    tenure_worker::guardian::run_if_asked();
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("payment-worker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what| arguments.next().with_context(|| format!("{what} is missing"));
    let (name, endpoints, data_dir) = (next("NAME")?, next("ENDPOINTS")?, next("DATA_DIR")?);
    let endpoints = endpoints.split(',').map(str::to_owned).collect();
    let options = WorkerOptions::new(name, endpoints, data_dir.into());
    let worker = tenure_example_payment::payments::worker().replay_if_asked().await;
    worker.start(options)?.serve_until_signalled().await?;
    Ok(())
}
