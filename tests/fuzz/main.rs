//! Fuzzing of everything that comes from outside: bytes at the port of a coordinator, messages of every rpc that are nearly
//! right, and fleet files. A finding is a panic, a coordinator that ended, or one that no longer serves a client that
//! behaves; what led to it is kept in the corpus, and replayed by the tests.
//!
//! It is thrown at a coordinator that wants no credentials and at one that does, with its token, with wrong ones and with
//! none. `--planted` plants a fault before the first, to show that the fuzzer can find one.
//!
//! Prints the seed at first, and as its last line one line of JSON. Ends with 0 only where nothing was found. What is
//! thrown follows from the seed; how the coordinator schedules it does not.
//!
//! Neighbours: `mutation` changes bytes, `port`, `messages` and `fleet_files` each throw one kind, `credential` is what calls
//! bear, `target` is what they are thrown at, `planted` the fault, `corpus` is what is kept.

mod corpus;
mod credential;
mod fleet_files;
mod messages;
mod mutation;
mod planted;
mod port;
mod target;

use std::{
    net::SocketAddr,
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
    /// Plant a fault, and find it.
    #[arg(long)]
    planted: bool,
    /// Be the planted fault before this address.
    #[arg(long, hide = true)]
    stand_before: Option<SocketAddr>,
}

/// What was thrown, and what came of it.
#[derive(Debug, Default)]
struct Tally {
    bytes: u64,
    messages: u64,
    /// Messages without what the coordinator wants of a caller.
    unauthenticated: u64,
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
    let arguments = Arguments::parse();
    let ended = match arguments.stand_before {
        Some(address) => planted::stand_before(address).await.map(|()| true),
        None => fuzz(&arguments).await,
    };
    match ended {
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
    let mut targets = start_targets(arguments).await?;
    let (began, mut tally) = (Instant::now(), Tally::default());
    while began.elapsed() < Duration::from_secs(arguments.seconds) && tally.findings == 0 {
        for (target, messages) in &mut targets {
            take_turn(&mut random, &corpus, target, messages, &mut tally).await?;
        }
        for _ in 0..FLEET_TURN {
            let text = fleet_files::make_file(&mut random, &corpus.fleet);
            tally.fleet_files += 1;
            if let Some(finding) = fleet_files::read_file(&text) {
                corpus.keep(corpus::FLEET, text.as_bytes(), &finding)?;
                tally.findings += 1;
            }
        }
    }
    if tally.findings > 0 {
        targets.iter().try_for_each(|(target, _)| target.keep_logs())?;
    }
    print_summary(seed, began.elapsed(), &tally);
    Ok(tally.findings == 0)
}

async fn start_targets(arguments: &Arguments) -> Result<[(Target, Messages); 2]> {
    let (mut open, guarded) = (Target::start_open().await?, Target::start_guarded().await?);
    let messages = [Messages::prepare(&open).await?, Messages::prepare(&guarded).await?];
    if arguments.planted {
        open.plant()?;
    }
    let [of_open, of_guarded] = messages;
    Ok([(open, of_open), (guarded, of_guarded)])
}

/// Throws bytes and calls, and looks what came of them.
async fn take_turn(
    random: &mut StdRng,
    corpus: &Corpus,
    target: &mut Target,
    messages: &Messages,
    tally: &mut Tally,
) -> Result<()> {
    let bytes: Vec<_> = (0..TURN).map(|_| port::make_bytes(random, &corpus.bytes)).collect();
    target.throw_bytes(&bytes).await;
    tally.bytes += TURN;
    tally.findings += corpus.judge(target, corpus::BYTES, &bytes)?;
    let calls: Vec<_> = (0..TURN).map(|_| messages.make_call(random, &corpus.calls)).collect();
    tally.accepted += target.throw_calls(&calls).await;
    tally.messages += TURN;
    tally.unauthenticated += target.count_unauthenticated(&calls);
    let calls: Vec<_> = calls.iter().map(messages::Call::to_bytes).collect();
    tally.findings += corpus.judge(target, corpus::CALLS, &calls)?;
    tally.findings += u64::from(!target.serves().await);
    Ok(())
}

fn print_summary(seed: u64, took: Duration, tally: &Tally) {
    let summary = json!({
        "fuzz": if tally.findings == 0 { "held" } else { "found" },
        "seed": seed,
        "seconds": took.as_secs(),
        "bytes": tally.bytes,
        "messages": tally.messages,
        "unauthenticated": tally.unauthenticated,
        "accepted": tally.accepted,
        "fleet_files": tally.fleet_files,
        "findings": tally.findings,
    });
    println!("{summary}");
}
