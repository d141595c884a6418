//! `make bench`: what a fleet does a second, beside what its database does, measured in the same run on the same disk.
//!
//! Owns the order of the measurements and the verdict. It promises that every rate stands beside the floor that was taken
//! in turn with it, and that a missed bar or a steady figure that got worse is an exit code. It does not tune anything: the
//! server has its default settings but for those in `fleet`, and the coordinator its own.
//! Neighbours: `fleet` starts the processes, `row` measures, `report` prints and judges, `baseline` remembers.

mod baseline;
mod fleet;
mod floor;
mod fsync;
mod idle;
mod jobs;
mod meter;
mod records;
mod report;
mod row;
mod statements;
mod statistics;
mod worker;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser;

use crate::{
    baseline::Baseline,
    report::{print_table, write_json},
    row::{Row, Size, measure_row},
};

/// Where the second row keeps its files: a disk that never waits.
const MEMORY: &str = "/dev/shm";

/// Measure a fleet beside its own database
#[derive(Debug, Parser)]
struct Args {
    /// The program to measure; default: `tenure` beside this one.
    #[arg(long)]
    tenure: Option<PathBuf>,
    /// Where the first row keeps the database; default: the directory for temporary files.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// The steady figures to compare with.
    #[arg(long)]
    baseline: Option<PathBuf>,
    /// Write the steady figures of this run to the baseline instead of comparing.
    #[arg(long, requires = "baseline")]
    write_baseline: bool,
    /// Also print which statements took the database's time.
    #[arg(long)]
    statements: bool,
    /// A few seconds of everything, judged by nothing: to see that it works.
    #[arg(long)]
    short: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// True where nothing was missed.
async fn run(args: Args) -> Result<bool> {
    let program = match &args.tenure {
        Some(program) => program.clone(),
        None => std::env::current_exe().context("finding this program")?.with_file_name("tenure"),
    };
    let size = if args.short { Size::SHORT } else { Size::FULL };
    let directory = args.directory.clone().unwrap_or_else(std::env::temp_dir);
    let disk = measure_row("disk", &program, &directory, size, args.statements).await?;
    let memory = measure_row("memory", &program, MEMORY.as_ref(), size, args.statements).await?;
    print_table(&[&disk, &memory]);
    let missed = if args.short { Vec::new() } else { judge(&args, &disk)? };
    missed.iter().for_each(|missed| println!("missed: {missed}"));
    println!("{}", write_json(&disk, &memory, &missed));
    Ok(missed.is_empty())
}

fn judge(args: &Args, disk: &Row) -> Result<Vec<String>> {
    let mut missed = report::find_missed_bars(disk);
    if let Some(path) = &args.baseline {
        if args.write_baseline {
            Baseline::of(disk).write(path)?;
        } else {
            missed.extend(Baseline::read(path)?.find_worse(disk));
        }
    }
    Ok(missed)
}
