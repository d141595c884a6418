//! The example as it is shown: something is asked for, planned, written, judged and released, although the developer's worker is killed
//! when its model has answered and nobody was told. What is printed is counted in the world; the last line is one line of JSON.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tenure_example_team::stage::{PATIENCE, Stage};

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
    let mut stage = Stage::start().await?;
    let submitted = stage.cluster.run(&["submit", "analyst", "--input", "greet whoever calls"])?;
    let analyst = submitted.trim();
    let developer = stage.wait_for_agent(analyst, "developer").await;
    stage.cluster.wait_for_note(&developer, "the patch is written", PATIENCE).await;
    let killed = stage.kill_holder(&developer)?;
    println!("{killed} was killed when the developer's model had answered");
    stage.open_gate("written")?;
    let written = stage.cluster.wait_for_state(&developer, "succeeded", PATIENCE).await;
    println!("the developer went on in run {}, from the answer that was recorded", written["run"]);
    let release = stage.wait_for_agent(analyst, "release").await;
    stage.cluster.wait_for_state(&release, "succeeded", PATIENCE).await;
    report(&stage, analyst, &release)
}

fn report(stage: &Stage, analyst: &str, release: &str) -> Result<()> {
    let given: Value = serde_json::from_str(&stage.cluster.run(&["result", release])?)?;
    let deliveries = given["deliveries"].as_array().context("the release was given nothing")?;
    let mut delivered: Vec<&str> = deliveries.iter().filter_map(|one| one["from"].as_str()).collect();
    delivered.sort_unstable();
    println!("released once, with what {} delivered", delivered.join(" and "));
    let session = stage.session(analyst)?;
    let jobs = session["jobs"].as_array().context("the session has no jobs")?;
    let releases = jobs.iter().filter(|job| job["agent"] == "release").count();
    let (asked, released) = (stage.asked()?, stage.ledger.entries()?.len());
    let spent_micros = &session["budget_micros"]["used"];
    println!(
        "{}",
        json!({
            "asked": asked, "delivered": delivered, "jobs": jobs.len(), "releases": releases,
            "released": released, "spent_micros": spent_micros,
        })
    );
    ensure!(asked.len() == 3 && asked.values().all(|times| *times == 1), "the model was asked {asked:?}");
    ensure!(delivered == ["developer", "reviewer"], "delivered was by {delivered:?}");
    ensure!((releases, released) == (1, 1), "{releases} jobs made {released} releases");
    ensure!(*spent_micros == 60_000, "spent is {spent_micros}");
    Ok(())
}
