//! `tenure memory`: what an agent remembers.

use clap::Args;
use serde_json::json;

use crate::{context::Context, failure::Failure, printer::harmless};

/// Show what an agent remembers, the oldest first
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Whose.
    agent: String,
    /// The latest so many lines.
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: u32,
}

pub(crate) async fn show_memory(context: &Context, args: MemoryArgs) -> Result<(), Failure> {
    let memories = context.client()?.list_memories(&args.agent, args.limit).await?;
    if context.printer.json {
        return context.printer.object(&json!({ "memories": memories }));
    }
    if memories.is_empty() {
        context.printer.remark(&format!("agent {} remembers nothing", args.agent));
    }
    for memory in memories.iter().rev() {
        let line = format!("{}  {}  {}", memory.at, memory.job_id.short(), harmless(&memory.text));
        context.printer.line(&line)?;
    }
    Ok(())
}
