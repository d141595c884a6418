//! A whole worker, from its start to its end. It puts the parts together and takes them apart again in the order that
//! loses nothing: no new runs, then the runs, then their last reports, then the stream.

use std::{io, sync::Arc};

use tenure_core::limits;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use crate::{
    attachment::{RegistrationRefused, keep_attached},
    context::{Work, WorkerContext},
    drain::Drain,
    guardian::detect_fencing,
    handler::{GuardError, HandlerGuard, Handlers, InvalidHandler},
    held_runs::HeldRuns,
    leftovers::{remove_dead_sockets, remove_leftovers},
    metrics::define_gauges,
    options::{InvalidOption, WorkerOptions, check_options},
    outbox::Outbox,
    places::{Places, PlacesError},
    runner::{GuardCommand, ProcessRunner},
};

/// A worker that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An option that cannot be.
    #[error("the worker {name:?} cannot start as it is told to")]
    Option {
        /// The worker's name, as given.
        name: String,
        /// Which option, and why.
        #[source]
        source: InvalidOption,
    },
    /// Its directories.
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// One of its handlers.
    #[error(transparent)]
    Handler(#[from] InvalidHandler),
    /// The guardian of a worker with handlers.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// A replay was asked for, which takes no work.
    #[error(
        "this program was started for a replay and would take work: call `replay_if_asked` on its handlers before it starts them"
    )]
    ReplayAsked,
}

/// Starts workers: for agents with commands by [`Worker::start`], for agents that are functions of this program by
/// [`Worker::agent`].
#[derive(Debug)]
pub struct Worker;

impl Worker {
    /// Starts a worker for agents with commands in the background. It registers and attaches as soon as a coordinator answers, and goes on trying
    /// until then. Call it early inside a runtime: finding out how children can be fenced forks once.
    ///
    /// # Errors
    /// An option that cannot be, or a directory that cannot be made.
    pub fn start(options: WorkerOptions) -> Result<RunningWorker, StartError> {
        Self::start_to(options, |options| {
            Ok(Work::Processes(ProcessRunner::new(choose_guard(options), detect_fencing())))
        })
    }

    /// Starts a worker for handlers.
    pub(crate) fn start_with_handlers(
        options: WorkerOptions,
        handlers: Handlers,
    ) -> Result<RunningWorker, StartError> {
        Self::start_to(options, |options| {
            Ok(Work::Handlers { handlers, guard: HandlerGuard::start(options)? })
        })
    }

    fn start_to(
        options: WorkerOptions,
        make_work: impl FnOnce(&WorkerOptions) -> Result<Work, StartError>,
    ) -> Result<RunningWorker, StartError> {
        let checked = check_options(&options)
            .map_err(|source| StartError::Option { name: options.name.clone(), source })?;
        let places = Places::make(&options)?;
        if !options.keep_runs {
            remove_leftovers(places.runs());
        }
        remove_dead_sockets(places.sockets());
        let context = Arc::new(WorkerContext {
            name: checked.name,
            endpoints: checked.endpoints,
            run_as: checked.run_as,
            work: make_work(&options)?,
            held: HeldRuns::new(options.slots),
            outbox: Outbox::new(),
            drain: Drain::new(),
            runs: TaskTracker::new(),
            places,
            abandoned: CancellationToken::new(),
            attached: watch::Sender::new(false),
            options,
        });
        define_gauges(&context);
        info!(worker = %context.name, slots = context.options.slots, fencing = ?context.registered_fencing(), "the worker starts");
        let attachment = tokio::spawn(keep_attached(Arc::clone(&context)));
        Ok(RunningWorker { context, attachment })
    }
}

/// Keeps the memory and the environment of this process from its children, which may be of the same user: they bear the
/// secrets of every run. It is for a program that is nothing but a worker, because it also leaves no core dump. Call it
/// after [`Worker::start`], which tries what this host allows with a process that it must be able to look into.
///
/// # Errors
/// The host does not do it.
pub fn conceal_process() -> io::Result<()> {
    nix::sys::prctl::set_dumpable(false).map_err(io::Error::from)
}

