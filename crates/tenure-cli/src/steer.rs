//! `tenure steer`: redirects jobs. The run that is under way is asked to end, and a run starts with the note.

use clap::Args;

use crate::{
    cancel::act_on_each,
    context::Context,
    failure::Failure,
    selection::{JobSet, select_jobs},
    value::read_value,
};

/// Redirect jobs: the run is ended, and one starts with a note that goes before the original request
#[derive(Debug, Args)]
#[command(override_usage = "tenure steer [OPTIONS] [JOB]... <NOTE|@FILE|->")]
pub(crate) struct SteerArgs {
    /// The jobs, and last the note: a text, @FILE, or - for stdin. At most 16 KiB.
    #[arg(value_name = "JOB NOTE", required = true, num_args = 1..)]
    words: Vec<String>,
    #[command(flatten)]
    set: JobSet,
}

pub(crate) async fn steer_jobs(context: &Context, args: SteerArgs) -> Result<(), Failure> {
    let SteerArgs { words: mut jobs, set } = args;
    let Some(given) = jobs.pop() else { return Err(Failure::usage("a note is needed")) };
    match (jobs.is_empty(), set.is_unnamed()) {
        (true, true) => return Err(Failure::usage("which jobs, and which note: tenure steer JOB NOTE")),
        (false, false) => return Err(Failure::usage("jobs are named, or a set of them, and not both")),
        (true, false) | (false, true) => {}
    }
    let note = read_note(&given)?;
    let client = context.client()?;
    let jobs = select_jobs(context, &client, "steer", set.or_of(jobs)).await?;
    act_on_each(context, &jobs, async |job: &str| Ok(client.steer_job(job, &note).await?)).await
}

/// What is wrong with it is said before anybody is asked.
fn read_note(given: &str) -> Result<String, Failure> {
    let note = read_value(given, "the note")?;
    let note = String::from_utf8_lossy(&note);
    Ok(tenure_core::verb::check_steer_note(&note)?)
}
