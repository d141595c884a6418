//! The demo: one job per commit of a real repository, on two coordinators and three workers. While the agents are in the
//! middle, workers are killed and frozen, a coordinator is killed and PostgreSQL crashes, and the work is done all the
//! same, once. What is printed at the end is counted in the repository, in the ledger, in the database and in the
//! agents' own heartbeat files, by code that does not ask the fleet.
//!
//! Neighbours: `fleet` runs the processes, `repository` and the test kit's ledger are the world that the agents change,
//! `faults` does the harm, `evidence` counts, `report` prints, `picture` draws.

mod evidence;
mod faults;
mod fleet;
mod picture;
mod report;
mod repository;

use std::{path::PathBuf, process::ExitCode, time::Instant};

use anyhow::{Context as _, Result, ensure};

use crate::{evidence::Evidence, fleet::Fleet, repository::Repository};

/// How many commits get release notes, at most, where `JOBS` does not say another number.
const COMMITS: usize = 24;

#[tokio::main]
async fn main() -> ExitCode {
    match run_demo().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs it all; true where everything holds that the demo shows.
async fn run_demo() -> Result<bool> {
    let source = source_repository()?;
    let directory =
        tempfile::Builder::new().prefix("tenure-demo-").tempdir().context("making a work directory")?;
    let began = Instant::now();
    let repository = Repository::clone_bare(&source, directory.path())?;
    let commits = repository.last_commits(wanted_commits()?)?;
    println!("{} commits of {} get release notes, one job each", commits.len(), source.display());

    let mut fleet = Fleet::start(directory.path(), &repository, commits.len()).await?;
    println!("the ledger is {}", fleet.ledger_path().display());
    let outcome = watch_it_survive(&mut fleet, &repository, &commits, began).await;
    if !matches!(outcome, Ok(true)) {
        fleet.keep_logs()?;
    }
    outcome
}

/// Submits, does harm, waits, counts and reports.
async fn watch_it_survive(
    fleet: &mut Fleet,
    repository: &Repository,
    commits: &[String],
    began: Instant,
) -> Result<bool> {
    let jobs = fleet.submit_all(commits)?;
    let inflicted = faults::inflict(fleet, &jobs).await?;
    fleet.wait_until_over(&jobs).await?;
    let evidence = Evidence::collect(fleet, repository, &jobs, &inflicted.measured).await?;
    report::print_table(&evidence);
    if let Some(path) = std::env::var_os("PICTURE").filter(|given| !given.is_empty()) {
        std::fs::write(&path, picture::draw(&evidence, &inflicted.marks))
            .with_context(|| format!("writing the picture to {}", PathBuf::from(&path).display()))?;
    }
    Ok(report::print_summary(&evidence, began.elapsed()))
}

/// The repository that the demo works on: `REPO`, or the one that it stands in.
fn source_repository() -> Result<PathBuf> {
    match std::env::var_os("REPO").filter(|given| !given.is_empty()) {
        Some(given) => Ok(PathBuf::from(given)),
        None => Ok(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?),
    }
}

/// `JOBS`, or the usual number. Fewer than 3 would leave a worker without work.
fn wanted_commits() -> Result<usize> {
    let Some(given) = std::env::var("JOBS").ok().filter(|given| !given.is_empty()) else {
        return Ok(COMMITS);
    };
    let wanted = given.parse().with_context(|| format!("JOBS={given} is no number"))?;
    ensure!((3..=COMMITS).contains(&wanted), "JOBS={given}, and 3 to {COMMITS} are taken");
    Ok(wanted)
}
