//! `tenure submit`: the id of the new job on stdout, and nothing else there, so that it can be caught in a variable; what
//! a person should know beside it goes to stderr.

use std::{
    fs,
    io::{self, Read as _},
    path::PathBuf,
    time::Duration,
};

use bytes::Bytes;
use clap::Args;
use jiff::Timestamp;
use tenure_client::{
    blobs::LargeValue,
    submission::{Admitted, Submission},
};
use tenure_core::{
    limits::{BLOB_MAX_BYTES, VALUE_MAX_BYTES},
    reason::Reason,
    record::DeadlineSetting,
    refusal::Refusal,
};

use crate::{
    context::Context,
    failure::Failure,
    label::{collect_labels, parse_label},
    relative::{format_instant, parse_instant, parse_span},
    submit_batch::submit_batch,
    wait::{WaitLimit, wait_for_jobs},
};

/// Submit a job, and print its id
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The agent; with --batch: of lines that name none.
    #[arg(required_unless_present = "batch")]
    agent: Option<String>,
    /// The input: a text, @FILE, or - for stdin.
    #[arg(long, value_name = "TEXT|@FILE|-", conflicts_with = "batch")]
    input: Option<String>,
    /// Idempotency key: the same key answers with the same job.
    #[arg(long, value_name = "KEY", conflicts_with = "batch")]
    key: Option<String>,
    #[command(flatten)]
    deadline: DeadlineArgs,
    /// Attach a label.
    #[arg(long, value_name = "K=V", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Wait until the job is at rest; then 0 only where it succeeded.
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this; then 3.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, requires = "wait")]
    timeout: Option<Duration>,
    /// Submit one job for each line of a file (- for stdin): {"agent", "input", "key", "deadline", "labels"}.
    #[arg(long, value_name = "NDJSON")]
    batch: Option<PathBuf>,
}

/// When the session must be over.
#[derive(Debug, Args)]
pub(crate) struct DeadlineArgs {
    /// The session must be over after this span.
    #[arg(long, value_name = "SPAN", value_parser = parse_whole_seconds, group = "deadline-choice")]
    deadline: Option<u64>,
    /// The session must be over at this instant.
    #[arg(long, value_name = "INSTANT", value_parser = parse_instant, group = "deadline-choice")]
    deadline_at: Option<Timestamp>,
    /// The session has no deadline.
    #[arg(long, group = "deadline-choice")]
    no_deadline: bool,
}

impl DeadlineArgs {
    fn setting(&self) -> Option<DeadlineSetting> {
        match (self.deadline, self.deadline_at, self.no_deadline) {
            (Some(ceiling_s), _, _) => Some(DeadlineSetting::CeilingS(ceiling_s)),
            (None, Some(at), _) => Some(DeadlineSetting::At(at)),
            (None, None, true) => Some(DeadlineSetting::None),
            (None, None, false) => None,
        }
    }
}

pub(crate) async fn submit_jobs(context: &Context, args: SubmitArgs) -> Result<(), Failure> {
    let limit = WaitLimit { wait: args.wait, timeout: args.timeout };
    let template = Submission {
        agent: args.agent.unwrap_or_default(),
        key: args.key,
        deadline: args.deadline.setting(),
        labels: collect_labels(args.label),
        traceparent: std::env::var("TRACEPARENT").ok(),
        ..Submission::default()
    };
    if let Some(path) = args.batch {
        return submit_batch(context, &path, &template, limit).await;
    }
    let input = args.input.as_deref().map(read_input).transpose()?.unwrap_or(Input::Small(Bytes::new()));
    let says_no_deadline = template.deadline.is_none();
    let client = context.client()?;
    let submission = match input {
        Input::Small(input) => Submission { input, ..template },
        Input::Large(value) => Submission { input_blob: Some(client.put_blob(&value).await?), ..template },
    };
    let admitted = client.submit_job(submission).await?;
    print_admitted(context, &admitted)?;
    if says_no_deadline {
        remark_deadline(context, &admitted);
    }
    wait_for_jobs(context, &client, &[admitted.job_id], limit).await
}

pub(crate) fn print_admitted(context: &Context, admitted: &Admitted) -> Result<(), Failure> {
    if context.printer.json {
        return context.printer.object(admitted);
    }
    if admitted.already_submitted {
        context.printer.remark("this key was used before, with the same payload: this is the earlier job");
    }
    context.printer.line(&admitted.job_id.to_string())
}

/// A deadline that nobody chose is a surprise later, so it is said now.
fn remark_deadline(context: &Context, admitted: &Admitted) {
    if let Some(at) = admitted.deadline_at {
        let left = format_instant(at, Timestamp::now());
        context.printer.remark(&format!(
            "no deadline was given, so it has to be over by {at} ({left}); --no-deadline gives it none"
        ));
    }
}

/// An input, by the way that it goes.
enum Input {
    /// With the submission.
    Small(Bytes),
    /// Before it, in pieces.
    Large(LargeValue),
}

/// What is larger than a message takes is read from its file while it goes; stdin cannot be read twice, and is kept.
fn read_input(given: &str) -> Result<Input, Failure> {
    let read = if given == "-" {
        let mut input = Vec::new();
        // One byte more shows that it is too much.
        io::stdin().lock().take(BLOB_MAX_BYTES + 1).read_to_end(&mut input).map(|_| input)
    } else if let Some(path) = given.strip_prefix('@') {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() && metadata.len() > VALUE_MAX_BYTES => {
                return Ok(Input::Large(LargeValue::File(path.into())));
            }
            Ok(_) => fs::read(path),
            Err(error) => Err(error),
        }
    } else {
        Ok(given.as_bytes().to_vec())
    };
    let read = read.map(Bytes::from).map_err(|error| {
        let what = if given == "-" { "stdin" } else { given.trim_start_matches('@') };
        Failure::caused(
            Refusal::new(Reason::InvalidArgument, format!("reading the input from {what}")),
            &error,
        )
    })?;
    let is_small = read.len() as u64 <= VALUE_MAX_BYTES;
    Ok(if is_small { Input::Small(read) } else { Input::Large(LargeValue::Bytes(read)) })
}

/// Reads a span of whole seconds; for the parser of the command line.
fn parse_whole_seconds(given: &str) -> Result<u64, String> {
    let span = parse_span(given)?;
    if span.subsec_nanos() != 0 {
        return Err("a deadline is given in whole seconds".to_owned());
    }
    Ok(span.as_secs())
}
