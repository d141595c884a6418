//! A fleet of one coordinator and one worker, in this process, on a database that is given; and a ledger. The same parts that
//! the `tenure` program starts, and its guardian beside the children.

use std::{
    convert::Infallible,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::PgPool;
use tempfile::TempDir;
use tenure_client::{Client, acts::Answer, blobs::LargeValue, submission::Submission};
use tenure_coordinator::{BlobLocation, Coordinator, CoordinatorOptions, RunningCoordinator};
use tenure_core::{
    fleet::read_fleet,
    id::{JobId, Seq, Tenant},
    job::State,
    limits::POLL_INTERVAL_MIN,
    principal::Principal,
};
use tenure_store::{NewDeclaration, Store, StoreOptions, StoredRecord};
use tenure_testkit::{CrashPoint, Entry, Ledger, LedgerClient, TestDatabase, crash_points};
use tenure_worker::{RunningWorker, Worker, WorkerOptions};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::{
    handlers::World,
    shape::{Person, Shape},
};

/// Longer than anything here takes on a busy machine; no test asserts how long something took.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Records that a journal has at most.
const PAGE: u32 = 500;

/// How often somebody looks at a job.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long a part may take to end; what is not over then is cut off, and nobody waits for it any more.
const GRACE: Duration = Duration::from_secs(10);

/// One fleet and its world.
pub(crate) struct Scene {
    ledger: Ledger,
    coordinator: RunningCoordinator,
    /// None while it is replaced.
    worker: Mutex<Option<RunningWorker>>,
    directory: TempDir,
}

/// The ledger of a scene that is not started yet, which has what the world is to have.
pub(crate) struct Stage {
    ledger: Ledger,
    directory: TempDir,
}

impl Stage {
    pub(crate) async fn set() -> Self {
        let directory = tempfile::Builder::new().prefix("crash-").tempdir().unwrap();
        let ledger = Ledger::start(&directory.path().join("ledger.jsonl")).await.unwrap();
        Self { ledger, directory }
    }

    pub(crate) fn client(&self) -> LedgerClient {
        LedgerClient::new(&self.ledger.url(), PATIENCE)
    }

    /// Writes a file beside it.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// What was really done.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.ledger.entries().unwrap()
    }

    /// Starts the fleet on a database.
    pub(crate) async fn begin(self, shape: &Shape, database_url: &str, blobs: &Path) -> Scene {
        let directory = self.directory.path();
        fs::write(directory.join("ledger-url"), self.ledger.url()).unwrap();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = CoordinatorOptions {
            // Who settles a run beside the fleet wakes nobody.
            poll_interval: POLL_INTERVAL_MIN,
            blobs: Some(BlobLocation::Directory(blobs.to_owned())),
            ..CoordinatorOptions::new(database_url, listen)
        };
        let coordinator = Coordinator::start(options).await.unwrap();
        let scene =
            Scene { ledger: self.ledger, coordinator, worker: Mutex::new(None), directory: self.directory };
        scene.worker.lock().await.replace(scene.start_worker(shape));
        scene
    }
}

impl Scene {
    pub(crate) fn client(&self) -> Client {
        Client::connect(&[format!("http://{}", self.coordinator.local_addr())]).unwrap()
    }

    fn start_worker(&self, shape: &Shape) -> RunningWorker {
        let endpoint = format!("http://{}", self.coordinator.local_addr());
        let options = WorkerOptions {
            program: beside_the_tests("tenure"),
            slots: 1,
            ..WorkerOptions::new("w1", vec![endpoint], self.directory.path().to_owned())
        };
        let ledger = LedgerClient::new(&self.ledger.url(), PATIENCE);
        match shape.handler(World::new(ledger)) {
            Some(handlers) => handlers.start(options).unwrap(),
            None => Worker::start(options).unwrap(),
        }
    }

    /// Acts as the person of the job's shape does, and never returns.
    pub(crate) async fn act_upon(&self, shape: &Shape, pool: &PgPool) -> Infallible {
        let client = self.client();
        loop {
            match shape.person {
                Person::Nobody => std::future::pending().await,
                Person::Cancels => {
                    if let Some(job) = find_noted(pool).await {
                        // Asked again it is told that it was asked before; or the job is over meanwhile.
                        let _ = client.cancel_job(&job, "it waits").await;
                    }
                }
                Person::Steers => {
                    if let Some(job) = find_noted(pool).await {
                        // The run may have ended meanwhile.
                        let _ = client.steer_job(&job, "go on").await;
                    }
                }
                Person::ReplacesTheWorker => {
                    if find_noted(pool).await.is_some() {
                        self.replace_worker(shape).await;
                    }
                }
                Person::HasItGoOn => self.go_on(&client, shape, pool).await,
            }
            wait_a_moment().await;
        }
    }

    /// Has the worker leave as whoever restarts its machine does, and starts it anew.
    async fn replace_worker(&self, shape: &Shape) {
        let mut worker = self.worker.lock().await;
        if let Some(leaving) = worker.take() {
            leaving.shutdown().await;
        }
        *worker = Some(self.start_worker(shape));
    }

