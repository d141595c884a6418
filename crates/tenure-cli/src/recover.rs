//! `tenure recover`: restarts interrupted jobs on a person's authority.

use clap::Args;

use crate::{
    cancel::act_on_each,
    context::Context,
    failure::Failure,
    selection::{Selection, select_jobs},
    why::require_reason,
};

/// Restart interrupted jobs, whatever their policy says
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    selection: Selection,
    /// Why; it stands in the journal.
    #[arg(long, value_name = "WHY")]
    why: String,
}

pub(crate) async fn recover_jobs(context: &Context, args: RecoverArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let client = context.client()?;
    let jobs = select_jobs(context, &client, "recover", args.selection).await?;
    let recover = async |job: &str| Ok(client.recover_job(job, why).await?);
    act_on_each(context, &jobs, recover).await
}
