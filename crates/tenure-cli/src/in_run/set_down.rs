//! `tenure set-down`, inside a run: the work is booked to be picked up later by a session of its own.

use clap::Args;
use serde_json::json;
use tenure_core::wait::Until;

use super::{explain, open_run, wait::parse_until};
use crate::{context::Context, failure::Failure};

/// Set the work down: when this run succeeds, a session of its own picks it up later
///
/// That session has the same agent and input, and its limits anew. The last booking of a run counts; where the run ends
/// otherwise than with success, it comes to nothing.
#[derive(Debug, Args)]
pub(crate) struct SetDownArgs {
    /// Picked up no earlier than this instant (RFC 3339, with offset), or after a span like 90s or 1h30m.
    #[arg(long, value_name = "INSTANT|SPAN", value_parser = parse_until)]
    until: Until,
    /// What the work waits for, for whoever picks it up.
    #[arg(long, value_name = "TEXT")]
    waiting_for: String,
}

pub(crate) async fn set_down(context: &Context, args: SetDownArgs) -> Result<(), Failure> {
    let until = open_run()?.set_down(args.until, &args.waiting_for).await.map_err(explain)?;
    if context.printer.json {
        return context.printer.object(&json!({ "until": until }));
    }
    context.printer.remark(&format!("set down until {until}, where this run succeeds"));
    Ok(())
}
