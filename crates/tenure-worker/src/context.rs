//! What the parts of one worker share: its settings, and the tables through which they speak to each other.

use tenure_core::{id::WorkerName, plan};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    drain::Drain,
    endpoints::Endpoints,
    guardian::Fencing,
    handler::{HandlerGuard, Handlers},
    held_runs::HeldRuns,
    options::WorkerOptions,
    outbox::Outbox,
    places::Places,
    runner::{ProcessRunner, RunUser},
};

/// What a worker can run.
#[derive(Debug)]
pub(crate) enum Work {
    /// Commands and scripts, each as a process with a guardian.
    Processes(ProcessRunner),
    /// Functions of this program, and nothing else.
    Handlers {
        /// Which.
        handlers: Handlers,
        /// What ends this process where one of them does not stop.
        guard: HandlerGuard,
    },
}

/// What the parts of one worker share.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) name: WorkerName,
    pub(crate) options: WorkerOptions,
    pub(crate) endpoints: Endpoints,
    pub(crate) run_as: Option<RunUser>,
    pub(crate) work: Work,
    pub(crate) held: HeldRuns,
    pub(crate) outbox: Outbox,
    pub(crate) drain: Drain,
    /// The executors.
    pub(crate) runs: TaskTracker,
    pub(crate) places: Places,
    /// Cancelled where the worker leaves without waiting for anything.
    pub(crate) abandoned: CancellationToken,
    /// Whether a stream is attached.
    pub(crate) attached: watch::Sender<bool>,
}

impl WorkerContext {
    /// How the worker says that it fences.
    pub(crate) fn registered_fencing(&self) -> plan::Fencing {
        match &self.work {
            Work::Processes(runner) => match runner.fencing() {
                Fencing::Kernel => plan::Fencing::Kernel,
                Fencing::Guardian => plan::Fencing::Guardian,
            },
            Work::Handlers { .. } => plan::Fencing::Guardian,
        }
    }

    /// The labels with which the worker registers: what it was told, and the handlers that it holds.
    pub(crate) fn registered_labels(&self) -> Vec<String> {
        let mut labels = self.options.labels.clone();
        if let Work::Handlers { handlers, .. } = &self.work {
            labels.extend(handlers.labels());
        }
        labels
    }
}
