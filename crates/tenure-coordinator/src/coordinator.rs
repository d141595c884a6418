//! A whole coordinator: what it is made of, its start, and its end. It holds no state that another could not rebuild from
//! the database; any number of them may run. The start refuses what would not work later: an address that is not loopback,
//! a port in use, a database that does not answer, is not migrated, or is newer. Neighbours: `server` answers calls,
//! `background` does what nobody asks for, `options` says what can be set.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use tenure_core::{
    id::Generation,
    limits::{POLL_INTERVAL_MAX, POLL_INTERVAL_MIN},
    reason::Reason,
    refusal::Refusal,
};
use tenure_store::{Store, StoreError, StoreOptions};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    attachments::Attachments,
    background::start_background,
    blob_store::BlobStore,
    clock::DatabaseClock,
    credentials::{Credentials, file::TokenFile},
    lane::{LaneParts, Lanes},
    metrics::{define_queue_gauges, metrics},
    options::{CoordinatorOptions, LANES_MAX, StartError},
    patience::Bulk,
    poll::Poll,
    readiness::Readiness,
    run_secret::RunSecrets,
    server::{self, followers::Followers},
    submission::Submissions,
    vital::VitalTasks,
    wake::{Wakes, notifier::send_news},
};

/// The pause between two attempts to reach the database at the start.
const CONNECT_PAUSE: Duration = Duration::from_millis(250);

/// What every part of a coordinator works with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) clock: DatabaseClock,
    pub(crate) wakes: Wakes,
    /// The poll behind the wake-ups.
    pub(crate) poll: Poll,
    pub(crate) lanes: Lanes,
    pub(crate) submissions: Submissions,
    pub(crate) attachments: Attachments,
    pub(crate) generation: Generation,
    /// The tokens that are known here.
    pub(crate) credentials: Credentials,
    /// Who mints the secrets of runs.
    pub(crate) run_secrets: RunSecrets,
    /// Where values are that no row takes.
    pub(crate) blobs: BlobStore,
    pub(crate) readiness: Readiness,
    pub(crate) bulk: Bulk,
    /// How many streams follow a job, a journal or an output.
    pub(crate) followers: Followers,
    pub(crate) vital: VitalTasks,
    /// Ends background work and streams that have no end of their own.
    pub(crate) stopping: CancellationToken,
    /// Whatever must be over before the coordinator is.
    pub(crate) tasks: TaskTracker,
}

/// A coordinator that is not running.
pub struct Coordinator;

impl Coordinator {
    /// Prepares the database, listens, and serves until it is shut down.
    ///
    /// # Errors
    /// The address is refused or in use, or the database cannot be used; the error has the stable reason.
    pub async fn start(options: CoordinatorOptions) -> Result<RunningCoordinator, StartError> {
        check_options(&options)?;
        let listener = listen(options.listen).await?;
        let local_addr =
            listener.local_addr().map_err(|source| StartError::Listen { listen: options.listen, source })?;
        let tls = match &options.tls {
            Some(files) => Some(files.read().await.map_err(StartError::TlsFile)?),
            None => None,
        };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let certificates = options.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
        let file = match options.tokens.clone() {
            Some(path) => Some(TokenFile::open(path).await.map_err(StartError::TokenFile)?),
            None => None,
        };
        let blobs = BlobStore::open(options.blobs.as_ref()).map_err(StartError::Blobs)?;
        let store = prepare_database(&options).await.map_err(StartError::Database)?;
        let tokens = store.list_tokens().await.map_err(StartError::Database)?;
        let parts = assemble(store, blobs, &options).await.map_err(StartError::Database)?;
        parts.credentials.replace_database(tokens).map_err(StartError::Tokens)?;
        let token_file = file.map(|(file, tokens)| {
            parts.credentials.replace_file(tokens);
            file
        });
        check_exposure(&options, parts.credentials.are_required())?;
        watch_queues(&parts);
        let serving = server::serve(parts.clone(), listener, tls, certificates)?;
        let listen_database_url = options.listen_database_url.unwrap_or(options.database_url);
        start_background(&parts, listen_database_url, token_file, options.handler_absent_wait);
        tracing::info!(address = %local_addr, lanes = options.lanes, "the coordinator serves");
        Ok(RunningCoordinator { parts, local_addr, serving, scheme })
    }
}

/// A coordinator that serves.
pub struct RunningCoordinator {
    parts: Parts,
    local_addr: SocketAddr,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
    scheme: &'static str,
}

