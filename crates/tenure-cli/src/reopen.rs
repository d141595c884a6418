//! `tenure reopen`: has quarantined jobs judged again, once what was in doubt is answered.

use clap::Args;
use tenure_core::id::Digest;

use crate::{
    cancel::act_on_each,
    context::Context,
    failure::Failure,
    selection::{Selection, select_jobs},
    why::require_reason,
};

/// Judge quarantined jobs again
#[derive(Debug, Args)]
pub(crate) struct ReopenArgs {
    #[command(flatten)]
    selection: Selection,
    /// Hold them to this declaration from now on: the present one of their agent, where theirs is not carried out any more.
    #[arg(long, value_name = "DIGEST", value_parser = parse_digest)]
    accept_declaration: Option<Digest>,
    /// Why; it stands in the journal.
    #[arg(long, value_name = "WHY")]
    why: String,
}

pub(crate) async fn reopen_jobs(context: &Context, args: ReopenArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let client = context.client()?;
    let jobs = select_jobs(context, &client, "reopen", args.selection).await?;
    let reopen = async |job: &str| Ok(client.reopen_job(job, why, args.accept_declaration).await?);
    act_on_each(context, &jobs, reopen).await
}

fn parse_digest(given: &str) -> Result<Digest, String> {
    given.parse().map_err(|_| "a digest has 64 hexadecimal digits".to_owned())
}
