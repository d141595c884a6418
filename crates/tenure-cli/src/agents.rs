//! `tenure agents`: the agents that are declared.

use clap::Args;
use jiff::Timestamp;

use crate::{
    context::Context,
    failure::Failure,
    relative::format_since,
    table::{build_table, cell, format_table},
};

/// List the agents that are declared
#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// At most so many.
    #[arg(long, default_value_t = 500, value_name = "N")]
    limit: u32,
    /// Go on after an earlier page.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

pub(crate) async fn list_agents(context: &Context, args: AgentsArgs) -> Result<(), Failure> {
    let page = context.client()?.list_agents(args.limit, args.cursor.as_deref()).await?;
    if context.printer.json {
        return context.printer.object(&page);
    }
    if page.agents.is_empty() {
        context.printer.remark("no agent is declared; next: tenure init, then tenure apply tenure.toml");
        return Ok(());
    }
    let mut table = build_table(context.printer, &["agent", "digest", "applied", "by"]);
    let now = Timestamp::now();
    for agent in &page.agents {
        table.add_row([
            cell(agent.name.as_str()),
            cell(&agent.digest.to_string()[..12]),
            cell(&format!("{} ago", format_since(agent.applied_at, now))),
            cell(&agent.applied_by),
        ]);
    }
    context.printer.line(&format_table(&table))?;
    if let Some(cursor) = &page.cursor {
        context.printer.remark(&format!("more: tenure agents --cursor {cursor}"));
    }
    Ok(())
}
