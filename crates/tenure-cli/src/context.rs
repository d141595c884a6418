//! What every verb is given: the client, made when it is first wanted, the printer, and a runtime for verbs that wait for
//! answers.

use std::time::Duration;

use tenure_client::{Client, ClientOptions};
use tenure_core::{reason::Reason, refusal::Refusal};

use crate::{cli::Global, failure::Failure, printer::Printer};

/// How long a verb goes on asking while no coordinator answers: a restart is ridden out, a fleet that is away is soon said
/// to be.
const PATIENCE: Duration = Duration::from_secs(3);

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
        build_runtime(&mut tokio::runtime::Builder::new_current_thread())?.block_on(verb)
    }

    /// Runs a verb that serves, on as many threads as there are processors.
    pub(crate) fn serve(&self, verb: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        build_runtime(&mut tokio::runtime::Builder::new_multi_thread())?.block_on(verb)
    }
}

fn build_runtime(builder: &mut tokio::runtime::Builder) -> Result<tokio::runtime::Runtime, Failure> {
    builder.enable_all().build().map_err(|error| {
        Failure::caused(Refusal::new(Reason::Internal, "starting the threads of this program"), &error)
    })
}