impl RunningCoordinator {
    /// Where gRPC is served.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// How its address begins: `https` where it speaks TLS.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// True while the database answers.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.parts.readiness.is_ready()
    }

    /// Asks the same in a way that can be kept by others, for example by an HTTP probe.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.parts.readiness.clone()
    }

    /// Returns once the coordinator stops: it was told to, or it met a defect of its own and says so in its log.
    pub async fn await_end(&self) {
        self.parts.stopping.cancelled().await;
    }

    /// Stops: no new calls, every stream ends with the reason (workers move on, and no run notices), what was taken is
    /// written. What is not over after `grace` is cut off.
    pub async fn shutdown(self, grace: Duration) {
        let Self { parts, mut serving, .. } = self;
        parts.stopping.cancel();
        parts.readiness.set(false);
        let (store, tasks, wakes) = (parts.store.clone(), parts.tasks.clone(), parts.wakes.clone());
        drop(parts);
        tasks.close();
        let ended = tokio::time::timeout(grace, async {
            let _ = (&mut serving).await;
            tasks.wait().await;
            // What the last writes made ready is for the others.
            send_news(&store, &wakes).await;
            store.close().await;
        });
        if ended.await.is_err() {
            tracing::warn!(
                grace_ms = grace.as_millis(),
                "the grace is over, and what was under way is cut off"
            );
            serving.abort();
        }
    }
}

/// Why a stream of a stopping coordinator ends.
pub(crate) fn stopping() -> Refusal {
    Refusal::new(Reason::CoordinatorUnavailable, "this coordinator is stopping")
}

/// What waits here is shown to whoever asks for the metrics.
fn watch_queues(parts: &Parts) {
    let (attachments, followers) = (parts.attachments.clone(), parts.followers.clone());
    // Defined first, so that nothing is missing before it is counted.
    let _ = metrics();
    define_queue_gauges(
        parts.lanes.watch_depths(),
        parts.submissions.watch_depth(),
        move || attachments.list().len() as u64,
        move || followers.count() as u64,
    );
}

fn check_options(options: &CoordinatorOptions) -> Result<(), StartError> {
    if options.tokens.is_some() {
        // What the database says about credentials changes nothing.
        check_exposure(options, true)?;
    }
    if !(1..=LANES_MAX).contains(&options.lanes) {
        return Err(StartError::Lanes { given: options.lanes });
    }
    if !(POLL_INTERVAL_MIN..=POLL_INTERVAL_MAX).contains(&options.poll_interval) {
        return Err(StartError::PollInterval { given: options.poll_interval });
    }
    Ok(())
}

/// What leaves this host needs a credential and TLS.
fn check_exposure(options: &CoordinatorOptions, credentials_required: bool) -> Result<(), StartError> {
    let listen = options.listen;
    if listen.ip().is_loopback() {
        return Ok(());
    }
    match (credentials_required, options.tls.is_some() || options.allow_plaintext) {
        (false, _) => Err(StartError::LoopbackOnly { listen }),
        (true, false) => Err(StartError::TlsRequired { listen }),
        (true, true) => Ok(()),
    }
}

async fn listen(listen: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(listen).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::PortInUse { listen, source },
        _ => StartError::Listen { listen, source },
    })
}

/// Connects, and waits for a database that does not answer, up to the bound.
async fn prepare_database(options: &CoordinatorOptions) -> Result<Store, StoreError> {
    let until = Instant::now() + options.wait_for_database;
    loop {
        match connect(options).await {
            Err(error) if error.is_retryable() && Instant::now() < until => {
                tracing::debug!(error = crate::refusals::chain(&error), "the database does not answer yet");
                tokio::time::sleep(CONNECT_PAUSE).await;
            }
            result => return result,
        }
    }
}

async fn connect(options: &CoordinatorOptions) -> Result<Store, StoreError> {
    let named = StoreOptions { application_name: "tenure coordinator".to_owned(), ..StoreOptions::default() };
    Store::connect(&options.database_url, named).await
}

async fn assemble(store: Store, blobs: BlobStore, options: &CoordinatorOptions) -> Result<Parts, StoreError> {
    let clock = DatabaseClock::measure(&store).await?;
    let generation = store.read_installation().await?.generation;
    let run_secrets = RunSecrets::of_installation(store.read_run_key().await?);
    store.ensure_partitions(clock.now()).await?;
    let (wakes, vital, attachments) = (Wakes::default(), VitalTasks::new(), Attachments::default());
    let lane_parts = LaneParts { store: store.clone(), clock: clock.clone(), wakes: wakes.clone() };
    let lanes = Lanes::start(options.lanes, &lane_parts, &vital);
    let submissions =
        Submissions::start(&lane_parts, generation, &attachments, &lanes, run_secrets.clone(), &vital);
    let credentials = Credentials::none(clock.clone());
    Ok(Parts {
        store,
        clock,
        wakes,
        poll: Poll::every(options.poll_interval),
        lanes,
        submissions,
        attachments,
        generation,
        credentials,
        run_secrets,
        blobs,
        readiness: Readiness::ready(),
        bulk: Bulk::new(),
        followers: Followers::new(),
        stopping: vital.stopping.clone(),
        tasks: vital.tasks.clone(),
        vital,
    })
}
