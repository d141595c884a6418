//! `tenure cancel`: asks for jobs to be cancelled. A running one is cancelled once its child has ended.

use clap::Args;
use tenure_client::job::Job;

use crate::{
    context::Context,
    failure::Failure,
    selection::{Selection, select_jobs},
    why::require_reason,
};

/// Cancel jobs; a running child is ended first
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    selection: Selection,
    /// Why; it stands in the journal.
    #[arg(long, value_name = "WHY")]
    why: String,
}

pub(crate) async fn cancel_jobs(context: &Context, args: CancelArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let client = context.client()?;
    let jobs = select_jobs(context, &client, "cancel", args.selection).await?;
    let cancel = async |job: &str| {
        let (job, already_requested) = client.cancel_job(job, why).await?;
        if already_requested {
            context.printer.remark(&format!("{}: an earlier request stands", job.id.short()));
        }
        Ok(job)
    };
    act_on_each(context, &jobs, cancel).await
}

/// Acts on each job and prints what became of it; the others are acted on also where one is refused.
pub(crate) async fn act_on_each(
    context: &Context,
    jobs: &[String],
    act: impl AsyncFn(&str) -> Result<Job, Failure>,
) -> Result<(), Failure> {
    let mut first_failure = None;
    for name in jobs {
        match act(name).await {
            Ok(job) if context.printer.json => context.printer.object(&job)?,
            Ok(job) => context.printer.line(&format!("{}  {}", job.id, describe_outcome(context, &job)))?,
            Err(failure) if jobs.len() == 1 || failure.is_unavailable() => return Err(failure),
            Err(failure) => {
                context.printer.failure(&failure);
                first_failure.get_or_insert(failure);
            }
        }
    }
    first_failure.map_or(Ok(()), |failure| Err(failure.already_printed()))
}

fn describe_outcome(context: &Context, job: &Job) -> String {
    let state = context.printer.state(job.state);
    if job.abandon_requested {
        format!("{state}, will be given up once its child has ended")
    } else if job.unwinding_to.is_some() && job.state.is_unfinished() {
        format!("{state}, will be cancelled once what it has done is undone")
    } else if job.cancel_requested && !job.state.is_sealed() {
        format!("{state}, will be cancelled once its child has ended")
    } else if job.steer_requested {
        format!("{state}, will go on with the note once its child has ended")
    } else {
        state
    }
}
