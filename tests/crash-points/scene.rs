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
use tenure_client::{Client, blobs::LargeValue, submission::Submission};
use tenure_coordinator::{BlobLocation, Coordinator, CoordinatorOptions, RunningCoordinator};
use tenure_core::{
    fleet::read_fleet,
    id::{JobId, Tenant},
    limits::POLL_INTERVAL_MIN,
    principal::Principal,
};
use tenure_store::{NewDeclaration, Store, StoreOptions};
use tenure_testkit::{CrashPoint, Entry, Ledger, LedgerClient, TestDatabase, crash_points};
use tenure_worker::{RunningWorker, Worker, WorkerOptions};
use uuid::Uuid;

use crate::{handlers::World, shape::Shape};

/// Longer than anything here takes on a busy machine; no test asserts how long something took.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// How often somebody looks whether a job is to be cancelled.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long a part may take to end; what is not over then is cut off, and nobody waits for it any more.
const GRACE: Duration = Duration::from_secs(10);

/// One fleet and its world.
pub(crate) struct Scene {
    ledger: Ledger,
    coordinator: RunningCoordinator,
    worker: RunningWorker,
    _directory: TempDir,
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
        let endpoint = format!("http://{}", coordinator.local_addr());
        let options = WorkerOptions {
            program: beside_the_tests("tenure"),
            slots: 1,
            ..WorkerOptions::new("w1", vec![endpoint], directory.to_owned())
        };
        let worker = match shape.handler(World::new(self.client())) {
            Some(handlers) => handlers.start(options).unwrap(),
            None => Worker::start(options).unwrap(),
        };
        Scene { ledger: self.ledger, coordinator, worker, _directory: self.directory }
    }
}

impl Scene {
    pub(crate) fn client(&self) -> Client {
        Client::connect(&[format!("http://{}", self.coordinator.local_addr())]).unwrap()
    }

    /// Where the job's shape is one that is cancelled: cancels it once its living run has left a note, and never returns.
    pub(crate) async fn act_upon(&self, shape: &Shape, pool: &PgPool) -> Infallible {
        let client = self.client();
        while shape.is_cancelled() {
            let noted: Option<(Uuid,)> = sqlx::query_as(
                "SELECT l.job FROM leases l JOIN journal h ON h.tenant = l.tenant AND h.job = l.job
                 WHERE l.released_at IS NULL AND h.epoch = l.epoch AND h.kind = 'note'",
            )
            .fetch_optional(pool)
            .await
            .unwrap();
            if let Some((job,)) = noted {
                // Asked again it is told that it was asked before; or the job is over meanwhile.
                let _ = client.cancel_job(&job.to_string(), "it waits").await;
            }
            wait_a_moment().await;
        }
        std::future::pending().await
    }

    /// Ends worker and coordinator, and says what was really done.
    pub(crate) async fn end(self) -> Vec<Entry> {
        self.worker.shutdown().await;
        self.coordinator.shutdown(GRACE).await;
        self.ledger.entries().unwrap()
    }
}

/// A job's crash points, and where its values are that no row takes.
pub(crate) struct Taken {
    pub(crate) points: Vec<CrashPoint>,
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
    let mut submission = Submission { agent: shape.name.to_owned(), ..Submission::default() };
    if shape.input_bytes > 0 {
        let input = LargeValue::Bytes(vec![b'x'; shape.input_bytes].into());
        submission.input_blob = Some(client.put_blob(&input).await.unwrap());
    }
    let job: JobId = client.submit_job(submission).await.unwrap().job_id;
    let name = job.to_string();
    let concluded = tokio::select! {
        concluded = client.wait_for_conclusion(&name, Some(PATIENCE)) => concluded.unwrap(),
        never = scene.act_upon(shape, &pool) => match never {},
    };
    pool.close().await;
    assert_eq!(concluded.state, shape.ends, "{}: {concluded:?}", shape.name);
    scene.end().await;
    let points = crash_points(&store, &Tenant::default_tenant(), job).await.unwrap();
    store.close().await;
    Taken { points, blobs }
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
