//! The ledger as a program: the service itself, and the verbs with which a script posts to it and asks it.
//!
//! `find` ends as a probe does: 0 and the text on its standard output where the key was entered, 10 where it was not, anything else
//! where nobody can say. Neighbours: the module `ledger`, which this only makes callable.

use std::{io::Write as _, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use tenure_testkit::{Behaviour, Entry, Ledger, LedgerClient};

/// How a probe says that it did not happen.
const DID_NOT_HAPPEN: u8 = 10;

#[derive(Parser)]
#[command(name = "tenure-ledger", about = "An outside service that counts what was really done")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Serve until killed; the first line printed is the address.
    Serve {
        /// The file of the entries, one JSON line each.
        #[arg(long)]
        file: PathBuf,
        /// Where to listen.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Enter a text, and print the number of its entry.
    Post {
        #[command(flatten)]
        place: Place,
        /// The same key is entered once; without one, each post is entered.
        #[arg(long)]
        key: Option<String>,
        /// What to enter.
        #[arg(long)]
        text: String,
    },
    /// Look for an entry: exit 0, with its text, where it was entered, 10 where it was not.
    Find {
        #[command(flatten)]
        place: Place,
        /// By its key.
        #[arg(long, required_unless_present = "text", conflicts_with = "text")]
        key: Option<String>,
        /// By its whole text.
        #[arg(long)]
        text: Option<String>,
    },
    /// Print all entries, one JSON line each.
    Entries {
        #[command(flatten)]
        place: Place,
    },
    /// Change how it behaves from now on; what is not given is as usual.
    Behave {
        #[command(flatten)]
        place: Place,
        /// How long a post waits before it is entered.
        #[arg(long, default_value = "0s")]
        delay_before: humantime::Duration,
        /// How long an answer is held after the post was entered.
        #[arg(long, default_value = "0s")]
        delay_after: humantime::Duration,
        /// So many posts are entered and left without an answer.
        #[arg(long, default_value_t = 0)]
        swallow: u32,
    },
}

#[derive(clap::Args)]
struct Place {
    /// The ledger's address.
    #[arg(long, env = "LEDGER_URL")]
    url: String,
    /// An answer that takes longer is none.
    #[arg(long, default_value = "30s")]
    timeout: humantime::Duration,
}

impl Place {
    fn client(&self) -> LedgerClient {
        LedgerClient::new(&self.url, self.timeout.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Arguments::parse().verb).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tenure-ledger: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Serve { file, listen } => return serve(&file, listen).await,
        Verb::Post { place, key, text } => {
            println!("{}", place.client().post(key.as_deref(), &text).await?.entry.number);
        }
        Verb::Find { place, key, text } => {
            let found = match key {
                Some(key) => place.client().find(&key).await?,
                None => place.client().entries().await?,
            };
            let is_wanted = |entry: &&Entry| text.as_ref().is_none_or(|text| entry.text == *text);
            let Some(entry) = found.iter().find(is_wanted) else { return Ok(ExitCode::from(DID_NOT_HAPPEN)) };
            println!("{}", entry.text);
        }
        Verb::Entries { place } => {
            for entry in place.client().entries().await? {
                println!("{}", serde_json::to_string(&entry)?);
            }
        }
        Verb::Behave { place, delay_before, delay_after, swallow } => {
            let behaviour = Behaviour {
                delay_before_ms: whole_ms(delay_before.into())?,
                delay_after_ms: whole_ms(delay_after.into())?,
                swallow,
            };
            place.client().behave(behaviour).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn serve(file: &std::path::Path, listen: SocketAddr) -> Result<ExitCode> {
    let ledger = Ledger::start_on(file, listen).await?;
    println!("{}", ledger.url());
    std::io::stdout().flush().context("printing the address")?;
    tokio::signal::ctrl_c().await?;
    Ok(ExitCode::SUCCESS)
}

fn whole_ms(duration: Duration) -> Result<u64> {
    u64::try_from(duration.as_millis()).context("a delay is too long")
}
