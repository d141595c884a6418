//! `tenure ping`: does a coordinator answer, and is it ready for work.

use clap::Args;
use tenure_core::reason::Reason;

use crate::{context::Context, failure::Failure};

/// Ask whether a coordinator answers
#[derive(Debug, Args)]
pub(crate) struct PingArgs {
    /// Ask also whether it is ready: its database answers.
    #[arg(long)]
    ready: bool,
}

pub(crate) async fn ping_coordinator(context: &Context, args: PingArgs) -> Result<(), Failure> {
    let health = context.client()?.check_health().await?;
    if args.ready && !health.ready {
        let message = format!("the coordinator at {} is not ready for work", health.endpoint);
        return Err(Failure::new(Reason::DatabaseUnavailable, message));
    }
    if context.printer.json {
        return context.printer.object(&health);
    }
    let ready = if health.ready { "ready" } else { "not ready" };
    context.printer.line(&format!("{} answers and is {ready}", health.endpoint))
}
