//! `tenure abandon`: gives jobs up. Nothing that they did is undone.

use clap::Args;

use crate::{
    cancel::act_on_each,
    context::Context,
    failure::Failure,
    selection::{Selection, select_jobs},
    why::require_reason,
};

/// Give jobs up; a running child is ended first, and nothing is undone
#[derive(Debug, Args)]
pub(crate) struct AbandonArgs {
    #[command(flatten)]
    selection: Selection,
    /// Why; it stands in the journal.
    #[arg(long, value_name = "WHY")]
    why: String,
}

pub(crate) async fn abandon_jobs(context: &Context, args: AbandonArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let client = context.client()?;
    let jobs = select_jobs(context, &client, "abandon", args.selection).await?;
    let abandon = async |job: &str| {
        let (job, already_requested) = client.abandon_job(job, why).await?;
        if already_requested {
            context.printer.remark(&format!("{}: an earlier request stands", job.id.short()));
        }
        Ok(job)
    };
    act_on_each(context, &jobs, abandon).await
}
