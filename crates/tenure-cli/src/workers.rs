//! `tenure workers`: who is attached, and how much of them is taken.

use clap::Args;
use comfy_table::Cell;
use jiff::Timestamp;
use tenure_client::workers::Worker;
use tenure_core::plan::Fencing;

use crate::{
    context::Context,
    failure::Failure,
    relative::{format_instant, format_since},
    table::{build_table, cell, format_table},
};

/// List the workers
#[derive(Debug, Args)]
pub(crate) struct WorkersArgs {
    /// At most so many.
    #[arg(long, default_value_t = 500, value_name = "N")]
    limit: u32,
    /// Go on after an earlier page.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

pub(crate) async fn list_workers(context: &Context, args: WorkersArgs) -> Result<(), Failure> {
    let page = context.client()?.list_workers(args.limit, args.cursor.as_deref()).await?;
    if context.printer.json {
        return context.printer.object(&page);
    }
    if page.workers.is_empty() {
        context.printer.remark("no worker is registered; next: tenure worker");
        return Ok(());
    }
    let headings = ["worker", "term", "runs", "fencing", "renewed", "lapses", "labels", "version"];
    let mut table = build_table(context.printer, &headings);
    let now = Timestamp::now();
    for worker in &page.workers {
        // A worker that was killed and started again is here twice, until its earlier term has lapsed.
        let replaced = page.workers.iter().any(|other| other.name == worker.name && other.term > worker.term);
        table.add_row(describe_worker(worker, replaced, now));
    }
    context.printer.line(&format_table(&table))?;
    if let Some(cursor) = &page.cursor {
        context.printer.remark(&format!("more: tenure workers --cursor {cursor}"));
    }
    Ok(())
}

fn describe_worker(worker: &Worker, replaced: bool, now: Timestamp) -> [Cell; 8] {
    let fencing = match worker.fencing {
        Fencing::None => "none",
        Fencing::Guardian => "guardian",
        Fencing::Kernel => "kernel",
    };
    let lapses = match worker.closed_at {
        Some(at) => format!("closed {} ago", format_since(at, now)),
        None if replaced => format!("replaced; {}", format_instant(worker.expires_at, now)),
        None => format_instant(worker.expires_at, now),
    };
    [
        cell(worker.name.as_str()),
        cell(&worker.term.to_string()),
        cell(&format!("{}/{}", worker.leases, worker.slots)),
        cell(fencing),
        cell(&format!("{} ago", format_since(worker.renewed_at, now))),
        cell(&lapses),
        cell(&worker.labels.join(" ")),
        cell(&worker.version),
    ]
}
