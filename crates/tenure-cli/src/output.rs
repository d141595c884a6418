//! `tenure output` and `tenure result`: what a job's runs printed, and what the job returned. Both are passed on as they
//! are: whoever asks for raw bytes gets them.

use clap::Args;
use serde_json::{Value, json};
use tenure_client::{
    jobs::JobResult,
    output::{OutputChunk, OutputRequest, OutputStream},
};
use tenure_core::id::Run;

use crate::{context::Context, failure::Failure, journal_line::name_bytes};

/// Print what a job's run wrote to stdout and stderr
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// The job.
    job: String,
    /// Of this run; otherwise of the last, and with -f also of those after it.
    #[arg(long, value_name = "N")]
    run: Option<u32>,
    /// Go on with what is added, until the job is at rest.
    #[arg(short, long)]
    follow: bool,
    /// Only what went to stderr, on stdout; otherwise each goes where the run sent it.
    #[arg(long)]
    stderr: bool,
}

/// Print what a job returned
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// The job.
    job: String,
}

pub(crate) async fn read_output(context: &Context, args: OutputArgs) -> Result<(), Failure> {
    let request = OutputRequest {
        run: args.run.map(Run),
        follow: args.follow,
        stream: args.stderr.then_some(OutputStream::Stderr),
    };
    let mut reader = context.client()?.read_output(&args.job, request).await?;
    while let Some(chunk) = reader.next().await? {
        if context.printer.json {
            context.printer.object(&chunk_object(&chunk))?;
        } else if chunk.stream == OutputStream::Stderr && !args.stderr {
            context.printer.error_bytes(&chunk.bytes)?;
        } else {
            context.printer.bytes(&chunk.bytes)?;
        }
    }
    Ok(())
}

pub(crate) async fn read_result(context: &Context, args: ResultArgs) -> Result<(), Failure> {
    let client = context.client()?;
    if context.printer.json {
        let (name, text) = name_bytes("result", &client.get_result(&args.job).await?);
        return context.printer.object(&json!({ name: text }));
    }
    match client.open_result(&args.job).await? {
        JobResult::Whole(result) => context.printer.bytes(&result),
        JobResult::Large(mut reader) => {
            while let Some(piece) = reader.next().await? {
                context.printer.bytes(&piece)?;
            }
            Ok(())
        }
    }
}

fn chunk_object(chunk: &OutputChunk) -> Value {
    let (name, text) = name_bytes("text", &chunk.bytes);
    json!({ "run": chunk.run, "chunk": chunk.chunk, "stream": chunk.stream, name: text })
}
