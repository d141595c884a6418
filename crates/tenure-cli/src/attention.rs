//! `tenure attention`: what needs a person right now, since when, and which command answers it; once, or whenever that changes.

use std::time::Duration;

use clap::{Args, builder::RangedI64ValueParser};
use jiff::Timestamp;
use tenure_client::attention::{Attention, Condition, Look};
use tenure_core::{
    attention::Ages,
    limits::{ATTENTION_PAGE_DEFAULT, ATTENTION_PAGE_MAX},
};
use tokio::time::sleep;

use crate::{
    context::Context,
    failure::Failure,
    printer::harmless,
    relative::{format_since, parse_span},
};

/// What a look that found something ends with.
const EXIT_FOUND: u8 = 1;

/// Show what needs a person, and what answers it; exit code 1 where anything does
#[derive(Debug, Args)]
pub(crate) struct AttentionArgs {
    /// Read at most so many of each kind, 1 to 10,000.
    #[arg(long, default_value_t = ATTENTION_PAGE_DEFAULT, value_name = "N", value_parser = parse_page())]
    page: u32,
    /// Judge what is there as if it were this instant, for example 2026-05-01T08:00:00Z.
    #[arg(long, value_name = "INSTANT", conflicts_with = "watch")]
    at: Option<Timestamp>,
    /// A job that waits for a worker that there is not counts after so long.
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = parse_span)]
    unclaimable_after: Duration,
    /// A lease that is unsettled counts so long after its term lapsed.
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = parse_span)]
    abandoned_after: Duration,
    /// A halt that stands counts after so long.
    #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = parse_span)]
    halt_after: Duration,
    /// Go on, and print again whenever something changed.
    #[arg(short, long)]
    watch: bool,
    /// With --watch: look so often.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = parse_span, requires = "watch")]
    every: Duration,
}

impl AttentionArgs {
    fn look(&self) -> Look {
        let ages = Ages {
            unclaimable: self.unclaimable_after,
            abandoned_lease: self.abandoned_after,
            halt: self.halt_after,
        };
        Look { at: self.at, page: self.page, ages }
    }
}

fn parse_page() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(ATTENTION_PAGE_MAX))
}

pub(crate) async fn show_attention(context: &Context, args: AttentionArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let look = args.look();
    let mut attention = client.get_attention(&look).await?;
    print_attention(context, &attention)?;
    if !args.watch {
        let found = !attention.conditions.is_empty();
        return if found { Err(Failure::Printed { exit: EXIT_FOUND }) } else { Ok(()) };
    }
    loop {
        sleep(args.every).await;
        let present = client.get_attention(&look).await?;
        if present.conditions != attention.conditions {
            print_attention(context, &present)?;
            attention = present;
        }
    }
}

fn print_attention(context: &Context, attention: &Attention) -> Result<(), Failure> {
    if context.printer.json {
        return context.printer.object(attention);
    }
    for condition in &attention.conditions {
        context.printer.line(&describe(condition, attention.at))?;
    }
    if attention.conditions.is_empty() {
        context.printer.line("nothing needs a person")?;
    }
    let kinds: Vec<&str> = attention.not_checked.iter().map(|one| one.kind.as_str()).collect();
    context.printer.remark(&format!("not checked (--json says why): {}", kinds.join(", ")));
    Ok(())
}

fn describe(condition: &Condition, at: Timestamp) -> String {
    let Condition { kind, found, at_least, since, subjects, unlisted, remedy } = condition;
    let (number, age) = (if *at_least { "at least " } else { "" }, format_since(*since, at));
    let more = if *unlisted > 0 { format!(" and {unlisted} more") } else { String::new() };
    format!(
        "{kind}: {number}{found}, the oldest for {age}\n  {}{more}\n  next: {}",
        harmless(&subjects.join(" ")),
        harmless(&remedy.command_line)
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tenure_client::attention::Remedy;
    use tenure_core::attention::{ALTERNATIVE, Kind};

    use super::*;
    use crate::cli::{Cli, Verb};

    fn parse(words: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(words.split(' '))
    }

    #[test]
    fn what_is_said_where_nothing_is_said_is_what_the_fleet_takes() {
        let Verb::Attention(args) = parse("tenure attention").unwrap().verb else { panic!("another verb") };
        let usual = Look { at: None, page: ATTENTION_PAGE_DEFAULT, ages: Ages::default() };
        assert_eq!(args.look(), usual);
    }

    #[test]
    fn every_command_of_every_remedy_can_be_typed() {
        for kind in Kind::ALL {
            let remedy = tenure_core::attention::Remedy::of(*kind, "123456");
            for command in remedy.command_line.split(ALTERNATIVE) {
                if !command.starts_with("no verb: ") {
                    parse(command).unwrap_or_else(|error| panic!("{command}: {error}"));
                }
            }
        }
    }

    #[test]
    fn a_condition_is_told_with_its_number_its_age_its_subjects_and_what_answers_it() {
        let at = Timestamp::from_second(10_000).unwrap();
        let condition = Condition {
            kind: "job.exhausted".to_owned(),
            found: 12,
            at_least: true,
            since: Timestamp::from_second(10_000 - 3_720).unwrap(),
            subjects: vec!["a".to_owned(), "b".to_owned()],
            unlisted: 10,
            remedy: Remedy { command_line: "tenure resume a --why W".to_owned(), grpc: String::new() },
        };
        assert_eq!(
            describe(&condition, at),
            "job.exhausted: at least 12, the oldest for 1h 2m\n  a b and 10 more\n  next: tenure resume a --why W"
        );
    }
}
