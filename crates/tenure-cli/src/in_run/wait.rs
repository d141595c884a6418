//! `tenure wait`, inside a run: the wait is over at once, or it ends the run. Then this process is ended with it, and a later
//! run, which repeats its script, is answered here: with the instant, or with what came of each job.

use std::{io, time::Duration};

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;
use tenure_client::run::{AwaitedJob, WaitOver};
use tenure_core::{declaration::read_duration, id::JobId, wait::Until};

use super::{explain, open_run_within};
use crate::{context::Context, failure::Failure, journal_line::name_bytes, printer::harmless};

/// How long a wait may take to be answered or to end the run: the fleet may be away, and a child has its stop-grace.
const WAIT_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Wait: ends this run; a later one starts when the wait is over
///
/// With --job it is over once each of the jobs has succeeded, failed, or was cancelled or given up; where all have already, this
/// run goes on. The next run repeats its script, and where it reaches the same wait it is answered at once. A wait is known by its place
/// among the waits of the run, or by its --key.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Until an instant (RFC 3339, with offset), or for a span like 90s or 1h30m. With --job: when the wait expires; without
    /// it at the session's deadline, and after 31 days at the latest.
    #[arg(long, value_name = "INSTANT|SPAN", value_parser = parse_until, required_unless_present = "job")]
    until: Option<Until>,
    /// For these jobs, until each has concluded; what came of each is printed, in this order.
    #[arg(long, value_name = "JOB", num_args = 1..)]
    job: Vec<JobId>,
    /// Tells the wait apart from the other waits of the run.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

pub(crate) async fn wait(context: &Context, args: WaitArgs) -> Result<(), Failure> {
    let run = open_run_within(WAIT_TIMEOUT)?;
    let over = run.wait(args.key.as_deref(), args.until, &args.job).await.map_err(explain)?;
    if context.printer.json {
        return context.printer.object(&describe(&over)?);
    }
    for job in &over.jobs {
        context.printer.line(&format_job(job))?;
    }
    let WaitOver { due, .. } = over;
    if let Some(due) = due {
        context.printer.remark(&format!("the wait until {due} is over"));
    }
    Ok(())
}

/// For programs: what each job returned is text under `result`, or hexadecimal digits under `result_hex`.
fn describe(over: &WaitOver) -> Result<Value, Failure> {
    let mut told = serde_json::to_value(over).map_err(io::Error::from)?;
    let jobs = told.get_mut("jobs").and_then(Value::as_array_mut);
    for (member, job) in jobs.into_iter().flatten().zip(&over.jobs) {
        if let (Some(result), Some(members)) = (&job.result, member.as_object_mut()) {
            let (name, text) = name_bytes("result", result);
            members.insert(name, Value::String(text));
        }
    }
    Ok(told)
}

/// A job, how it concluded, and the beginning of what it returned, with tabs between them.
fn format_job(job: &AwaitedJob) -> String {
    let result = job.result.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let told = job.result.as_ref().map_or(0, |result| result.len()) as u64;
    let more =
        if told < job.result_bytes { format!("… ({} bytes)", job.result_bytes) } else { String::new() };
    format!("{}\t{}\t{}{more}", job.job, job.outcome, harmless(result.trim_end()))
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
