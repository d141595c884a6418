//! `tenure resume`: has jobs go on that had come to an end and were left open.

use clap::Args;

use crate::{
    cancel::act_on_each,
    context::Context,
    failure::Failure,
    selection::{Selection, select_jobs},
    why::require_reason,
};

/// Have failed, exhausted or withheld jobs go on with a new run
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    selection: Selection,
    /// Why; it stands in the journal.
    #[arg(long, value_name = "WHY")]
    why: String,
}

pub(crate) async fn resume_jobs(context: &Context, args: ResumeArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let client = context.client()?;
    let jobs = select_jobs(context, &client, "resume", args.selection).await?;
    let resume = async |job: &str| Ok(client.resume_job(job, why).await?);
    act_on_each(context, &jobs, resume).await
}