    /// Where the job waits for a person: answers what is in doubt about it, and has it go on. What was done meanwhile is refused.
    async fn go_on(&self, client: &Client, shape: &Shape, pool: &PgPool) {
        let Some((job, state)) = read_first_job(pool).await else { return };
        let name = job.to_string();
        match state {
            State::Quarantined => {
                let Ok(undecided) = client.list_undecided(&name, 0, None).await else { return };
                for effect in undecided.effects {
                    let text = format!("{name} {}", effect.key);
                    let entries = self.ledger.entries().unwrap();
                    let answer = match entries.iter().find(|entry| entry.text == text) {
                        Some(entry) => Answer::Done(entry.number.to_string().into()),
                        None => Answer::NotDone,
                    };
                    let _ =
                        client.reconcile_effect(&name, effect.key.as_str(), answer, "asked the ledger").await;
                }
                let _ = client.reopen_job(&name, "all is answered", None).await;
            }
            State::Failed if shape.ends != State::Failed => {
                let _ = client.resume_job(&name, "it can go on now").await;
            }
            _ => {}
        }
    }

    /// Waits until the job has come to rest.
    pub(crate) async fn wait_for_rest(&self, shape: &Shape, pool: &PgPool) -> Result<State, String> {
        let mut seen = None;
        let at_rest = async {
            loop {
                match read_first_job(pool).await {
                    Some((_, state)) if shape.is_at_rest(state) => return state,
                    other => seen = other.map(|(_, state)| state),
                }
                wait_a_moment().await;
            }
        };
        let waited = tokio::select! {
            waited = tokio::time::timeout(PATIENCE, at_rest) => waited,
            never = self.act_upon(shape, pool) => match never {},
        };
        waited.map_err(|_| format!("it was still {seen:?} after {PATIENCE:?}"))
    }

    /// Ends worker and coordinator, and says what was really done.
    pub(crate) async fn end(self) -> Vec<Entry> {
        if let Some(worker) = self.worker.into_inner() {
            worker.shutdown().await;
        }
        self.coordinator.shutdown(GRACE).await;
        self.ledger.entries().unwrap()
    }
}

/// A job's crash points, and where its values are that no row takes.
pub(crate) struct Taken {
    pub(crate) points: Vec<CrashPoint>,
    pub(crate) journal: Vec<StoredRecord>,
    pub(crate) blobs: TempDir,
}

/// Runs a job of this shape to its end, and takes its crash points.
pub(crate) async fn take_points(shape: &Shape) -> Taken {
    let blobs = tempfile::tempdir().unwrap();
    let database = TestDatabase::create().await.unwrap();
    let store = Store::connect(database.url(), StoreOptions::default()).await.unwrap();
    declare(&store, shape).await;
    let scene = Stage::set().await.begin(shape, database.url(), blobs.path()).await;
    let (client, pool) = (scene.client(), database.connect(1).await.unwrap());
    let job = submit(&client, shape).await;
    let ended = scene.wait_for_rest(shape, &pool).await;
    pool.close().await;
    assert_eq!(ended, Ok(shape.ends), "{}", shape.name);
    scene.end().await;
    let tenant = Tenant::default_tenant();
    let points = crash_points(&store, &tenant, job).await.unwrap();
    let journal = store.read_records(&tenant, job, Seq(1), &[], PAGE).await.unwrap().records;
    assert_eq!(journal.len(), points.len() + 1, "{}: one page is all of it", shape.name);
    store.close().await;
    Taken { points, journal, blobs }
}

/// Submits a job of this shape.
pub(crate) async fn submit(client: &Client, shape: &Shape) -> JobId {
    let mut submission = Submission { agent: shape.name.to_owned(), ..Submission::default() };
    if shape.input_bytes > 0 {
        let input = LargeValue::Bytes(vec![b'x'; shape.input_bytes].into());
        submission.input_blob = Some(client.put_blob(&input).await.unwrap());
    }
    client.submit_job(submission).await.unwrap().job_id
}

/// The job whose living run has left a note, and was not asked to end by somebody who steers it.
async fn find_noted(pool: &PgPool) -> Option<String> {
    let noted: Option<(Uuid,)> = sqlx::query_as(
        "SELECT l.job FROM leases l JOIN journal h ON h.tenant = l.tenant AND h.job = l.job
         WHERE l.released_at IS NULL AND h.epoch = l.epoch AND h.kind = 'note'
             AND NOT EXISTS (SELECT FROM journal s WHERE s.tenant = l.tenant AND s.job = l.job AND s.kind = 'steered')",
    )
    .fetch_optional(pool)
    .await
    .unwrap();
    noted.map(|(job,)| job.to_string())
}

/// The job of a scene: what it gives to others is admitted after it.
async fn read_first_job(pool: &PgPool) -> Option<(JobId, State)> {
    let row: Option<(Uuid, String)> = sqlx::query_as("SELECT job, state FROM jobs ORDER BY job LIMIT 1")
        .fetch_optional(pool)
        .await
        .unwrap();
    row.map(|(job, state)| (JobId(job), State::parse(&state).unwrap()))
}

/// Between two looks.
async fn wait_a_moment() {
    tokio::time::sleep(LOOK_INTERVAL).await;
}

/// Declares the agent of a shape.
pub(crate) async fn declare(store: &Store, shape: &Shape) {
    let file = read_fleet(&shape.fleet_file(), |path| Err(format!("{path} is not there"))).unwrap();
    let declared = |agent: &tenure_core::fleet::FleetAgent| NewDeclaration {
        agent: agent.name.clone(),
        document: agent.declaration.document().to_vec(),
        digest: agent.declaration.digest(),
    };
    let declarations: Vec<_> = file.agents.iter().map(declared).collect();
    let by = Principal::asserted("the test");
    store.apply_agents(&Tenant::default_tenant(), &declarations, None, &by, false).await.unwrap();
}

/// A program that was built beside the tests.
fn beside_the_tests(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.parent().and_then(Path::parent).unwrap().join(name);
    assert!(built.exists(), "{} is not there: cargo build --bin {name}", built.display());
    built
}
