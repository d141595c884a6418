//! `with-postgres [--no-fsync] [--] COMMAND…` runs a command beside a private PostgreSQL server.
//!
//! Owns what tests, `make prepare` and `make pg` share: a server that exists exactly as long as the
//! command does. The command finds its address in `TENURE_TEST_DATABASE_URL`. Without a command the
//! server stays until Ctrl-C, and the address is printed. The exit code is the command's own, 128 + n
//! when signal n ended it, and 125 when there was no server to run it beside.
//!
//! The server is as durable as any (`fsync` and `synchronous_commit` on); `--no-fsync` is for tests
//! that kill no database. Deliberately knows no schema: it must build before any query is prepared.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure_postgres::{Options, Server};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code when the command was not run.
const NOT_RUN: u8 = 125;

/// Settings for many short-lived connections and databases.
const SETTINGS: [(&str, &str); 3] =
    [("max_connections", "200"), ("max_wal_size", "2GB"), ("checkpoint_timeout", "30min")];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::from(NOT_RUN)
        }
    }
}

async fn run(arguments: Vec<String>) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (options, command) = read_arguments(arguments);
    let server = Server::start(options)?;
    let Some((program, arguments)) = command.split_first() else {
        println!("{}", server.url("postgres"));
        wait_for_stop().await?;
        return Ok(ExitCode::SUCCESS);
    };
    let child = Command::new(program)
        .args(arguments)
        .env("TENURE_TEST_DATABASE_URL", server.url("postgres"))
        .spawn()
        .map_err(|error| format!("could not run {program}: {error}"))?;
    Ok(as_exit_code(wait_with_signals(child).await?))
}

fn read_arguments(arguments: Vec<String>) -> (Options, Vec<String>) {
    let mut command = arguments;
    let mut options = SETTINGS
        .iter()
        .fold(Options::default(), |options, (name, value)| options.with_setting(*name, *value));
    if command.first().is_some_and(|first| first == "--no-fsync") {
        command.remove(0);
        options = options.with_setting("fsync", "off").with_setting("full_page_writes", "off");
    }
    if command.first().is_some_and(|first| first == "--") {
        command.remove(0);
    }
    (options, command)
}

async fn wait_for_stop() -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Waits for the command's end. Ctrl-C reaches it from the terminal, SIGTERM is handed on; either
/// way the server stays until the command has ended.
async fn wait_with_signals(mut child: Child) -> std::io::Result<ExitStatus> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {
                if let Some(pid) = child.id() {
                    // A child that has ended meanwhile is reaped by the arm above.
                    let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM);
                }
            }
        }
    }
}

fn as_exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(NOT_RUN))
}
