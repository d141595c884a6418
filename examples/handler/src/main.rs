//! The example as it is shown: an order is submitted, its worker is killed between two steps, a second worker finishes it.
//! What is printed is counted in the world's files and in the journal; the last line is one line of JSON.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use serde_json::json;
use tenure_example_handler::stage::Stage;

#[tokio::main]
async fn main() -> ExitCode {
    match show().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("example: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn show() -> Result<()> {
    let mut stage = Stage::start(30).await?;
    stage.start_worker("w1")?;
    stage.start_worker("w2")?;
    let job = stage.submit(false)?;
    println!("submitted job {job}");
    let holder = stage.wait_until_paid(&job).await;
    println!("{holder} has added the order up and paid for it; now it is killed");
    stage.kill_worker(&holder)?;
    stage.approve()?;
    let fulfilled = stage.wait_for_success(&job).await?;
    println!("run {} has finished it: {}", fulfilled.run, fulfilled.label);
    let executed = stage.lines("executed");
    let count = |what: &str| executed.iter().filter(|line| *line == what).count();
    let shown = json!({
        "state": "succeeded",
        "run": fulfilled.run,
        "total": fulfilled.total,
        "added_up": count("add up"),
        "labels_written": count("write the label"),
        "payments": stage.lines("payments").len(),
        "steps_finished": stage.count_records(&job, "step_finished")?,
    });
    println!("{shown}");
    ensure!(fulfilled.run == 2, "the order was finished by run {}", fulfilled.run);
    ensure!(count("add up") == 1 && count("write the label") == 1, "a step was executed twice: {executed:?}");
    ensure!(stage.lines("payments").len() == 1, "it was paid for more than once");
    Ok(())
}
