//! `tenure effects` and `tenure undecided`: what a job did to the world, and what nobody but a person can decide about it,
//! with the commands that answer it.
//! What was reported too late is shown beside it as what it is: said, and not recorded.

use clap::Args;
use comfy_table::Cell;
use jiff::Timestamp;
use serde::Serialize;
use tenure_client::{
    effects::{Effect, EffectPage, Testimony, UndecidedPage},
    job::Job,
};
use tenure_core::{
    effect::{Compensation, Disposition, EffectRecovery},
    job::{State, answer_commands},
};

use crate::{
    context::Context,
    failure::Failure,
    printer::harmless,
    relative::format_since,
    table::{build_table, cell, format_table},
};

/// Of a value so much is shown in a table; `--json` has all that the fleet tells.
const VALUE_SHOWN_CHARS: usize = 60;

/// List the effects of a job, every attempt
#[derive(Debug, Args)]
pub(crate) struct EffectsArgs {
    /// The job.
    job: String,
    #[command(flatten)]
    page: PageArgs,
}

/// List what is in doubt about a job, and what was said about it too late
#[derive(Debug, Args)]
pub(crate) struct UndecidedArgs {
    /// The job.
    job: String,
    #[command(flatten)]
    page: PageArgs,
}

/// Which page.
#[derive(Debug, Args)]
struct PageArgs {
    /// At most so many.
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: u32,
    /// Go on after an earlier page.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

pub(crate) async fn list_effects(context: &Context, args: EffectsArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let page = client.list_effects(&args.job, args.page.limit, args.page.cursor.as_deref()).await?;
    if context.printer.json {
        return context.printer.object(&page);
    }
    print_effects(context, &page)
}

pub(crate) async fn list_undecided(context: &Context, args: UndecidedArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let page = client.list_undecided(&args.job, args.page.limit, args.page.cursor.as_deref()).await?;
    let job = client.get_job(&page.job_id.to_string()).await?;
    let next = list_remedies(&page, &job);
    if context.printer.json {
        return context.printer.object(&Undecided { page: &page, next: &next });
    }
    print_undecided(context, &page, &next)
}

/// What is in doubt, and what to do about it.
#[derive(Serialize)]
struct Undecided<'a> {
    #[serde(flatten)]
    page: &'a UndecidedPage,
    next: &'a [String],
}

/// The answers to each effect, and then the commands that go on with the job. Only a job that is set aside takes answers.
fn list_remedies(page: &UndecidedPage, job: &Job) -> Vec<String> {
    let reopen = format!("tenure reopen {}", job.id.short());
    let takes_answers =
        job.state == State::Quarantined && job.next.iter().any(|next| next.starts_with(&reopen));
    let effects = page.effects.iter().filter(|effect| takes_answers && effect.undecided);
    let answers = effects.flat_map(|effect| answer_commands(job.id, &effect.key));
    let own = format!("tenure undecided {}", job.id.short());
    answers.chain(job.next.iter().filter(|next| **next != own).cloned()).collect()
}

fn print_effects(context: &Context, page: &EffectPage) -> Result<(), Failure> {
    if page.effects.is_empty() {
        context.printer.remark("it announced no effect");
        return Ok(());
    }
    let headings =
        ["effect", "attempt", "state", "announced", "run", "if in doubt", "undone", "output or error"];
    let mut table = build_table(context.printer, &headings);
    let now = Timestamp::now();
    for effect in &page.effects {
        table.add_row(describe_effect(effect, now));
    }
    context.printer.line(&format_table(&table))?;
    remark_cursor(context, page.cursor.as_deref());
    Ok(())
}

fn print_undecided(context: &Context, page: &UndecidedPage, next: &[String]) -> Result<(), Failure> {
    let now = Timestamp::now();
    if page.effects.is_empty() {
        context.printer.remark("nothing is in doubt");
    } else {
        context.printer.line(&format_doubts(context, &page.effects, now))?;
    }
    if !page.testimonies.is_empty() {
        context.printer.line("")?;
        context.printer.line(&format_testimonies(context, &page.testimonies, now))?;
        remark_unlisted(context, page);
    }
    remark_cursor(context, page.cursor.as_deref());
    if !next.is_empty() {
        context.printer.line("\nnext, as it is found to be:")?;
    }
    for command in next {
        context.printer.line(&format!("  {}", harmless(command)))?;
    }
    Ok(())
}

fn remark_unlisted(context: &Context, page: &UndecidedPage) {
    let unlisted = page.testimony_count.saturating_sub(page.testimonies.len() as u64);
    if unlisted > 0 {
        context.printer.remark(&format!("{unlisted} more came too late and are not listed"));
    }
}

