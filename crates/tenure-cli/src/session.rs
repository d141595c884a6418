//! `tenure session` and `tenure raise`: what a session has used of its limits, and raising one.

use clap::Args;
use jiff::Timestamp;
use tenure_client::session::{Session, UsedAmount, WaitingJoin};
use tenure_core::{id::AgentName, money::Micros};

use crate::{
    context::Context,
    failure::Failure,
    printer::{Printer, harmless},
    relative::format_instant,
    why::require_reason,
};

/// Show a session: its jobs, its deadline, and what it has used of its hops, runs and budget
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// The session's whole id, or a job of it.
    #[arg(value_name = "SESSION|JOB")]
    session: String,
}

/// Raise a limit of a session, or the hops of a job; what it had refused goes on with resume
#[derive(Debug, Args)]
pub(crate) struct RaiseArgs {
    /// A job, or the whole id of a session.
    #[arg(value_name = "JOB|SESSION")]
    target: String,
    /// budget, runs, or hops (of a job).
    limit: String,
    /// The new value, for example 7.50 for a budget or 80 for runs; not below what is used.
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Why; it stands in the journal.
    #[arg(long, value_name = "WHY")]
    why: String,
}

pub(crate) async fn show_session(context: &Context, args: SessionArgs) -> Result<(), Failure> {
    let session = context.client()?.get_session(&args.session).await?;
    if context.printer.json {
        return context.printer.object(&session);
    }
    context.printer.line(&format_session(context.printer, &session, Timestamp::now()))
}

pub(crate) async fn raise_limit(context: &Context, args: RaiseArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let raised = context.client()?.raise_limit(&args.target, &args.limit, &args.value, why).await?;
    if context.printer.json {
        return context.printer.object(&raised);
    }
    if raised.unchanged {
        context.printer.remark("it was so already: nothing was written");
    }
    context.printer.line(&format_session(context.printer, &raised.session, Timestamp::now()))
}

fn format_session(printer: Printer, session: &Session, now: Timestamp) -> String {
    let deadline = match session.deadline_at {
        Some(at) => format!("{at} ({})", format_instant(at, now)),
        None => "none".to_owned(),
    };
    let UsedAmount { used, allowed } = session.budget_micros;
    let mut lines = vec![
        format!("session   {}", session.id),
        format!("started   {} ({})", session.started_at, format_instant(session.started_at, now)),
        format!("deadline  {deadline}"),
        format!("hops      {} at its start", session.hops),
        format!("runs      {} of {}", session.runs.used, session.runs.allowed),
        format!("budget    {} of {}", Micros(used), Micros(allowed)),
        format!("spent     {} tokens, {} turns", session.tokens, session.turns),
        format!("jobs      {}", session.job_count),
    ];
    lines.extend(session.jobs.iter().map(|job| {
        let reason =
            if job.reason.is_empty() { String::new() } else { format!(" ({})", harmless(&job.reason)) };
        format!(
            "  {}  {}{reason}  {}, run {}, {} hops left",
            job.id.short(),
            printer.state(job.state),
            job.agent,
            job.run,
            job.hops_left
        )
    }));
    let shown = session.jobs.len() as u64;
    if session.job_count > shown {
        lines.push(format!("  and {} more", session.job_count - shown));
    }
    lines.extend(session.joins.iter().map(|join| format_join(join, now)));
    lines.join("\n")
}

fn format_join(join: &WaitingJoin, now: Timestamp) -> String {
    let names = |names: &[AgentName]| names.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let stalled =
        if join.stalled { ", stalled: no job of the session is left that could deliver" } else { "" };
    format!(
        "join      {} waits for {} since {}; {} delivered{stalled}",
        join.agent,
        names(&join.missing),
        format_instant(join.since, now),
        names(&join.delivered)
    )
}
