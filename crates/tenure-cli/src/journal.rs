//! `tenure journal` and `tenure watch`: what happened to a job, once or as it happens.

use clap::Args;
use tenure_core::{id::Seq, job::State};

use crate::{
    context::Context,
    failure::Failure,
    journal_line::{format_record, record_object},
};

/// Print a job's journal
#[derive(Debug, Args)]
pub(crate) struct JournalArgs {
    /// The job.
    job: String,
    /// Begin at this position.
    #[arg(long, default_value_t = 1, value_name = "SEQ")]
    from: u64,
    /// Only these kinds.
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
}

/// Follow a job's journal until it takes no more records
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The job.
    job: String,
    /// Begin at this position.
    #[arg(long, default_value_t = 1, value_name = "SEQ")]
    from: u64,
}

/// The kind of a verdict.
const CONCLUDED: &str = "job_concluded";

pub(crate) async fn list_records(context: &Context, args: JournalArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let mut from = Some(Seq(args.from));
    while let Some(seq) = from {
        let page = client.list_records(&args.job, seq, &args.kind, 0).await?;
        for record in &page.records {
            if context.printer.json {
                context.printer.object(&record_object(record)?)?;
            } else {
                context.printer.line(&format_record(record)?)?;
            }
        }
        from = page.next_seq;
    }
    Ok(())
}

pub(crate) async fn watch_job(context: &Context, args: WatchArgs) -> Result<(), Failure> {
    let mut watch = context.client()?.watch_job(&args.job, Seq(args.from)).await?;
    while let Some(watched) = watch.next().await? {
        if context.printer.json {
            let mut object = record_object(&watched.record)?;
            object["state"] = watched.state.name().into();
            context.printer.object(&object)?;
        } else {
            context.printer.line(&format_record(&watched.record)?)?;
        }
        if watched.record.kind == CONCLUDED && !watched.state.is_sealed() {
            remark_open(context, &args.job, watched.state);
        }
    }
    Ok(())
}

/// A verdict that leaves a job open is not the end of its journal: whoever watches should know what they wait for.
fn remark_open(context: &Context, job: &str, state: State) {
    let words = format!(
        "it is {state}, which somebody may change, so this watches on; Ctrl-C ends it   next: tenure job {job}"
    );
    context.printer.remark(&words);
}
