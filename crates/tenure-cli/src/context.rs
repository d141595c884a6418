//! What every verb is given: the client, made when it is first wanted, the printer, and a runtime for verbs that wait for
//! answers.

use std::time::Duration;

use tenure_client::{Client, ClientOptions};
use tenure_core::{reason::Reason, refusal::Refusal};

use crate::{cli::Global, failure::Failure, printer::Printer};

/// How long a verb goes on asking while no coordinator answers: a restart is ridden out, a fleet that is away is soon said
/// to be.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// How long a program waits at its end for threads that block. All that matters was awaited by then; what is left may be a
/// question to a resolver that does not answer, and would hold the end up for as long as that asks.
const LEFTOVERS_WAIT: Duration = Duration::from_secs(1);

/// What every verb is given.
pub(crate) struct Context {
    /// The flags that every verb has.
    pub(crate) global: Global,
    /// How to print.
    pub(crate) printer: Printer,
}

impl Context {
    pub(crate) fn new(global: Global) -> Self {
        let printer = Printer::new(&global);
        Self { global, printer }
    }

    /// A client of the coordinators that were named.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let options = ClientOptions { patience: PATIENCE, ..ClientOptions::default() };
        let credential = self.global.credential.read_client()?;
        Ok(Client::connect_as(&self.global.endpoint, options, &credential)?)
    }

    /// Runs a verb that waits for answers, on one thread.
    pub(crate) fn wait_for(&self, verb: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        run_to_end(&mut tokio::runtime::Builder::new_current_thread(), verb)
    }

    /// Runs a verb that serves, on as many threads as there are processors.
    pub(crate) fn serve(&self, verb: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        run_to_end(&mut tokio::runtime::Builder::new_multi_thread(), verb)
    }
}

/// What still blocks a thread when the verb is over ends with the program.
fn run_to_end(
    builder: &mut tokio::runtime::Builder,
    verb: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let runtime = build_runtime(builder)?;
    let ended = runtime.block_on(verb);
    runtime.shutdown_timeout(LEFTOVERS_WAIT);
    ended
}

fn build_runtime(builder: &mut tokio::runtime::Builder) -> Result<tokio::runtime::Runtime, Failure> {
    builder.enable_all().build().map_err(|error| {
        Failure::caused(Refusal::new(Reason::Internal, "starting the threads of this program"), &error)
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use clap::Parser as _;
    use tokio::{sync::oneshot, task::spawn_blocking};

    use super::*;
    use crate::cli::Cli;

    /// Longer than a busy machine takes.
    const LONG: Duration = Duration::from_secs(60);

    /// Whether a verb's end is reported while a thread of its runtime blocks.
    fn ends_beside_a_blocked_thread(is_serving: bool) -> bool {
        let (hold, held) = mpsc::channel::<()>();
        let (ended, heard) = mpsc::channel();
        thread::spawn(move || {
            let context = Context::new(Cli::parse_from(["tenure", "ping"]).global);
            let verb = async move {
                let (began, has_begun) = oneshot::channel();
                spawn_blocking(move || {
                    let _ = began.send(());
                    let _ = held.recv();
                });
                has_begun.await.unwrap();
                Ok(())
            };
            let result = if is_serving { context.serve(verb) } else { context.wait_for(verb) };
            let _ = ended.send(result.is_ok());
        });
        let has_ended = heard.recv_timeout(LONG) == Ok(true);
        drop(hold);
        has_ended
    }

    #[test]
    fn a_program_ends_while_a_thread_of_it_still_blocks() {
        assert!(ends_beside_a_blocked_thread(true), "a server waits for what blocks");
        assert!(ends_beside_a_blocked_thread(false), "a client waits for what blocks");
    }
}