fn format_doubts(context: &Context, effects: &[Effect], now: Timestamp) -> String {
    let headings = ["effect", "attempt", "state", "announced", "run", "who decides", "error"];
    let mut table = build_table(context.printer, &headings);
    for effect in effects {
        table.add_row(describe_doubt(effect, now));
    }
    format_table(&table)
}

fn format_testimonies(context: &Context, testimonies: &[Testimony], now: Timestamp) -> String {
    let headings =
        ["said too late of", "attempt", "by run", "arrived", "claim", "the journal", "output or error"];
    let mut table = build_table(context.printer, &headings);
    for said in testimonies {
        table.add_row([
            cell(said.key.as_str()),
            cell(&said.attempt.to_string()),
            cell(&said.run.to_string()),
            cell(&format!("{} ago", format_since(said.arrived_at, now))),
            cell(name_state(said.state, said.disposition)),
            cell(if said.contradicts { "says otherwise" } else { "" }),
            cell(&shorten(said.value.as_deref())),
        ]);
    }
    format_table(&table)
}

fn describe_effect(effect: &Effect, now: Timestamp) -> [Cell; 8] {
    [
        cell(effect.key.as_str()),
        cell(&effect.attempt.to_string()),
        cell(name_state(effect.state, effect.disposition)),
        cell(&format!("{} ago", format_since(effect.announced_at, now))),
        cell(&effect.run.to_string()),
        cell(effect.recovery.word()),
        cell(name_compensation(effect)),
        cell(&shorten(effect.value.as_deref())),
    ]
}

fn describe_doubt(effect: &Effect, now: Timestamp) -> [Cell; 7] {
    [
        cell(effect.key.as_str()),
        cell(&effect.attempt.to_string()),
        cell(name_state(effect.state, effect.disposition)),
        cell(&format!("{} ago", format_since(effect.announced_at, now))),
        cell(&effect.run.to_string()),
        cell(name_decider(effect)),
        cell(&shorten(effect.value.as_deref())),
    ]
}

/// How an attempt stands. One without an outcome is in doubt only where its run is gone, which is not known here.
fn name_state(state: &str, disposition: Option<Disposition>) -> &str {
    match (state, disposition) {
        ("started", _) => "no outcome",
        (_, Some(Disposition::InDoubt)) => "in doubt",
        (_, Some(Disposition::DidNotHappen)) => "did not happen",
        ("failed", Some(Disposition::Landed)) => "failed, landed",
        (_, Some(Disposition::Landed)) => "landed",
        (state, None) => state,
    }
}

const fn name_decider(effect: &Effect) -> &'static str {
    if effect.undecided {
        return "a person";
    }
    match effect.recovery {
        EffectRecovery::Retry | EffectRecovery::Idempotent => "the next run, by trying again",
        EffectRecovery::Probe => "the next run, by its probe",
        EffectRecovery::Ask => "a person",
    }
}

const fn name_compensation(effect: &Effect) -> &'static str {
    match effect.compensation {
        Compensation::Undeclared => "",
        Compensation::Undo => "by a command",
        Compensation::Pivot => "not at all",
        Compensation::Unnecessary => "unnecessary",
    }
}

fn shorten(value: Option<&[u8]>) -> String {
    let text = String::from_utf8_lossy(value.unwrap_or_default());
    let text = text.trim_end();
    if text.chars().count() <= VALUE_SHOWN_CHARS {
        return text.to_owned();
    }
    let shown: String = text.chars().take(VALUE_SHOWN_CHARS).collect();
    format!("{shown}…")
}

fn remark_cursor(context: &Context, cursor: Option<&str>) {
    if let Some(cursor) = cursor {
        context.printer.remark(&format!("more: add --cursor {cursor}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_an_attempt_is_told_by_what_became_of_the_world() {
        assert_eq!(name_state("started", None), "no outcome");
        assert_eq!(name_state("done", None), "done");
        assert_eq!(name_state("failed", Some(Disposition::Landed)), "failed, landed");
        assert_eq!(name_state("reconciled", Some(Disposition::Landed)), "landed");
        for state in ["failed", "reconciled"] {
            assert_eq!(name_state(state, Some(Disposition::InDoubt)), "in doubt");
            assert_eq!(name_state(state, Some(Disposition::DidNotHappen)), "did not happen");
        }
    }

    #[test]
    fn a_long_value_is_shortened_and_its_last_line_end_is_none_of_it() {
        assert_eq!(shorten(Some(b"pushed\n")), "pushed");
        assert_eq!(shorten(Some("ä".repeat(61).as_bytes())), format!("{}…", "ä".repeat(60)));
        assert_eq!(shorten(None), "");
    }
}
