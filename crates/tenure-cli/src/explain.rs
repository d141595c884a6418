//! `tenure explain`: the whole story of a job, in prose. The core tells it; this reads the journal and the job's row for it.

use clap::Args;
use jiff::Timestamp;
use tenure_client::{Client, job::Job};
use tenure_core::explain::{Held, Present, Story};

use crate::{context::Context, failure::Failure, records::read_records};

/// Tell what happened to a job, who holds it, what it waits for, what comes next, and what it needs
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The job.
    job: String,
}

pub(crate) async fn explain_job(context: &Context, args: ExplainArgs) -> Result<(), Failure> {
    let client = context.client()?;
    // The row first: a journal that grows meanwhile says more than the row, and never less.
    let job = client.get_job(&args.job).await?;
    let story = read_story(context, &client, &job).await?.tell(&read_present(&job));
    if context.printer.json {
        let object = serde_json::json!({ "job": job.id, "state": job.state, "story": story });
        return context.printer.object(&object);
    }
    context.printer.line(story.trim_end())
}

async fn read_story(context: &Context, client: &Client, job: &Job) -> Result<Story, Failure> {
    let mut story = Story::default();
    let unknown = read_records(client, job, &[], |record, value| story.take_record(&record, value)).await?;
    if unknown > 0 {
        context.printer.remark(&format!("{unknown} records are of a kind that this release cannot tell"));
    }
    Ok(story)
}

fn read_present(job: &Job) -> Present {
    let holder = job.holder.as_ref();
    Present {
        job: job.id,
        state: job.state,
        since: job.state_since,
        detail: job.detail.clone(),
        run: job.run,
        held: holder.map(|it| Held { worker: it.worker.clone(), epoch: it.epoch, live: it.live }),
        deadline_at: job.deadline_at,
        not_before: job.not_before,
        waiting_for: describe_wait(job),
        asked: find_asked(job),
        unwinding_to: job.unwinding_to.filter(|_| job.state.is_unfinished()),
        commands: job.next.clone(),
        now: Timestamp::now(),
    }
}

fn describe_wait(job: &Job) -> Option<String> {
    let halt = job.halt.as_ref().map(|halt| format!("the lift of halt {} of {}", halt.id, halt.scope));
    let wait = || job.wait.as_ref().map(|wait| format!("the wait {:?}, until {}", wait.name, wait.until));
    halt.or_else(wait)
}

/// The verb that goes before the others.
fn find_asked(job: &Job) -> Option<&'static str> {
    let is_unfinished = job.state.is_unfinished() && job.holder.as_ref().is_some_and(|holder| holder.live);
    let asked = [
        (job.abandon_requested, "abandon"),
        (job.cancel_requested && job.unwinding_to.is_none(), "cancel"),
        (job.steer_requested, "steer"),
    ];
    asked.into_iter().find(|(is_asked, _)| *is_asked && is_unfinished).map(|(_, verb)| verb)
}
