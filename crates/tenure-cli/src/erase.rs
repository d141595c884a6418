//! `tenure erase`: takes away what a job was given, or what it wrote. The journal keeps the digests and says who erased and why,
//! so it still verifies; the values cannot be had back. One job at a time: it is not undone.

use clap::{ArgGroup, Args};
use serde_json::json;
use tenure_core::record::ErasedPart;

use crate::{context::Context, failure::Failure, why::require_reason};

/// Erase what a job was given, or what it wrote; the journal still verifies
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("part").required(true).args(["input", "output"])))]
pub(crate) struct EraseArgs {
    /// The job; no run of it may be live or to come.
    job: String,
    /// What it was given.
    #[arg(long)]
    input: bool,
    /// Everything that its runs wrote: captured output, notes, steps, effects, results.
    #[arg(long)]
    output: bool,
    /// Why; it stands in the journal.
    #[arg(long, value_name = "WHY")]
    why: String,
}

pub(crate) async fn erase_values(context: &Context, args: EraseArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let part = if args.input { ErasedPart::Input } else { ErasedPart::Output };
    let (job, erased) = context.client()?.erase_job(&args.job, part, why).await?;
    if context.printer.json {
        return context.printer.object(&json!({ "job": job.id, "part": part, "erased": erased }));
    }
    let values = if erased == 1 { "value".to_owned() } else { "values".to_owned() };
    context.printer.line(&format!("{}  {}: {erased} {values} erased", job.id, part.name()))
}
