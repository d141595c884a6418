//! The `tenure` program: a whole fleet in one binary. It reads a command line, has the verb carried out, and turns what
//! comes of it into an exit code and, where it failed, into the two lines that say why and what goes on from here. It
//! decides nothing about jobs. Neighbours: `cli` says what can be typed, one module for each verb or group of verbs does
//! it, `failure` is the end of every path that did not succeed.

mod cli;
mod failure;
mod printer;
mod records;

mod context;
mod credential;
mod data_home;
mod database;
mod label;
mod relative;
mod table;
mod value;
mod why;

mod agents;
mod apply;
mod fleet_template;
mod init;

mod coordinator;
mod dev;
mod host_name;
mod logging;
mod migrate;
mod probes;
mod shutdown;
mod token;
mod worker;

mod effects;
mod explain;
mod handover;
mod job;
mod jobs;
mod journal;
mod journal_line;
mod memory;
mod output;
mod parent_death;
mod replay;
mod submit;
mod submit_batch;
mod verify;
mod wait;

mod abandon;
mod attention;
mod cancel;
mod confirm_gone;
mod erase;
mod halt;
mod ping;
mod reconcile;
mod recover;
mod reopen;
mod resume;
mod selection;
mod session;
mod steer;
mod workers;

mod effect;
mod in_run;
mod mcp;

use std::{env, process::ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _, Parser as _};

use crate::{cli::Cli, context::Context, failure::Failure};

fn main() -> ExitCode {
    // The guardian is one thread in a process of its own, beside a child that it must be able to end at any moment: it
    // wants neither a parser nor a runtime.
    if env::args_os().nth(1).is_some_and(|verb| verb == "guard") {
        return match env::args_os().nth(2) {
            None => tenure_worker::guardian::run_guardian(),
            Some(_) => tenure_worker::guardian::explain_guardian(),
        };
    }
    let arguments: Vec<_> = env::args_os().collect();
    // What a worker starts in a run that undoes; nobody types it.
    if arguments.get(1).is_some_and(|verb| verb == "unwind") && arguments.len() == 2 {
        return run_unwinding();
    }
    let parsed = cli::describe(Cli::command())
        .try_get_matches_from(&arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed {
        Ok(cli) => run_verb(cli),
        Err(error) => failure::end_with_usage(&error, arguments.iter().any(|argument| argument == "--json")),
    }
}

/// Undoes what the job of this run has done; no flag says how.
fn run_unwinding() -> ExitCode {
    match Cli::try_parse_from(["tenure", "status"]) {
        Ok(cli) => {
            let context = Context::new(cli.global);
            end_with(&context, context.wait_for(effect::undo_steps(&context)))
        }
        Err(error) => failure::end_with_usage(&error, false),
    }
}

fn run_verb(cli: Cli) -> ExitCode {
    let context = Context::new(cli.global);
    end_with(&context, cli.verb.run(&context))
}

fn end_with(context: &Context, outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::ReaderLeft) => ExitCode::SUCCESS,
        Err(failure) => {
            context.printer.failure(&failure);
            failure.exit_code()
        }
    }
}
