//! `tenure jobs`: a page of jobs, newest first.

use std::time::Duration;

use clap::Args;
use comfy_table::Cell;
use jiff::Timestamp;
use tenure_client::{
    job::{Job, JobPage},
    jobs::JobFilter,
};
use tenure_core::job::State;

use crate::{
    context::Context,
    failure::Failure,
    label::{collect_labels, parse_label},
    relative::{format_since, parse_span},
    table::{build_table, cell, format_table, state_cell},
};

/// List jobs, newest first
#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    /// Only in these states.
    #[arg(long, value_name = "STATE", value_parser = parse_state, value_delimiter = ',')]
    state: Vec<State>,
    /// Only of this agent.
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only with these labels.
    #[arg(long, value_name = "K=V", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Only submitted within this span.
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    since: Option<Duration>,
    /// At most so many.
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: u32,
    /// Go on after an earlier page.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

pub(crate) async fn list_jobs(context: &Context, args: JobsArgs) -> Result<(), Failure> {
    let filter = JobFilter {
        states: args.state,
        agent: args.agent,
        since: args.since.map(|span| Timestamp::now().saturating_sub(span)).transpose().map_err(too_far)?,
        labels: collect_labels(args.label),
    };
    let is_filtered = filter != JobFilter::default() || args.cursor.is_some();
    let page = context.client()?.list_jobs(&filter, args.limit, args.cursor.as_deref()).await?;
    if context.printer.json {
        return context.printer.object(&page);
    }
    print_page(context, &page, is_filtered)
}

fn print_page(context: &Context, page: &JobPage, is_filtered: bool) -> Result<(), Failure> {
    if page.jobs.is_empty() {
        context.printer.remark(if is_filtered {
            "no such job"
        } else {
            "no job yet; next: tenure submit AGENT"
        });
        return Ok(());
    }
    let mut table = build_table(
        context.printer,
        &["job", "agent", "state", "since", "run", "attempt", "worker", "reason"],
    );
    let now = Timestamp::now();
    for job in &page.jobs {
        table.add_row(describe_row(job, now));
    }
    context.printer.line(&format_table(&table))?;
    if let Some(cursor) = &page.cursor {
        context.printer.remark(&format!("more: add --cursor {cursor}"));
    }
    Ok(())
}

fn describe_row(job: &Job, now: Timestamp) -> [Cell; 8] {
    let worker = job.holder.as_ref().map(|holder| holder.worker.as_str());
    [
        cell(&job.id.short()),
        cell(job.agent.as_str()),
        state_cell(job.state),
        cell(&format_since(job.state_since, now)),
        cell(&job.run.to_string()),
        cell(&job.attempt.to_string()),
        cell(worker.unwrap_or_default()),
        cell(&job.reason),
    ]
}

/// Reads the name of a state; for the parser of the command line.
pub(crate) fn parse_state(given: &str) -> Result<State, String> {
    State::parse(given).map_err(|error| error.to_string())
}

fn too_far(error: jiff::Error) -> Failure {
    Failure::usage(format!("the span given with --since reaches too far back: {error}"))
}
