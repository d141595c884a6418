//! Which handlers a worker holds: each a function under the name of its agent and a version, and how it is called with what
//! comes over the wire. Neighbours: `worker` starts with them, `executor` calls one for each run.

use std::{fmt, pin::Pin, sync::Arc};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tenure_core::{
    handler::{HandlerVersion, handler_label},
    id::{AgentName, InvalidName},
    replay::JOURNAL_VARIABLE,
};

use super::{Compensations, HandlerError, RunContext, UndoCall};
use crate::{
    options::WorkerOptions,
    worker::{RunningWorker, StartError, Worker},
};

/// What a handler comes to: its output as JSON.
type Outcome = Pin<Box<dyn Future<Output = Result<Bytes, HandlerError>> + Send>>;

/// A function under its name and version, with those that undo its effects.
pub(crate) struct Handler {
    agent: AgentName,
    version: HandlerVersion,
    call: Box<dyn Fn(RunContext, Bytes) -> Outcome + Send + Sync>,
    compensations: Compensations,
}

/// A handler that no worker can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHandler {
    /// Its agent's name or its version.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The same twice.
    #[error("the handler {agent} is given twice in version {version}")]
    Twice {
        /// The agent.
        agent: AgentName,
        /// The version.
        version: HandlerVersion,
    },
    /// Its compensation is given twice.
    #[error("the compensation {name:?} of the handler {agent} in version {version} is given twice")]
    CompensationTwice {
        /// The agent.
        agent: AgentName,
        /// The version.
        version: HandlerVersion,
        /// The name of the compensation.
        name: String,
    },
    /// A compensation before any handler.
    #[error("the compensation {name:?} is given before the handler whose effects it undoes")]
    NothingToCompensate {
        /// The name of the compensation.
        name: String,
    },
}

/// The handlers of one worker.
#[derive(Debug, Default)]
pub(crate) struct Handlers {
    held: Vec<Arc<Handler>>,
}

/// A worker that holds handlers and is not started yet; begun with [`Worker::agent`].
#[derive(Debug, Default)]
#[must_use = "a worker takes nothing before it is started"]
pub struct HandlerWorker {
    given: Vec<Result<Handler, InvalidHandler>>,
}

impl Worker {
    /// Begins a worker that holds this handler: an agent that is a function of this program. The fleet file declares the
    /// agent as `[agents.NAME] handler = "VERSION"`. A job that was submitted under that declaration is offered only to workers
    /// that hold exactly this version, so give another version whenever steps or effects mean something else than before,
    /// and keep the old one for as long as its jobs are unfinished: a worker may hold several versions.
    ///
    /// The job's input is read as JSON (an empty one as `null`), and the output is written as JSON: it is the job's result.
    /// An input that cannot be read as `Input` fails the job for good. An error that the handler returns is one after which
    /// another run may do better, unless it says otherwise ([`HandlerError`]). A panic ends the run and not the worker.
    ///
    /// A worker that holds handlers takes no agents with commands.
    ///
    /// ```no_run
    /// use tenure_worker::{Worker, WorkerOptions, handler::{HandlerError, RunContext}};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Letter {
    ///     to: String,
    /// }
    ///
    /// async fn greet(run: RunContext, letter: Letter) -> Result<String, HandlerError> {
    ///     run.note("on its way").await?;
    ///     Ok(format!("Dear {}", letter.to))
    /// }
    ///
    /// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
    /// let options = WorkerOptions::new("w1", vec!["http://127.0.0.1:7420".into()], "/var/lib/greeter".into());
    /// let worker = Worker::agent("greeter", "1", greet).start(options)?;
    /// worker.serve_until_signalled().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn agent<Input, Output, E, F, Fut>(name: &str, version: &str, handler: F) -> HandlerWorker
    where
        Input: DeserializeOwned,
        Output: Serialize,
        E: Into<HandlerError>,
        F: Fn(RunContext, Input) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, E>> + Send + 'static,
    {
        HandlerWorker::default().agent(name, version, handler)
    }
}

impl HandlerWorker {
    /// Adds another handler, or another version of one; as [`Worker::agent`].
    pub fn agent<Input, Output, E, F, Fut>(mut self, name: &str, version: &str, handler: F) -> Self
    where
        Input: DeserializeOwned,
        Output: Serialize,
        E: Into<HandlerError>,
        F: Fn(RunContext, Input) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, E>> + Send + 'static,
    {
        self.given.push(Handler::define(name, version, handler));
        self
    }

