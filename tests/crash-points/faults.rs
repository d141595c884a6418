//! Faults of the store that no prefix can show, under jobs that run: at every append of a job, at each kind of record, and drawn
//! from a seed. A coordinator sends what failed again and finds out what was committed; a run that was fenced is over, and the
//! next one goes on. In every case each effect is in the ledger once, or in doubt and listed.

use std::collections::BTreeSet;

use tempfile::TempDir;
use tenure_client::Client;
use tenure_core::job::State;
use tenure_store::{Store, StoreOptions};
use tenure_testkit::{FaultyStore, Occasion, StoreFault, TestDatabase, Witnesses};

use crate::{
    scene::{PATIENCE, Scene, Stage, declare, submit},
    shape::{Shape, find},
};

const FAULTS: [StoreFault; 3] = [StoreFault::FailedClean, StoreFault::CommittedAndLost, StoreFault::Fenced];

/// A fleet whose coordinator reaches its database through a store that fails.
struct Hazard {
    store: FaultyStore,
    database: TestDatabase,
    scene: Scene,
    client: Client,
    shape: &'static Shape,
    _blobs: TempDir,
}

impl Hazard {
    async fn start(name: &str) -> Self {
        let shape = find(name);
        let database = TestDatabase::create().await.unwrap();
        let direct = Store::connect(database.url(), StoreOptions::default()).await.unwrap();
        declare(&direct, shape).await;
        direct.close().await;
        let store = FaultyStore::start(database.url()).await.unwrap();
        let blobs = tempfile::tempdir().unwrap();
        let scene = Stage::set().await.begin(shape, store.url(), blobs.path()).await;
        let client = scene.client();
        Self { _blobs: blobs, store, database, scene, client, shape }
    }

    /// Runs one job to where it comes to rest.
    async fn run(&self) -> State {
        let job = submit(&self.client, self.shape).await;
        self.client.wait_for_conclusion(&job.to_string(), Some(PATIENCE)).await.unwrap().state
    }

    /// Appends that a job without a fault has.
    async fn count_appends(&self) -> u64 {
        let before = self.store.appends();
        assert_eq!(self.run().await, State::Succeeded);
        self.store.appends() - before
    }

    /// Runs a job under a fault, and holds what it came to against the fault.
    async fn run_under(&self, fault: StoreFault, occasion: Occasion) {
        let told = format!("{fault:?} at {occasion:?}");
        self.store.inject(fault, occasion);
        let state = self.run().await;
        let injected = self.store.assert_injected();
        println!("{told}: {injected:?} came to {state}");
        // Only a run that is over can leave a doubt for a person.
        let is_expected =
            state == State::Succeeded || fault == StoreFault::Fenced && state == State::Quarantined;
        assert!(is_expected, "{told}: {injected:?} came to {state}");
    }

    /// Ends the fleet, and has every checker look at what all jobs left.
    async fn judge(self) {
        let entries = self.scene.end().await;
        let pool = self.database.connect(2).await.unwrap();
        let witnesses = Witnesses { entries: Some(&entries), ..Witnesses::of_database(&pool) };
        let findings = witnesses.check().await.unwrap();
        assert!(findings.is_empty(), "{findings:?}");
        pool.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faulty_store_at_every_append_of_a_job_doubles_and_loses_nothing() {
    let hazard = Hazard::start("recoveries").await;
    let appends = hazard.count_appends().await;
    assert!(appends >= 10, "{appends} appends");
    for number in 1..=appends {
        for fault in FAULTS {
            hazard.run_under(fault, Occasion::Append(number)).await;
        }
    }
    hazard.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faulty_store_at_each_kind_of_record_doubles_and_loses_nothing() {
    let mut met = BTreeSet::new();
    for (name, kinds) in [
        ("mixture", &["note", "step_started", "step_finished", "effect_failed", "job_concluded"][..]),
        ("probes", &["effect_started", "effect_reconciled", "effect_done"][..]),
        ("grouped", &["group_opened", "group_settled"][..]),
        // The result is in the blob store by then, and the record that names it is what fails.
        ("large", &["job_concluded"][..]),
        ("suspended", &["suspended", "woken"][..]),
        ("set-down", &["layover_booked"][..]),
        ("given", &["sent", "spawned"][..]),
    ] {
        let hazard = Hazard::start(name).await;
        for kind in kinds {
            for fault in FAULTS {
                // Nobody holds a job that waits, so nobody is fenced.
                if *kind == "woken" && fault == StoreFault::Fenced {
                    continue;
                }
                hazard.run_under(fault, Occasion::Kind((*kind).to_owned())).await;
                let injected = hazard.store.assert_injected();
                assert!(injected.kinds.iter().any(|met| met == kind), "{kind}: {injected:?}");
                met.insert(*kind);
            }
        }
        hazard.judge().await;
    }
    assert_eq!(met.len(), 15);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faulty_store_drawn_from_a_seed_doubles_and_loses_nothing() {
    let hazard = Hazard::start("long").await;
    for seed in 1..=3 {
        for fault in FAULTS {
            hazard.run_under(fault, Occasion::Seeded { seed, one_in: 6 }).await;
        }
    }
    hazard.judge().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "the store's fault was never injected")]
async fn faulty_store_says_that_its_fault_never_happened() {
    let hazard = Hazard::start("steps").await;
    hazard.run_under(StoreFault::FailedClean, Occasion::Kind("effect_started".to_owned())).await;
}
