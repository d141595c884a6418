//! Effects under kills: jobs perform effects of each recovery on an outside ledger, while workers are killed at random boundaries:
//! right after a record, or right after an act that is not recorded yet. Afterwards the ledger is held against the journal's
//! derived rows: each effect is there exactly once, or it is in doubt and listed where a person looks for it.
//!
//! Prints a table for people, and as its last line one line of JSON. Ends with 0 only where nothing was duplicated, lost or
//! unlisted, no children overlapped, and at least one kill fell between an announcement and its record. What is random follows
//! from the seed, which is printed; the scheduling of processes does not.
//!
//! Neighbours: `storm` runs the fleet and kills, `worker` is the program whose agent is a Rust function, `judgement` counts; the test kit owns the processes, the ledger and the
//! checkers.

mod judgement;
mod storm;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Perform effects while workers are killed, and compare the journal with what really happened
#[derive(Debug, Parser)]
#[command(name = "chaos-effects")]
pub(crate) struct Arguments {
    /// What is random follows from it; otherwise one is drawn, and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// How many jobs are submitted, of each agent as many: a script for each recovery, and a Rust function with all of them.
    #[arg(long, default_value_t = 1_000)]
    jobs: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run_storm(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos-effects: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run_storm(arguments: &Arguments) -> Result<bool> {
    let seed = arguments.seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let mut storm = storm::Storm::start(seed).await?;
    storm.rage(arguments.jobs).await?;
    let judgement = judgement::judge(&storm).await?;
    judgement.print_table();
    let held = judgement.print_summary(&storm);
    if !held {
        storm.keep_logs()?;
    }
    Ok(held)
}
