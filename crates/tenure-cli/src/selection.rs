//! Which jobs a verb acts on: named ones, or all that have a state, an agent or labels. Nobody acts on a set that was not
//! counted first: a set is shown, and acted on only after a yes, on a terminal or with --yes.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _, Write as _},
};

use clap::Args;
use tenure_client::{Client, job::Job, jobs::JobFilter};
use tenure_core::{job::State, limits::PAGE_MAX};

use crate::{
    context::Context,
    failure::Failure,
    jobs::parse_state,
    label::{collect_labels, parse_label},
};

/// The jobs to act on.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// The jobs.
    #[arg(
        value_name = "JOB",
        required_unless_present_any = ["state", "agent", "label"],
        conflicts_with_all = ["state", "agent", "label"]
    )]
    jobs: Vec<String>,
    #[command(flatten)]
    set: JobSet,
}

/// All jobs that have something in common, and whether to ask first.
#[derive(Debug, Args)]
pub(crate) struct JobSet {
    /// All jobs in these states.
    #[arg(long, value_name = "STATE", value_parser = parse_state, value_delimiter = ',')]
    state: Vec<State>,
    /// All jobs of this agent.
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// All jobs with these labels.
    #[arg(long, value_name = "K=V", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Show which jobs are meant and how many, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl JobSet {
    /// True where nothing says which jobs.
    pub(crate) const fn is_unnamed(&self) -> bool {
        self.state.is_empty() && self.agent.is_none() && self.label.is_empty()
    }

    /// These jobs, or where there are none, the set.
    pub(crate) const fn or_of(self, jobs: Vec<String>) -> Selection {
        Selection { jobs, set: self }
    }
}

/// The jobs that are meant, or that there is nothing to do.
pub(crate) async fn select_jobs(
    context: &Context,
    client: &Client,
    verb: &str,
    selection: Selection,
) -> Result<Vec<String>, Failure> {
    let is_set = selection.jobs.is_empty();
    if !is_set && !selection.set.dry_run {
        return Ok(selection.jobs);
    }
    let jobs = find_jobs(client, &selection).await?;
    let counted = describe_count(&jobs);
    if selection.set.dry_run {
        print_jobs(context, &jobs)?;
        context.printer.remark(&format!("{verb} would act on {counted}"));
        return Ok(Vec::new());
    }
    if jobs.is_empty() {
        context.printer.remark("no such job");
        return Ok(Vec::new());
    }
    if selection.set.yes || ask(&format!("{verb} {counted}?"))? {
        return Ok(jobs.iter().map(|job| job.id.to_string()).collect());
    }
    context.printer.remark("nothing was done");
    Ok(Vec::new())
}

/// The jobs that were named, or every one of the set; of a set without a state only what is not sealed.
async fn find_jobs(client: &Client, selection: &Selection) -> Result<Vec<Job>, Failure> {
    let mut found = Vec::new();
    for job in &selection.jobs {
        found.push(client.get_job(job).await?);
    }
    if !selection.jobs.is_empty() {
        return Ok(found);
    }
    let set = &selection.set;
    let filter = JobFilter {
        states: set.state.clone(),
        agent: set.agent.clone(),
        since: None,
        labels: collect_labels(set.label.clone()),
    };
    let mut cursor = None;
    loop {
        let page = client.list_jobs(&filter, PAGE_MAX, cursor.as_deref()).await?;
        found.extend(page.jobs.into_iter().filter(|job| !set.state.is_empty() || !job.state.is_sealed()));
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

/// For example `12 jobs (10 ready, 2 running)`.
fn describe_count(jobs: &[Job]) -> String {
    let mut by_state: BTreeMap<State, usize> = BTreeMap::new();
    for job in jobs {
        *by_state.entry(job.state).or_default() += 1;
    }
    let states: Vec<String> = by_state.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let noun = if jobs.len() == 1 { "job" } else { "jobs" };
    if states.is_empty() {
        format!("0 {noun}")
    } else {
        format!("{} {noun} ({})", jobs.len(), states.join(", "))
    }
}

fn print_jobs(context: &Context, jobs: &[Job]) -> Result<(), Failure> {
    for job in jobs {
        if context.printer.json {
            context.printer.object(job)?;
        } else {
            context.printer.line(&format!(
                "{}  {}  {}",
                job.id,
                job.agent,
                context.printer.state(job.state)
            ))?;
        }
    }
    Ok(())
}

fn ask(question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "{question} nobody can be asked here; look with --dry-run first, then say --yes"
        )));
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