/// A worker that is under way.
#[derive(Debug)]
pub struct RunningWorker {
    context: Arc<WorkerContext>,
    attachment: JoinHandle<RegistrationRefused>,
}

impl RunningWorker {
    /// Waits until a coordinator has attached the worker.
    pub async fn wait_until_attached(&self) {
        let mut attached = self.context.attached.subscribe();
        // The sender lives in the context, which this holds.
        let _ = attached.wait_for(|attached| *attached).await;
    }

    /// Whether a coordinator has attached the worker, as it changes.
    #[must_use]
    pub fn watch_attached(&self) -> watch::Receiver<bool> {
        self.context.attached.subscribe()
    }

    /// Takes no more runs from now on, and lets those that are under way end by themselves for the drain grace less their
    /// stop-grace. Called again, it shortens the grace to nothing: what still runs is killed.
    pub fn begin_shutdown(&self) {
        self.context.drain.advance();
    }

    /// Stops: takes no more runs, waits for those under way as [`RunningWorker::begin_shutdown`] says, has their ends
    /// acknowledged where a coordinator answers in time, and leaves.
    pub async fn shutdown(self) {
        if self.context.drain.is_serving() {
            self.begin_shutdown();
        }
        self.context.runs.close();
        self.context.drain.grace_over_or(self.context.held.wait_until_empty()).await;
        if timeout(limits::DRAIN_REPORT_TIMEOUT, self.take_leave()).await.is_err() {
            warn!("not everything was acknowledged; the guardians report what is missing");
        }
        info!(worker = %self.context.name, "the worker has stopped");
    }

    /// Leaves nothing behind: no end that is not acknowledged, no grant that nobody answered.
    async fn take_leave(&self) {
        let context = &self.context;
        context.drain.no_grant_comes().await;
        // Empty once every end is acknowledged and every guardian was let go.
        context.runs.wait().await;
        context.outbox.close();
        context.drain.left().await;
    }

    /// Serves until SIGTERM or SIGINT, then shuts down; a second signal shortens the grace to nothing.
    ///
    /// # Errors
    /// The fleet does not take the worker, or the signals cannot be received.
    pub async fn serve_until_signalled(mut self) -> Result<(), ServeError> {
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
        tokio::select! {
            refused = &mut self.attachment => return Err(read_refusal(refused)),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("the worker drains: no new runs; a second signal ends what still runs");
        self.begin_shutdown();
        let context = Arc::clone(&self.context);
        let hasten = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            context.drain.advance();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.shutdown() => {}
            () = hasten => {}
        }
        Ok(())
    }

    /// Waits until the fleet refuses the worker for good, which it otherwise never does.
    pub async fn wait_until_refused(&mut self) -> ServeError {
        read_refusal((&mut self.attachment).await)
    }
}

/// A worker that is dropped leaves without waiting for anything, as one that was killed: its guardians end its children
/// and report. Where a handler was acting, this process is ended at the local deadline, if it is still there.
impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.attachment.abort();
        self.context.abandoned.cancel();
    }
}

/// Why a worker stopped that was not told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The fleet does not take it.
    #[error(transparent)]
    Refused(RegistrationRefused),
    /// The host's signals.
    #[error("the worker cannot receive signals")]
    Signals(#[source] io::Error),
    /// A defect of ours.
    #[error("the worker's attachment failed")]
    Failed(#[source] tokio::task::JoinError),
}

fn read_refusal(ended: Result<RegistrationRefused, tokio::task::JoinError>) -> ServeError {
    match ended {
        Ok(refused) => ServeError::Refused(refused),
        Err(error) => ServeError::Failed(error),
    }
}

/// This very program, also where its file was replaced since it started; another one by its path.
fn choose_guard(options: &WorkerOptions) -> GuardCommand {
    let same = std::env::current_exe().is_ok_and(|own| own == options.program);
    if same {
        GuardCommand::default()
    } else {
        GuardCommand { program: options.program.clone(), arguments: vec!["guard".into()] }
    }
}
