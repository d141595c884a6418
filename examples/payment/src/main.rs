//! The example as it is shown: one order is paid for although its worker is killed between the charge and its record, one is
//! cancelled and taken back although a worker is killed between the refund and its record, and one is never charged.
//! What is printed is counted in the ledger; the last line is one line of JSON.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use serde_json::json;
use tenure_example_payment::stage::{PATIENCE, Stage};

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
    pay_under_a_kill(&mut stage).await?;
    take_back_under_a_kill(&mut stage).await?;
    refuse(&stage).await?;

    let (paid, taken_back, refused) = (stage.done("a-1")?, stage.done("a-2")?, stage.done("a-3")?);
    println!("{}", json!({ "paid": paid, "taken_back": taken_back, "refused": refused }));
    ensure!(paid == ["reserve 1650", "charge 1650", "notify 1650"], "a-1: {paid:?}");
    let (reservation, charge) =
        (number_of(&stage, "a-2 reserve 1650")?, number_of(&stage, "a-2 charge 1650")?);
    let wanted = [
        "reserve 1650".to_owned(),
        "charge 1650".to_owned(),
        format!("refund {charge}"),
        format!("release {reservation}"),
    ];
    ensure!(taken_back == wanted, "a-2: {taken_back:?}, and {wanted:?} was wanted");
    let wanted = ["reserve 1650".to_owned(), format!("release {}", number_of(&stage, "a-3 reserve 1650")?)];
    ensure!(refused == wanted, "a-3: {refused:?}, and {wanted:?} was wanted");
    Ok(())
}

fn number_of(stage: &Stage, text: &str) -> Result<u64> {
    let entries = stage.ledger.entries()?;
    let found: Vec<u64> =
        entries.iter().filter(|entry| entry.text == text).map(|entry| entry.number).collect();
    ensure!(found.len() == 1, "{text:?} was entered {} times", found.len());
    Ok(found[0])
}

/// a-1: charged, and not recorded, when its worker is killed.
async fn pay_under_a_kill(stage: &mut Stage) -> Result<()> {
    let job = stage.submit("a-1", 5_000)?;
    stage.wait_until_done("a-1", "charge").await;
    let killed = stage.kill_holder(&job)?;
    println!("a-1: {killed} had charged the customer, and was killed before that was recorded");
    stage.open_gate("charged")?;
    stage.open_gate("sent-a-1")?;
    let done = stage.cluster.wait_for_state(&job, "succeeded", PATIENCE).await;
    println!("a-1: paid by run {}", done["run"]);
    Ok(())
}

/// a-2: cancelled while it waits for the parcel; refunded, and that not recorded, when a worker is killed.
async fn take_back_under_a_kill(stage: &mut Stage) -> Result<()> {
    let job = stage.submit("a-2", 5_000)?;
    stage.cluster.wait_for_note(&job, "charged; waiting", PATIENCE).await;
    stage.cluster.run(&["cancel", &job, "--why", "the customer changed their mind"])?;
    println!("a-2: cancelled when it was charged and the parcel had not left");
    stage.wait_until_done("a-2", "refund").await;
    let killed = stage.kill_holder(&job)?;
    println!("a-2: {killed} had refunded it, and was killed before that was recorded");
    stage.open_gate("refunded")?;
    stage.cluster.wait_for_state(&job, "cancelled", PATIENCE).await;
    println!("a-2: refunded and released, each once");
    Ok(())
}

/// a-3: costs more than the customer may be charged, which shows when it is reserved.
async fn refuse(stage: &Stage) -> Result<()> {
    let job = stage.submit("a-3", 1_000)?;
    stage.cluster.wait_for_state(&job, "failed", PATIENCE).await;
    println!("a-3: released, never charged, and nobody was told of it");
    Ok(())
}
