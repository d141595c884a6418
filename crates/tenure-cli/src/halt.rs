//! `tenure halt`, `tenure lift` and `tenure halts`: work of a scope is refused, let go on, and what is refused is listed.

use clap::Args;
use jiff::Timestamp;
use tenure_client::halts::Halt;
use tenure_core::id::HaltId;

use crate::{
    context::Context,
    failure::Failure,
    printer::harmless,
    relative::format_since,
    table::{build_table, cell, format_table},
    why::require_reason,
};

/// Refuse submissions and new runs of a tenant, an agent, a revision or a principal, until it is lifted
#[derive(Debug, Args)]
pub(crate) struct HaltArgs {
    /// What: tenant, agent NAME, revision DIGEST or principal NAME.
    #[arg(required = true, num_args = 1..=2, value_names = ["SCOPE", "NAME"])]
    scope: Vec<String>,
    /// Why; whoever is refused is told.
    #[arg(long, value_name = "WHY")]
    why: String,
}

/// Lift a halt; others that stand stay
#[derive(Debug, Args)]
pub(crate) struct LiftArgs {
    /// The number of the halt.
    halt: u64,
    /// Why.
    #[arg(long, value_name = "WHY")]
    why: String,
}

/// List the halts that stand
#[derive(Debug, Args)]
pub(crate) struct HaltsArgs {
    /// Also those that were lifted.
    #[arg(long)]
    lifted: bool,
    /// At most so many.
    #[arg(long, default_value_t = 500, value_name = "N")]
    limit: u32,
    /// Go on after an earlier page.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

pub(crate) async fn throw_halt(context: &Context, args: HaltArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let (halt, already_standing) = context.client()?.throw_halt(&args.scope.join(" "), why).await?;
    if already_standing {
        context.printer.remark("it stood before");
    }
    print_halt(context, &halt)
}

pub(crate) async fn lift_halt(context: &Context, args: LiftArgs) -> Result<(), Failure> {
    let why = require_reason(&args.why)?;
    let halt = context.client()?.lift_halt(HaltId(args.halt), why).await?;
    print_halt(context, &halt)
}

pub(crate) async fn list_halts(context: &Context, args: HaltsArgs) -> Result<(), Failure> {
    let page = context.client()?.list_halts(args.lifted, args.limit, args.cursor.as_deref()).await?;
    if context.printer.json {
        return context.printer.object(&page);
    }
    if page.halts.is_empty() {
        context.printer.remark("no halt stands");
        return Ok(());
    }
    let mut table =
        build_table(context.printer, &["halt", "tenant", "scope", "since", "by", "why", "lifted"]);
    let now = Timestamp::now();
    for halt in &page.halts {
        let lifted = halt.lifted_at.zip(halt.lifted_by.as_ref());
        let lifted = lifted.map(|(at, by)| format!("{} ago by {}", format_since(at, now), harmless(by)));
        table.add_row([
            cell(&halt.id.to_string()),
            cell(halt.tenant.as_deref().unwrap_or("*")),
            cell(&harmless(&halt.scope)),
            cell(&format!("{} ago", format_since(halt.thrown_at, now))),
            cell(&harmless(&halt.thrown_by)),
            cell(&harmless(&halt.why)),
            cell(&lifted.unwrap_or_default()),
        ]);
    }
    context.printer.line(&format_table(&table))?;
    if let Some(cursor) = &page.cursor {
        context.printer.remark(&format!("more: tenure halts --cursor {cursor}"));
    }
    Ok(())
}

fn print_halt(context: &Context, halt: &Halt) -> Result<(), Failure> {
    if context.printer.json {
        return context.printer.object(halt);
    }
    let stands = if halt.lifted_at.is_some() { "is lifted" } else { "stands" };
    let (scope, why) = (harmless(&halt.scope), harmless(&halt.why));
    context.printer.line(&format!("halt {} of {scope} {stands}: {why}", halt.id))
}
