//! `tenure replay`: has a program of handlers replay a job against its journal. The journal is read and verified here and goes
//! to the program as a file, so that the program asks nobody: nothing is performed, nothing written, and no lease taken.
//! Neighbours: the SDK's `replay_if_asked` is the other end.

use std::{ffi::OsString, fs, io, process::Stdio, time::Duration};

use clap::Args;
use tempfile::TempDir;
use tenure_client::Client;
use tenure_core::{
    id::{JobId, Seq},
    limits::PAGE_MAX,
    reason::Reason,
    record::{Record, RecordKind, ValueRef},
    refusal::Refusal,
    replay::{Answer, JOURNAL_VARIABLE, Line, REPORT_VARIABLE, Report, VERSION_VARIABLE},
};
use tokio::{process::Command, time::timeout};

use crate::{context::Context, failure::Failure, relative::parse_span};

/// Show where a changed handler diverges from a job's journal, performing nothing
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The job.
    job: String,
    /// Answer every step and effect from the journal, in its order. There is no other way of replaying yet.
    #[arg(long, required = true)]
    strict: bool,
    /// The version of the handler, where the program holds several of the job's agent.
    #[arg(long, value_name = "VERSION")]
    handler_version: Option<String>,
    /// Wait no longer for the program: a handler waits for more than its steps and effects. Then 3.
    #[arg(long, value_name = "SPAN", value_parser = parse_span, default_value = "60s")]
    timeout: Duration,
    /// The program that holds the handler, and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) async fn replay_job(context: &Context, args: ReplayArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let job = client.verify_job(&args.job).await?.job;
    let directory =
        tempfile::tempdir().map_err(|error| fail_local("making a directory for the journal", &error))?;
    write_journal(&client, &job.to_string(), &directory).await?;
    let report = run_program(&args, &directory).await?;
    if context.printer.json {
        context.printer.object(&report)?;
    } else if report.divergence.is_none() {
        context.printer.line(&format!("{job}  {}", describe_agreement(&report)))?;
    }
    match report.divergence {
        None => Ok(()),
        Some(divergence) => {
            let words = format!("the handler diverges: {divergence}");
            let refusal = Refusal::new(Reason::ReplayDiverged, words)
                .with_next(format!("tenure journal {}", job.short()));
            let refusal = match divergence.seq {
                Some(seq) => refusal.with_detail("seq", seq),
                None => refusal,
            };
            Err(Failure::from(refusal))
        }
    }
}

fn describe_agreement(report: &Report) -> String {
    let answered = report.answered;
    match &report.goes_on_with {
        Some(what) => format!(
            "agrees: {answered} answered from the journal, which ends there; a run would go on with {what}"
        ),
        None => format!("agrees: {answered} answered from the journal, to its end"),
    }
}

async fn write_journal(client: &Client, job: &str, directory: &TempDir) -> Result<(), Failure> {
    let (mut text, mut from) = (String::new(), Some(Seq(1)));
    while let Some(seq) = from {
        let page = client.list_records(job, seq, &[], PAGE_MAX).await?;
        for record in page.records {
            let value = match record.value {
                Some(value) => Some(value.to_vec()),
                None => read_large(client, page.job, &record.bytes).await?,
            };
            let line = Line { record: String::from_utf8_lossy(&record.bytes).into_owned(), value };
            text.push_str(&serde_json::to_string(&line).map_err(io::Error::from)?);
            text.push('\n');
        }
        from = page.next_seq;
    }
    fs::write(directory.path().join("journal"), text)
        .map_err(|error| fail_local("writing the journal for the program", &error))
}

/// The input or the result of the job, where it lies in the blob store.
async fn read_large(client: &Client, job: JobId, record: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let named = match serde_json::from_slice::<Record>(record).map(|record| record.kind) {
        Ok(RecordKind::JobAdmitted { input, .. }) => Some(input),
        Ok(RecordKind::JobConcluded { result, .. }) => result,
        _ => None,
    };
    let Some(reference) = named.filter(ValueRef::is_blob) else { return Ok(None) };
    match client.read_blob(job, reference).read_whole().await {
        Ok(value) => Ok(Some(value.to_vec())),
        Err(error) if error.reason() == Reason::ValueErased => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn run_program(args: &ReplayArgs, directory: &TempDir) -> Result<Report, Failure> {
    let Some((program, arguments)) = args.program.split_first() else {
        return Err(Failure::usage("no program is named".to_owned()));
    };
    let named = program.to_string_lossy().into_owned();
    let (journal, report) = (directory.path().join("journal"), directory.path().join("report"));
    let mut command = Command::new(program);
    command.args(arguments).env(JOURNAL_VARIABLE, journal).env(REPORT_VARIABLE, &report);
    // What the handler prints is not the answer.
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    if let Some(version) = &args.handler_version {
        command.env(VERSION_VARIABLE, version);
    }
    let mut child = command.spawn().map_err(|error| fail_local(&format!("starting {named}"), &error))?;
    let Ok(ended) = timeout(args.timeout, child.wait()).await else {
        let words = format!(
            "{named} did not finish the replay in {} s: its handler waits for something outside of its steps and effects",
            args.timeout.as_secs()
        );
        return Err(Failure::new(Reason::WaitRanOut, words));
    };
    let ended = ended.map_err(|error| fail_local(&format!("waiting for {named}"), &error))?;
    let answer = fs::read(&report).ok().and_then(|json| serde_json::from_slice(&json).ok());
    match answer {
        Some(Answer::Report(report)) => Ok(report),
        Some(Answer::Refused(why)) => {
            Err(Failure::new(Reason::InvalidArgument, format!("{named} cannot replay it: {why}")))
        }
        None => {
            let words =
                format!("{named} replayed nothing ({ended}): its worker has to call `replay_if_asked`");
            Err(Failure::new(Reason::InvalidArgument, words))
        }
    }
}

fn fail_local(what: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::caused(Refusal::new(Reason::InvalidArgument, what), error)
}
