//! `tenure confirm-gone`: a person vouches that the child of one run is gone. One job at a time, because it is one host
//! that somebody has looked at.

use clap::Args;
use tenure_core::id::Epoch;

use crate::{cancel::act_on_each, context::Context, failure::Failure, why::require_reason};

/// Vouch that a run's child is gone, so that its job may go on
#[derive(Debug, Args)]
pub(crate) struct ConfirmGoneArgs {
    /// The job.
    job: String,
    /// The epoch of the run, as `tenure job` shows it.
    #[arg(long, value_name = "N")]
    epoch: u64,
    /// How it is known; it stands in the journal.
    #[arg(long, value_name = "WHY")]
    why: String,
}

pub(crate) async fn confirm_gone(context: &Context, args: ConfirmGoneArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let client = context.client()?;
    let confirm = async |job: &str| Ok(client.confirm_gone(job, Epoch(args.epoch), why).await?);
    act_on_each(context, &[args.job], confirm).await
}
