//! The log of the programs that serve: to stderr, as text or as JSON, filtered by TENURE_LOG. The verbs of people do not
//! log: what they have to say they print.

use std::io::{self, IsTerminal as _};

use clap::Args;
use tenure_core::{reason::Reason, refusal::Refusal};
use tracing_subscriber::{EnvFilter, fmt};

use crate::failure::Failure;

/// What is logged, where nothing is said.
const DEFAULT_FILTER: &str = "info";

/// How to log.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoggingArgs {
    /// What to log to stderr, for example debug or tenure_coordinator=trace.
    #[arg(long, env = "TENURE_LOG", hide_env_values = true, value_name = "FILTER", default_value = DEFAULT_FILTER)]
    log: String,
    /// Log JSON, one object a line.
    #[arg(long)]
    log_json: bool,
}

/// Begins to log.
pub(crate) fn start_logging(args: &LoggingArgs) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&args.log).map_err(|error| {
        let message = format!("the filter {:?} of --log cannot be read", args.log);
        Failure::caused(Refusal::new(Reason::InvalidArgument, message), &error)
    })?;
    let text = fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let started = if args.log_json { text.json().flatten_event(true).try_init() } else { text.try_init() };
    started
        .map_err(|error| Failure::caused(Refusal::new(Reason::Internal, "starting the log"), error.as_ref()))
}
