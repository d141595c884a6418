//! `tenure verify`: recomputes the chain of a job's journal here, from the bytes. A finding names the position and what is
//! wrong with it, and the program ends with 1.

use clap::Args;
use serde_json::json;

use tenure_client::verification::VerifiedJournal;

use crate::{context::Context, failure::Failure};

/// Recompute the chain of a job's journal
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The jobs.
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
}

pub(crate) async fn verify_jobs(context: &Context, args: VerifyArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let mut first_failure = None;
    for name in &args.jobs {
        match client.verify_job(name).await {
            Ok(journal) => print_verified(context, &journal)?,
            Err(error) => {
                let failure = Failure::from(error);
                if args.jobs.len() == 1 || failure.is_unavailable() {
                    return Err(failure);
                }
                context.printer.failure(&failure);
                first_failure.get_or_insert(failure);
            }
        }
    }
    match first_failure {
        None => Ok(()),
        Some(failure) => Err(failure.already_printed()),
    }
}

fn print_verified(context: &Context, journal: &VerifiedJournal) -> Result<(), Failure> {
    let VerifiedJournal { job, verified } = journal;
    if context.printer.json {
        return context.printer.object(&json!({
            "job": job,
            "verified": true,
            "head_seq": verified.head.seq,
            "head_hash": verified.head.hash,
            "values_checked": verified.values_checked,
            "values_erased": verified.values_erased,
        }));
    }
    let erased = match verified.values_erased {
        0 => String::new(),
        1 => ", 1 value was erased".to_owned(),
        count => format!(", {count} values were erased"),
    };
    context
        .printer
        .line(&format!("{job}  verified: {} records, head {}{erased}", verified.head.seq, verified.head.hash))
}
