//! The example as it is shown: one version is released although its worker is killed between an act and its record, one is
//! cancelled and taken back although a worker is killed between undoing and its record, and one is cancelled too late.
//! What is printed is counted in the repository, in the registry and in the ledger; the last line is one line of JSON.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use serde_json::json;
use tenure_example_release::stage::{PATIENCE, Stage};

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
    release_under_a_kill(&mut stage).await?;
    take_back_under_a_kill(&mut stage).await?;
    cancel_too_late(&mut stage).await?;

    let world = &stage.world;
    let (version, tags, published, announced) =
        (world.version()?, world.tags()?, world.published()?, world.announced()?);
    let reverted = world.count_commits("Revert \"Release 1.2.0\"")?;
    let bumps = [world.count_commits("Release 1.1.0")?, world.count_commits("Release 1.3.0")?];
    println!(
        "{}",
        json!({
            "version": version, "tags": tags, "published": published, "announced": announced,
            "bumps": bumps, "reverted": reverted,
        })
    );
    ensure!(version == "1.3.0", "the main branch is at {version}");
    ensure!(tags == ["v1.1.0", "v1.3.0"], "the tags are {tags:?}");
    ensure!(published == ["project-1.1.0.tar", "project-1.3.0.tar"], "published is {published:?}");
    ensure!(announced == ["project 1.1.0 is out", "project 1.3.0 is out"], "announced is {announced:?}");
    ensure!(bumps == [1, 1], "a version was bumped twice: {bumps:?}");
    ensure!(reverted == 1, "the bump of 1.2.0 was taken back {reverted} times");
    Ok(())
}

/// 1.1.0: the tag is pushed and not recorded when its worker is killed.
async fn release_under_a_kill(stage: &mut Stage) -> Result<()> {
    let job = stage.release("1.1.0")?;
    stage.wait_until("the tag of 1.1.0", |world| Ok(world.tags()?.contains(&"v1.1.0".to_owned()))).await;
    let killed = stage.kill_holder(&job)?;
    println!("1.1.0: {killed} had pushed the tag, and was killed before that was recorded");
    for gate in ["tagged", "approved-1.1.0", "closed-1.1.0"] {
        stage.world.open_gate(gate)?;
    }
    let released = stage.cluster.wait_for_state(&job, "succeeded", PATIENCE).await;
    println!("1.1.0: released by run {}", released["run"]);
    Ok(())
}

/// 1.2.0: cancelled while it waits to be announced; its tag is taken back, and that is not recorded, when a worker is killed.
async fn take_back_under_a_kill(stage: &mut Stage) -> Result<()> {
    let job = stage.release("1.2.0")?;
    stage.cluster.wait_for_note(&job, "published; waiting", PATIENCE).await;
    stage.cluster.run(&["cancel", &job, "--why", "a bug was found"])?;
    println!("1.2.0: cancelled when it was published and not announced");
    stage
        .wait_until("the tag of 1.2.0 to be gone", |world| Ok(!world.tags()?.contains(&"v1.2.0".to_owned())))
        .await;
    let killed = stage.kill_holder(&job)?;
    println!("1.2.0: {killed} had taken the tag back, and was killed before that was recorded");
    stage.world.open_gate("untagged")?;
    stage.cluster.wait_for_state(&job, "cancelled", PATIENCE).await;
    ensure!(stage.world.version()? == "1.1.0", "1.2.0 was cancelled, and its bump stands");
    println!("1.2.0: taken back in the reverse order, each once");
    Ok(())
}

/// 1.3.0: announced, which is its pivot, when it is cancelled.
async fn cancel_too_late(stage: &mut Stage) -> Result<()> {
    let job = stage.release("1.3.0")?;
    stage.world.open_gate("approved-1.3.0")?;
    stage.cluster.wait_for_note(&job, "announced", PATIENCE).await;
    stage.cluster.run(&["cancel", &job, "--why", "too late"])?;
    stage.cluster.wait_for_state(&job, "cancelled", PATIENCE).await;
    println!("1.3.0: cancelled after it was announced: what others were told of stands");
    Ok(())
}
