//! `tenure handover`: what a run of a job was told when it began. It is composed anew from the journal, by the same function of the core
//! that composed it for the run; this reads the records. What jobs that the run had waited for returned is not repeated here.

use clap::Args;
use serde_json::{Value, json};
use tenure_client::{Client, job::Job};
use tenure_core::{
    brief::brief,
    deadline::Deadline,
    handover::{Handover, History},
    reason::Reason,
    refusal::Refusal,
};

use crate::{context::Context, failure::Failure, printer::harmless, records::read_records};

/// Show what a run was told when it began
#[derive(Debug, Args)]
pub(crate) struct HandoverArgs {
    /// The job.
    job: String,
    /// The run, from 1; without it the latest.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    run: Option<u32>,
}

pub(crate) async fn show_handover(context: &Context, args: HandoverArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let job = client.get_job(&args.job).await?;
    let wanted = args.run.unwrap_or(job.run.0);
    let handover = compose(&client, &job, wanted).await?;
    let (text, told) = (brief(&handover), handover.to_json().map_err(|error| refuse_writing(&error))?);
    let told: Value = serde_json::from_slice(&told).map_err(|error| refuse_writing(&error))?;
    if context.printer.json {
        let object = json!({ "job": job.id, "run": wanted, "handover": told, "brief": text });
        return context.printer.object(&object);
    }
    let pretty = serde_json::to_string_pretty(&told).map_err(|error| refuse_writing(&error))?;
    context.printer.line(&pretty)?;
    if text.is_empty() {
        context.printer.remark("its brief was empty: nothing had to be told");
        return Ok(());
    }
    context.printer.line(&format!("\n{}", harmless_lines(text.trim_end())))
}

/// Reads the journal twice: where the run began, and then what stands before that, of which the core keeps what it tells. A
/// journal may be of any length.
async fn compose(client: &Client, job: &Job, wanted: u32) -> Result<Handover, Failure> {
    let mut start = None;
    read_records(client, job, &["run_started".to_owned()], |record, _| {
        if record.run.0 == wanted {
            start = Some((record.seq, record.at));
        }
    })
    .await?;
    let Some((up_to, began)) = start else { return Err(refuse_run(job, wanted)) };
    let mut history = History::up_to(up_to);
    let kinds = History::KINDS.map(str::to_owned);
    read_records(client, job, &kinds, |record, value| {
        history.take_record(record, value.map(<[u8]>::to_vec));
    })
    .await?;
    // What was left of the deadline counts from the run's own start.
    let deadline = Deadline::new(began, job.deadline_at);
    history.compose_handover(began, &deadline).ok_or_else(|| refuse_run(job, wanted))
}

fn refuse_run(job: &Job, wanted: u32) -> Failure {
    let (id, runs) = (job.id.short(), job.run.0);
    let words = match runs {
        0 => format!("job {id} has had no run yet, so nobody was told anything"),
        _ => format!("job {id} has no run {wanted}: it has had {runs}, numbered from 1"),
    };
    Refusal::new(Reason::RunNotFound, words)
        .with_detail("runs", runs)
        .with_next(format!("tenure job {id}"))
        .into()
}

fn refuse_writing(error: &serde_json::Error) -> Failure {
    Failure::caused(Refusal::new(Reason::Internal, "writing the handover as JSON"), error)
}

/// Lines of somebody else's, of which none can steer a terminal.
fn harmless_lines(text: &str) -> String {
    text.lines().map(harmless).collect::<Vec<_>>().join("\n")
}