    /// Adds a function that undoes effects of the handler that was added last; its effects name it with
    /// [`Effect::undo`](super::Effect::undo), and the arguments that they name it with are recorded with the announcement. It is
    /// called where the job is cancelled, or fails and its agent says so, by any worker that holds this handler in this version,
    /// in a run of its own, or where an effect group is reversed. Like an effect it may be called again where nobody knows
    /// whether it happened: [`UndoCall::idempotency_key`](super::UndoCall::idempotency_key) is the same then.
    ///
    /// ```no_run
    /// # use tenure_worker::{Worker, handler::{HandlerError, RunContext, UndoCall}};
    /// # async fn post(_: &str, _: &str) -> Result<u64, std::io::Error> { Ok(1) }
    /// async fn bill(run: RunContext, order: String) -> Result<u64, HandlerError> {
    ///     run.effect("charge")
    ///         .idempotent()
    ///         .undo("refund", &order)
    ///         .perform(async |call| post("/charges", &call.idempotency_key).await)
    ///         .await
    /// }
    ///
    /// async fn refund(call: UndoCall, order: String) -> Result<(), HandlerError> {
    ///     let charge: u64 = call.output()?;
    ///     post(&format!("/charges/{charge}/refund?order={order}"), &call.idempotency_key).await?;
    ///     Ok(())
    /// }
    ///
    /// let worker = Worker::agent("biller", "1", bill).compensation("refund", refund);
    /// ```
    pub fn compensation<Arguments, E, F, Fut>(mut self, name: &str, undo: F) -> Self
    where
        Arguments: DeserializeOwned,
        E: Into<HandlerError>,
        F: Fn(UndoCall, Arguments) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        let given = self.given.pop();
        self.given.push(match given {
            Some(Ok(handler)) => handler.with_compensation(name, undo),
            Some(Err(error)) => Err(error),
            None => Err(InvalidHandler::NothingToCompensate { name: name.to_owned() }),
        });
        self
    }

    /// Starts the worker in the background, inside a runtime. It registers and attaches as soon as a coordinator answers, and
    /// goes on trying until then.
    ///
    /// # Errors
    /// A handler's name or version is none, or one is given twice; an option that cannot be, or a directory that cannot be
    /// made.
    pub fn start(self, options: WorkerOptions) -> Result<RunningWorker, StartError> {
        if std::env::var_os(JOURNAL_VARIABLE).is_some() {
            return Err(StartError::ReplayAsked);
        }
        let handlers = Handlers::collect(self.given)?;
        Worker::start_with_handlers(options, handlers)
    }
}

impl HandlerWorker {
    pub(super) fn into_given(self) -> Vec<Result<Handler, InvalidHandler>> {
        self.given
    }
}

impl Handler {
    fn define<Input, Output, E, F, Fut>(name: &str, version: &str, handler: F) -> Result<Self, InvalidHandler>
    where
        Input: DeserializeOwned,
        Output: Serialize,
        E: Into<HandlerError>,
        F: Fn(RunContext, Input) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, E>> + Send + 'static,
    {
        let call = move |context: RunContext, input: Bytes| -> Outcome {
            match read_input(&input) {
                Ok(input) => {
                    let returned = handler(context, input);
                    Box::pin(async move { write_output(&returned.await.map_err(Into::into)?) })
                }
                Err(error) => Box::pin(std::future::ready(Err(error))),
            }
        };
        Ok(Self {
            agent: name.parse()?,
            version: version.parse()?,
            call: Box::new(call),
            compensations: Compensations::default(),
        })
    }

    fn with_compensation<Arguments, E, F, Fut>(mut self, name: &str, undo: F) -> Result<Self, InvalidHandler>
    where
        Arguments: DeserializeOwned,
        E: Into<HandlerError>,
        F: Fn(UndoCall, Arguments) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
    {
        if self.compensations.add(name, undo) {
            return Ok(self);
        }
        let (agent, version, name) = (self.agent, self.version, name.to_owned());
        Err(InvalidHandler::CompensationTwice { agent, version, name })
    }

    /// Calls it. What it does before its first suspension is done where the future is first polled.
    pub(crate) async fn call(&self, context: RunContext, input: Bytes) -> Result<Bytes, HandlerError> {
        (self.call)(context, input).await
    }

    /// What undoes its effects.
    pub(crate) const fn compensations(&self) -> &Compensations {
        &self.compensations
    }
}

