//! Fuzzing of everything that comes from outside: bytes at the port of a coordinator, messages of every rpc that are nearly
//! right, and fleet files. A finding is a panic, a coordinator that ended, or one that no longer serves a client that
//! behaves; what led to it is kept in the corpus, and replayed by the tests.
//!
//! Prints the seed at first, and as its last line one line of JSON. Ends with 0 only where nothing was found. What is
//! thrown follows from the seed; how the coordinator schedules it does not.
//!
//! Neighbours: `mutation` changes bytes, `port`, `messages` and `fleet_files` each throw one kind, `target` is what they
//! are thrown at, `corpus` is what is kept.

mod corpus;
mod fleet_files;
mod messages;
mod mutation;
mod port;
mod target;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Parser;
use rand::{SeedableRng as _, rngs::StdRng};
use serde_json::json;

use self::{corpus::Corpus, messages::Messages, target::Target};

/// Throw bytes, messages and fleet files at what reads them, and see that nothing panics or hangs
#[derive(Debug, Parser)]
#[command(name = "fuzz")]
struct Arguments {
    /// What is thrown follows from it; otherwise one is drawn, and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// For how long.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Where interesting cases are, and where findings are kept.
    #[arg(long, default_value = "tests/corpus")]
    corpus: PathBuf,
}

/// What was thrown, and what came of it.
#[derive(Debug, Default)]
struct Tally {
    bytes: u64,
    messages: u64,
    /// Messages that passed every check and were carried out.
    accepted: u64,
    fleet_files: u64,
    findings: u64,
}

/// Cases of one kind that are thrown at the same time, before it is the turn of the next kind.
const TURN: u64 = 16;
/// Fleet files are read in this process, and so much faster.
const FLEET_TURN: u64 = 100;

#[tokio::main]
async fn main() -> ExitCode {
    match fuzz(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn fuzz(arguments: &Arguments) -> Result<bool> {
    let seed = arguments.seed.unwrap_or_else(rand::random);
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let corpus = Corpus::open(&arguments.corpus)?;
    let mut target = Target::start().await?;
    let messages = Messages::prepare(&target).await?;
    let (began, mut tally) = (Instant::now(), Tally::default());
    while began.elapsed() < Duration::from_secs(arguments.seconds) && tally.findings == 0 {
        let bytes: Vec<_> = (0..TURN).map(|_| port::make_bytes(&mut random, &corpus.bytes)).collect();
        target.throw_bytes(&bytes).await;
        tally.bytes += TURN;
        tally.findings += corpus.judge(&mut target, corpus::BYTES, &bytes)?;
        let calls: Vec<_> = (0..TURN).map(|_| messages.make_call(&mut random, &corpus.calls)).collect();
        tally.accepted += target.throw_calls(&calls).await;
        tally.messages += TURN;
        let calls: Vec<_> = calls.iter().map(messages::Call::to_bytes).collect();
        tally.findings += corpus.judge(&mut target, corpus::CALLS, &calls)?;
        for _ in 0..FLEET_TURN {
            let text = fleet_files::make_file(&mut random, &corpus.fleet);
            tally.fleet_files += 1;
            if let Some(finding) = fleet_files::read_file(&text) {
                corpus.keep(corpus::FLEET, text.as_bytes(), &finding)?;
                tally.findings += 1;
            }
        }
        tally.findings += u64::from(!target.serves().await);
    }
    if tally.findings > 0 {
        target.keep_logs()?;
    }
    print_summary(seed, began.elapsed(), &tally);
    Ok(tally.findings == 0)
}

fn print_summary(seed: u64, took: Duration, tally: &Tally) {
    let summary = json!({
        "fuzz": if tally.findings == 0 { "held" } else { "found" },
        "seed": seed,
        "seconds": took.as_secs(),
        "bytes": tally.bytes,
        "messages": tally.messages,
        "accepted": tally.accepted,
        "fleet_files": tally.fleet_files,
        "findings": tally.findings,
    });
    println!("{summary}");
}
