//! `tenure job`: one job. Its first three lines answer what somebody who was called in wants to know: where it stands,
//! since when and what it waits for; who holds it; which command goes on.

use clap::Args;
use jiff::Timestamp;
use tenure_client::{
    Client, ClientError,
    job::{Job, JobWait},
};
use tenure_core::job::State;

use crate::{
    context::Context,
    failure::Failure,
    printer::{Printer, harmless},
    relative::{format_instant, format_since},
};

/// Effects in doubt that the first line names.
const DOUBTS_SHOWN: u32 = 3;

/// Show where a job stands, and which command goes on
#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// The job.
    job: String,
}

pub(crate) async fn show_job(context: &Context, args: JobArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let job = client.get_job(&args.job).await?;
    if context.printer.json {
        return context.printer.object(&job);
    }
    let doubts = match job.state {
        // What is known of the job is shown all the same: whoever was called in needs it most where something else fails.
        State::Quarantined => list_doubts(&client, &job).await.unwrap_or_else(|error| {
            let why = Failure::from(error).text(str::to_owned);
            context.printer.remark(&format!("what is in doubt could not be listed\n{why}"));
            Vec::new()
        }),
        _ => Vec::new(),
    };
    context.printer.line(&format_job(context.printer, &job, &doubts, Timestamp::now()))
}

/// What is in doubt about a job that was set aside: the first of it, and whether there is more.
async fn list_doubts(client: &Client, job: &Job) -> Result<Vec<String>, ClientError> {
    let page = client.list_undecided(&job.id.to_string(), DOUBTS_SHOWN, None).await?;
    let mut keys: Vec<String> = page.effects.iter().map(|effect| harmless(effect.key.as_str())).collect();
    keys.extend(page.cursor.map(|_| "…".to_owned()));
    Ok(keys)
}

fn format_job(printer: Printer, job: &Job, doubts: &[String], now: Timestamp) -> String {
    let mut lines = vec![
        format!(
            "{} for {}, waiting for {}",
            printer.state(job.state),
            format_since(job.state_since, now),
            describe_wait(job, doubts, now)
        ),
        format!(
            "held by {}, epoch {}, run {}, attempt {}",
            describe_holder(job, now),
            job.epoch,
            job.run,
            job.attempt
        ),
        format!(
            "next: {}",
            if job.next.is_empty() { "nothing".to_owned() } else { job.next.join("   or: ") }
        ),
        String::new(),
    ];
    lines.extend(describe_rest(job, now));
    lines.join("\n")
}

/// What has to happen before the job goes on.
fn describe_wait(job: &Job, doubts: &[String], now: Timestamp) -> String {
    if let (State::Ready | State::Withheld, Some(halt)) = (job.state, &job.halt) {
        let (scope, why) = (harmless(&halt.scope), harmless(&halt.why));
        return format!("the lift of halt {} of {scope}: {why}", halt.id);
    }
    match (job.state, &job.holder) {
        (State::Ready, _) if job.unwinding_to.is_some() && job.not_before.is_none() => {
            "a worker, to undo what it has done".to_owned()
        }
        (State::Running, _) if job.unwinding_to.is_some() => "its run to undo what it has done".to_owned(),
        (State::Ready, _) => match job.not_before.filter(|at| *at > now) {
            Some(at) => format!("its time, {}", format_instant(at, now)),
            None => "a worker".to_owned(),
        },
        (State::Running, _) if job.abandon_requested => "its run to end, because it is given up".to_owned(),
        (State::Running, _) if job.cancel_requested => "its run to end, because a cancel stands".to_owned(),
        (State::Running, _) => "its run to end".to_owned(),
        (State::Suspended, _) => match &job.wait {
            Some(wait) => describe_suspension(wait, now),
            None => "an instant, an event or a decision".to_owned(),
        },
        (State::Interrupted, Some(holder)) if !holder.live => {
            format!("somebody who knows that the child on {} is gone", holder.worker)
        }
        (State::Quarantined, _) if !doubts.is_empty() => {
            format!("a person to decide about what is in doubt: {}", doubts.join(", "))
        }
        (State::Interrupted | State::Failed | State::Exhausted | State::Withheld | State::Quarantined, _) => {
            "a person to decide".to_owned()
        }
        (State::Succeeded | State::Cancelled | State::Abandoned | State::Expired, _) => "nothing".to_owned(),
    }
}

fn describe_suspension(wait: &JobWait, now: Timestamp) -> String {
    let JobWait { until, jobs, left, .. } = *wait;
    let at = format!("{until} ({})", format_instant(until, now));
    match (jobs, wait.expired) {
        (0, _) => at,
        (_, true) => format!("a person to decide: its wait for {left} of {jobs} jobs expired at {at}"),
        (_, false) => format!("{left} of {jobs} jobs, until {at}"),
    }
}

fn describe_holder(job: &Job, now: Timestamp) -> String {
    let Some(holder) = &job.holder else { return "nobody".to_owned() };
    let since = match holder.granted_at {
        Some(at) => format!(" for {}", format_since(at, now)),
        None => String::new(),
    };
    let settled = if holder.live { "" } else { ", settled, its child not known to be gone" };
    format!("{} (term {}{since}{settled})", holder.worker, holder.term)
}

fn describe_rest(job: &Job, now: Timestamp) -> Vec<String> {
    let deadline = match job.deadline_at {
        Some(at) => format!("{at} ({})", format_instant(at, now)),
        None => "none".to_owned(),
    };
    let mut rest = vec![
        format!("job        {}", job.id),
        format!("agent      {} ({})", job.agent, job.declaration_digest),
        format!("session    {}", job.session_id),
        format!("submitted  {} ({} ago)", job.submitted_at, format_since(job.submitted_at, now)),
        format!("deadline   {deadline}"),
        format!("journal    {} records, head {}", job.head_seq, job.head_hash),
    ];
    for (heading, text) in [("reason", &job.reason), ("detail", &job.detail)] {
        if !text.is_empty() {
            rest.push(format!("{heading:<10} {}", harmless(text)));
        }
    }
    if let Some(state) = job.unwinding_to {
        rest.push(format!("unwinding  to become {state}"));
    }
    if job.holds_landed_work == Some(true) {
        rest.push("effects    what it has changed in the world stands".to_owned());
    }
    if job.losses > 0 {
        rest.push(format!("losses     {}", job.losses));
    }
    rest.extend(
        job.labels.iter().map(|(key, value)| format!("label      {}={}", harmless(key), harmless(value))),
    );
    rest
}