impl Handler {
    pub(super) fn is_version(&self, version: &str) -> bool {
        self.version.as_str() == version
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.agent, self.version)
    }
}

impl Handlers {
    pub(super) fn collect(given: Vec<Result<Handler, InvalidHandler>>) -> Result<Self, InvalidHandler> {
        let mut handlers = Self::default();
        for handler in given {
            let handler = handler?;
            if handlers.find(&handler.agent, &handler.version).is_some() {
                let Handler { agent, version, .. } = handler;
                return Err(InvalidHandler::Twice { agent, version });
            }
            handlers.held.push(Arc::new(handler));
        }
        Ok(handlers)
    }

    /// The one of this name and version.
    pub(crate) fn find(&self, agent: &AgentName, version: &HandlerVersion) -> Option<&Arc<Handler>> {
        self.held.iter().find(|handler| (&handler.agent, &handler.version) == (agent, version))
    }

    /// The versions of this agent.
    pub(super) fn list(&self, agent: &AgentName) -> impl Iterator<Item = &Arc<Handler>> {
        self.held.iter().filter(move |handler| handler.agent == *agent)
    }

    /// The labels that say which they are.
    pub(crate) fn labels(&self) -> impl Iterator<Item = String> {
        self.held.iter().map(|handler| handler_label(&handler.agent, &handler.version))
    }
}

/// An empty input is `null`: whoever submits without one means nothing by it.
fn read_input<Input: DeserializeOwned>(input: &[u8]) -> Result<Input, HandlerError> {
    let json = if input.is_empty() { b"null" } else { input };
    serde_json::from_slice(json).map_err(|source| HandlerError::from(UnreadableInput { source }).into_final())
}

fn write_output<Output: Serialize>(output: &Output) -> Result<Bytes, HandlerError> {
    let json = serde_json::to_vec(output);
    json.map(Bytes::from).map_err(|source| HandlerError::from(UnwritableOutput { source }).into_final())
}

#[derive(Debug, thiserror::Error)]
#[error("the input cannot be read as what the handler takes")]
struct UnreadableInput {
    source: serde_json::Error,
}

#[derive(Debug, thiserror::Error)]
#[error("what the handler returned cannot be written as JSON")]
struct UnwritableOutput {
    source: serde_json::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn greet(_run: RunContext, to: String) -> Result<String, HandlerError> {
        Ok(to)
    }

    fn define(name: &str, version: &str) -> Result<Handler, InvalidHandler> {
        Handler::define(name, version, greet)
    }

    #[test]
    fn a_version_of_an_agent_is_held_once_and_several_versions_are() {
        let several = Handlers::collect(vec![define("greeter", "1"), define("greeter", "2")]).unwrap();
        let labels: Vec<String> = several.labels().collect();
        assert_eq!(labels, ["tenure.handler/greeter=1", "tenure.handler/greeter=2"]);
        let twice = Handlers::collect(vec![define("greeter", "1"), define("greeter", "1")]);
        assert!(matches!(twice, Err(InvalidHandler::Twice { .. })));
        assert!(matches!(Handlers::collect(vec![define("Greeter", "1")]), Err(InvalidHandler::Name(_))));
    }

    #[test]
    fn a_compensation_belongs_to_the_handler_before_it_and_is_given_once() {
        async fn unsend(_call: UndoCall, _to: String) -> Result<(), HandlerError> {
            Ok(())
        }
        let collect = |worker: HandlerWorker| Handlers::collect(worker.given).map(|_| ());
        let greeter = || HandlerWorker::default().agent("greeter", "1", greet);
        assert_eq!(collect(greeter().compensation("unsend", unsend)), Ok(()));
        let twice = greeter().compensation("unsend", unsend).compensation("unsend", unsend);
        assert!(matches!(collect(twice), Err(InvalidHandler::CompensationTwice { .. })));
        let alone = HandlerWorker::default().compensation("unsend", unsend);
        assert!(matches!(collect(alone), Err(InvalidHandler::NothingToCompensate { .. })));
    }

    #[test]
    fn an_input_that_cannot_be_read_is_final_and_an_empty_one_is_null() {
        assert_eq!(read_input::<Option<u32>>(b"").unwrap(), None);
        let error = read_input::<u32>(b"\"three\"").unwrap_err();
        assert!(error.is_final());
        assert!(error.to_string().starts_with("the input cannot be read as what the handler takes: "));
    }
}
