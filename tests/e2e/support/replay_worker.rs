//! A worker whose handler a test can change: `replay-worker ENDPOINT DATA_DIR`. With `CHANGED` in its environment it asks for
//! something else.

use std::{env, fs::OpenOptions, io::Write as _};

use anyhow::Context as _;
use tenure_worker::{
    Worker, WorkerOptions,
    handler::{HandlerError, RunContext},
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tenure_worker::guardian::run_if_asked();
    let mut arguments = env::args().skip(1);
    let mut next = |what| arguments.next().with_context(|| format!("{what} is missing"));
    let (endpoint, data_dir) = (next("ENDPOINT")?, next("DATA_DIR")?);
    let options = WorkerOptions::new("replay", vec![endpoint], data_dir.into());
    let worker = Worker::agent("packer", "1", pack).replay_if_asked().await.start(options)?;
    Ok(worker.serve_until_signalled().await?)
}

/// What is packed; the name of a file that counts what was executed.
async fn pack(run: RunContext, count: String) -> Result<u32, HandlerError> {
    let executed = |what: &str| -> Result<(), std::io::Error> {
        writeln!(OpenOptions::new().create(true).append(true).open(&count)?, "{what}")
    };
    let change = env::var("CHANGED").unwrap_or_default();
    let weight: u32 = run.step("weigh", async || executed("weigh").map(|()| 7)).await?;
    let key = if change == "key" { "ship/again" } else { "ship" };
    let payload = if change == "payload" { weight + 1 } else { weight };
    run.effect(key).idempotent().payload(&payload).perform(async |_| executed("ship")).await?;
    if change == "shorter" {
        return Ok(weight);
    }
    let labels = run.step("label", async || executed("label").map(|()| 2)).await?;
    if change == "longer" {
        run.step("bill", async || executed("bill")).await?;
    }
    Ok(if change == "result" { weight } else { weight + labels })
}
