//! The verbs of a program inside a run: they speak to the worker beside it, over the run's own socket. Outside a run there
//! is no socket, and the verb that was probably meant is named.

mod set_down;
mod wait;

pub(crate) use set_down::{SetDownArgs, set_down};
pub(crate) use wait::{WaitArgs, wait};

use std::{
    env,
    ffi::OsString,
    io::{self, Read as _},
    time::Duration,
};

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use tenure_client::{
    ClientError, ClientOptions,
    run::{RunClient, RunStatus, SOCKET_VARIABLE},
};
use tenure_core::{admission::Spend, id::Seq, limits::VALUE_MAX_BYTES, reason::Reason, refusal::Refusal};

use crate::{context::Context, failure::Failure, relative::format_instant, value::read_value};

/// How long a note may take to be durable: a fleet that is away for so long has lost its workers' terms too.
const NOTE_TIMEOUT: Duration = Duration::from_secs(600);

/// Leave a line of progress for whoever comes after this run
#[derive(Debug, Args)]
pub(crate) struct NoteArgs {
    /// The text; - reads it from stdin.
    text: String,
}

/// Say what this run spent, for the budget of its session and the reserve of the tenant
#[derive(Debug, Args)]
pub(crate) struct SpendArgs {
    /// Tokens of a model; a whole number.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    tokens: Option<String>,
    /// Money in the tenant's currency, for example 0.035; at most six decimals.
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    cost: Option<String>,
    /// Turns of a model; a whole number.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    turns: Option<String>,
}

/// Leave a line that the agent remembers in later sessions
#[derive(Debug, Args)]
pub(crate) struct RememberArgs {
    /// The text; - reads it from stdin.
    text: String,
}

/// Give work to an agent, as a job in this session; prints the job's id
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    gift: GiftArgs,
}

/// Give work to an agent, as a session of its own; prints the job's id
#[derive(Debug, Args)]
pub(crate) struct SpawnArgs {
    #[command(flatten)]
    gift: GiftArgs,
}

/// What is given.
#[derive(Debug, Args)]
struct GiftArgs {
    /// To whom.
    agent: String,
    /// The work: a text, @FILE, or - for stdin.
    #[arg(value_name = "BODY|@FILE|-")]
    body: String,
    /// Under this key the job is made once. Without it, a later run that gives the same again is answered with the job of the
    /// earlier one.
    #[arg(long)]
    key: Option<String>,
}

/// Show where this run stands
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {}

pub(crate) async fn write_note(context: &Context, args: NoteArgs) -> Result<(), Failure> {
    let run = open_run()?;
    let seq = run.write_note(&read_text(args.text)?).await.map_err(explain)?;
    show_seq(context, seq)
}

pub(crate) async fn remember_line(context: &Context, args: RememberArgs) -> Result<(), Failure> {
    let run = open_run()?;
    let seq = run.remember(&read_text(args.text)?).await.map_err(explain)?;
    show_seq(context, seq)
}

fn read_text(given: String) -> Result<String, Failure> {
    if given != "-" {
        return Ok(given);
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

fn show_seq(context: &Context, seq: Seq) -> Result<(), Failure> {
    if context.printer.json {
        return context.printer.object(&json!({ "seq": seq }));
    }
    Ok(())
}

pub(crate) async fn record_spend(context: &Context, args: SpendArgs) -> Result<(), Failure> {
    let run = open_run()?;
    let spend = Spend::read(args.tokens.as_deref(), args.cost.as_deref(), args.turns.as_deref())?;
    let seq = run.record_spend(spend).await.map_err(explain)?;
    if context.printer.json {
        return context.printer.object(&json!({ "seq": seq }));
    }
    Ok(())
}

pub(crate) async fn send_work(context: &Context, args: SendArgs) -> Result<(), Failure> {
    give_work(context, args.gift, false).await
}

pub(crate) async fn spawn_work(context: &Context, args: SpawnArgs) -> Result<(), Failure> {
    give_work(context, args.gift, true).await
}

async fn give_work(context: &Context, gift: GiftArgs, spawn: bool) -> Result<(), Failure> {
    let run = open_run()?;
    let body = read_value(&gift.body, "the work")?;
    if body.len() as u64 > VALUE_MAX_BYTES {
        let words = format!("the work has more than {VALUE_MAX_BYTES} bytes, and so many are taken");
        let refusal = Refusal::new(Reason::InputTooLarge, words).with_detail("limit_bytes", VALUE_MAX_BYTES);
        return Err(refusal.into());
    }
    let given = run.give_work(&gift.agent, body, spawn, gift.key.as_deref()).await.map_err(explain)?;
    if context.printer.json {
        return context.printer.object(&given);
    }
    context.printer.line(&given.job_id.to_string())
}

pub(crate) async fn show_status(context: &Context, _args: StatusArgs) -> Result<(), Failure> {
    let status = open_run()?.get_status().await.map_err(explain)?;
    if context.printer.json {
        return context.printer.object(&status);
    }
    context.printer.line(&format_status(&status, Timestamp::now()))
}

/// Inside a run it is the worker that does not answer, and no coordinator that could be named.
pub(crate) fn explain(error: ClientError) -> Failure {
    match error {
        ClientError::Unavailable { source, .. } => {
            let message = "the worker beside this run does not answer";
            Failure::caused(Refusal::new(Reason::CoordinatorUnavailable, message), &source)
        }
        ClientError::OutcomeUnknown { source, .. } => {
            let message =
                "the worker beside this run was told, and went away: it may be in the journal or not";
            Failure::caused(Refusal::new(Reason::CoordinatorUnavailable, message), &source)
        }
        other => other.into(),
    }
}

pub(crate) fn open_run() -> Result<RunClient, Failure> {
    open_run_within(NOTE_TIMEOUT)
}

/// The run, each of whose answers may take so long.
pub(crate) fn open_run_within(call_timeout: Duration) -> Result<RunClient, Failure> {
    let socket: OsString = env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()).ok_or_else(|| {
        Failure::new(
            Reason::NotInsideRun,
            format!("not inside a run: {SOCKET_VARIABLE} is unset; did you mean tenure job JOB?"),
        )
    })?;
    let options = ClientOptions { call_timeout, ..ClientOptions::default() };
    Ok(RunClient::connect(&socket, options)?)
}

fn format_status(status: &RunStatus, now: Timestamp) -> String {
    let deadline = match status.deadline_at {
        Some(at) => format!("{at} ({})", format_instant(at, now)),
        None => "none".to_owned(),
    };
    let cancel = if status.cancel_requested { "\na cancel stands" } else { "" };
    format!(
        "run {} of job {}, attempt {}, epoch {}, on worker {}\ndeadline {deadline}, {} notes{cancel}",
        status.run, status.job_id, status.attempt, status.epoch, status.worker, status.notes
    )
}
