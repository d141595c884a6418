//! `tenure wait`, inside a run: the wait is over at once, or it ends the run. Then this process is ended with it, and a later
//! run, which repeats its script, is answered here.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use tenure_client::run::WaitOver;
use tenure_core::{declaration::read_duration, wait::Until};

use super::{explain, open_run_within};
use crate::{context::Context, failure::Failure};

/// How long a wait may take to be answered or to end the run: the fleet may be away, and a child has its stop-grace.
const WAIT_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Wait: ends this run; a later one starts when the wait is over
///
/// The next run repeats its script, and where it reaches the same wait it is answered at once. A wait is known by its place
/// among the waits of the run, or by its --key.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Until an instant (RFC 3339, with offset), or for a span like 90s or 1h30m.
    #[arg(long, value_name = "INSTANT|SPAN", value_parser = parse_until)]
    until: Until,
    /// Tells the wait apart from the other waits of the run.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

pub(crate) async fn wait(context: &Context, args: WaitArgs) -> Result<(), Failure> {
    let run = open_run_within(WAIT_TIMEOUT)?;
    let over = run.wait(args.key.as_deref(), Some(args.until)).await.map_err(explain)?;
    if context.printer.json {
        return context.printer.object(&over);
    }
    let WaitOver { due, .. } = over;
    if let Some(due) = due {
        context.printer.remark(&format!("the wait until {due} is over"));
    }
    Ok(())
}

/// An instant, or a span from now on.
pub(crate) fn parse_until(given: &str) -> Result<Until, String> {
    if let Ok(at) = given.parse::<Timestamp>() {
        return Ok(Until::At(at));
    }
    read_duration(given).map(Until::After).map_err(|_| {
        format!("{given:?} is neither an instant like 2026-11-30T17:00:00+01:00 nor a span like \"90s\" or \"1h30m\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_an_instant_with_offset_or_a_span() {
        let at = "2026-11-30T16:00:00Z".parse().unwrap();
        assert_eq!(parse_until("2026-11-30T17:00:00+01:00"), Ok(Until::At(at)));
        assert_eq!(parse_until("1h30m"), Ok(Until::After(Duration::from_secs(5_400))));
        for bad in ["", "tomorrow", "90", "2026-11-30T17:00:00", "-5s"] {
            assert!(parse_until(bad).is_err(), "{bad:?}");
        }
    }
}
