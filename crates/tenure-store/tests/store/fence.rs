//! Races for positions: stale writers against claimers, batches against batches, a settlement against its holder.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tenure_core::{
    chain::Head,
    id::{Epoch, Seq},
};
use tenure_store::{Append, AppendOutcome, Store};

use crate::fleet::{Fleet, Holder, Worker, applied, claim_request};

const JOBS: usize = 50;
const STALE_APPENDS: usize = 10_000;

/// What the writers of one job remember, and the epoch of its last settlement.
struct Remembered {
    holder: Mutex<Holder>,
    settled: AtomicU64,
}

type Memory = Arc<BTreeMap<tenure_core::id::JobId, Remembered>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stale_appends_never_land_among_concurrent_claims_and_are_never_torn() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut memory = BTreeMap::new();
    for _ in 0..JOBS {
        let holder = fleet.run_job(&worker).await;
        memory.insert(holder.job, Remembered { holder: Mutex::new(holder), settled: AtomicU64::new(0) });
    }
    let memory: Memory = Arc::new(memory);
    let stale = Arc::new(AtomicUsize::new(0));
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let claimers: Vec<_> = (0..2)
        .map(|no| {
            tokio::spawn(take_over(
                fleet.store.clone(),
                worker.clone(),
                memory.clone(),
                stale.clone(),
                seed + no,
            ))
        })
        .collect();
    let writers: Vec<_> = (0..4)
        .map(|no| {
            tokio::spawn(write_stale(fleet.store.clone(), memory.clone(), stale.clone(), seed + 10 + no))
        })
        .collect();
    let mut takeovers = 0;
    for claimer in claimers {
        takeovers += claimer.await.unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(takeovers > 0);
    println!("{takeovers} takeovers, {} stale appends", stale.load(Ordering::SeqCst));
    for job in memory.keys() {
        check_journal(&fleet, *job).await;
    }
}

/// Settles a random job and claims it again, until there were enough stale appends.
async fn take_over(
    store: Store,
    worker: Worker,
    memory: Memory,
    stale: Arc<AtomicUsize>,
    seed: u64,
) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let mut takeovers = 0;
    while stale.load(Ordering::SeqCst) < STALE_APPENDS {
        let remembered = memory.values().nth(random.random_range(0..JOBS)).unwrap();
        let holder = remembered.holder.lock().unwrap().clone();
        let outcome = store.append_with_retry(&[holder.settlement()]).await.outcomes.remove(0).unwrap();
        if applied(&outcome).is_some() {
            remembered.settled.fetch_max(holder.epoch.0, Ordering::SeqCst);
        }
        for claimed in store.claim_jobs(&claim_request(&worker, 2)).await.unwrap().claimed {
            takeovers += 1;
            *memory[&claimed.job].holder.lock().unwrap() = Holder::of(&claimed);
        }
    }
    takeovers
}

/// Sends batches of two-record appends at whatever heads are remembered.
async fn write_stale(store: Store, memory: Memory, stale: Arc<AtomicUsize>, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut kept: Vec<Holder> = Vec::new();
    while stale.load(Ordering::SeqCst) < STALE_APPENDS {
        // What was remembered some time ago, and for a few jobs what is so now.
        let is_present =
            |holder: &Holder| memory[&holder.job].settled.load(Ordering::SeqCst) < holder.epoch.0;
        let mut holders: BTreeMap<_, Holder> =
            kept.iter().map(|holder| (holder.job, holder.clone())).collect();
        holders.retain(|_, holder| !is_present(holder) || random.random_bool(0.05));
        for remembered in memory.values().filter(|_| random.random_bool(0.05)) {
            let holder = remembered.holder.lock().unwrap().clone();
            holders.insert(holder.job, holder);
        }
        kept.retain(|holder| !holders.contains_key(&holder.job));
        kept.extend(holders.values().cloned());
        let mut advanced: Vec<_> = holders.into_values().collect();
        let batch: Vec<Append> =
            advanced.iter_mut().map(|holder| holder.notes(&["first", "second"])).collect();
        let known_stale: Vec<_> = advanced
            .iter()
            .map(|holder| memory[&holder.job].settled.load(Ordering::SeqCst) >= holder.epoch.0)
            .collect();
        let outcomes = store.append_with_retry(&batch).await.outcomes;
        for ((outcome, was_stale), holder) in outcomes.into_iter().zip(known_stale).zip(advanced) {
            let landed = applied(&outcome.unwrap()).is_some();
            assert!(!(landed && was_stale), "a stale append landed: {holder:?}");
            stale.fetch_add(usize::from(was_stale), Ordering::SeqCst);
            let mut present = memory[&holder.job].holder.lock().unwrap();
            if landed && present.epoch == holder.epoch {
                *present = holder;
            }
        }
    }
}

/// No gap, no falling epoch, every hash over its predecessor's, and both records of each append side by side.
async fn check_journal(fleet: &Fleet, job: tenure_core::id::JobId) {
    let records = fleet.all_records(job).await;
    let (mut head, mut epoch) = (Head::genesis(), Epoch(0));
    for record in &records {
        head = head.extend(&record.bytes);
        assert_eq!((record.seq, record.hash), (head.seq, head.hash));
        assert!(record.epoch >= epoch, "epoch {} after {epoch}", record.epoch);
        epoch = record.epoch;
    }
    let tail = fleet.store.read_tail(&fleet.tenant, job, Seq(1)).await.unwrap().unwrap();
    let notes: Vec<_> = tail.rows.iter().filter(|row| row.kind == "note").collect();
    for pair in notes.chunks(2) {
        assert_eq!(pair.len(), 2, "an append was torn");
        assert_eq!((pair[0].seq.next(), pair[0].n, pair[0].epoch), (pair[1].seq, pair[1].n, pair[1].epoch));
    }
}

#[tokio::test]
async fn one_conflict_among_five_hundred_appends_leaves_the_others_and_takes_three_statements() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut holders = run_jobs(&fleet, &worker, 500).await;
    let victim = holders[250].clone();
    let batch: Vec<_> = holders.iter_mut().map(|holder| holder.notes(&["x"])).collect();
    // A competitor that is on its way: it has the position and has not committed.
    let mut competitor = fleet.pool.begin().await.unwrap();
    take_position(&mut competitor, &victim).await;
    let store = crate::fleet::patient_store(&fleet).await;
    let sent = tokio::spawn(async move { store.append_with_retry(&batch).await });
    fleet.wait_until_blocked("Writes a batch of appends").await;
    competitor.commit().await.unwrap();
    let report = sent.await.unwrap();
    assert!(report.statements + report.classifications <= 3, "{} statements", report.statements);
    for (index, outcome) in report.outcomes.iter().enumerate() {
        let outcome = outcome.as_ref().unwrap();
        let expected =
            if index == 250 { AppendOutcome::Conflict } else { AppendOutcome::Applied { seq: Seq(4) } };
        assert_eq!(*outcome, expected, "append {index}");
    }
}

/// So many jobs that a worker holds.
pub(crate) async fn run_jobs(fleet: &Fleet, worker: &Worker, count: usize) -> Vec<Holder> {
    let jobs: Vec<_> = (0..count).map(|_| fleet.new_job()).collect();
    fleet.store.submit_jobs(&jobs).await.unwrap();
    let claimed = fleet.claim(worker, u32::try_from(count).unwrap()).await.claimed;
    assert_eq!(claimed.len(), count);
    claimed.iter().map(Holder::of).collect()
}

/// Takes the next position of a job, as a competitor's statement would.
pub(crate) async fn take_position(transaction: &mut sqlx::PgConnection, holder: &Holder) {
    sqlx::query(
        "INSERT INTO journal (tenant, job, seq, generation, epoch, run, kind, at, bytes, hash)
         SELECT tenant, job, seq + 1, generation, epoch, run, 'note', at, bytes, hash
         FROM journal WHERE job = $1 ORDER BY seq DESC LIMIT 1",
    )
    .bind(holder.job.0)
    .execute(transaction)
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stale_and_fresh_batches_in_opposite_order_do_not_deadlock() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut fresh = run_jobs(&fleet, &worker, 60).await;
    for round in 0..20 {
        let stale: Vec<_> = fresh.clone();
        let forward: Vec<_> = fresh.iter_mut().map(|holder| holder.notes(&["fresh"])).collect();
        let mut backward: Vec<_> = stale.into_iter().map(|mut holder| holder.notes(&["stale"])).collect();
        backward.reverse();
        let (one, two) = (fleet.store.clone(), fleet.store.clone());
        let (forward, backward) = tokio::join!(
            tokio::spawn(async move { (one.append_with_retry(&forward).await, forward) }),
            tokio::spawn(async move { (two.append_with_retry(&backward).await, backward) }),
        );
        let landed = count_landed(forward.unwrap(), &mut fresh) + count_landed(backward.unwrap(), &mut fresh);
        assert_eq!(landed, 60, "round {round}: each position is taken once");
    }
    let deadlocks =
        fleet.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await;
    assert_eq!(deadlocks, 0);
}

fn count_landed((report, batch): (tenure_store::AppendReport, Vec<Append>), holders: &mut [Holder]) -> usize {
    let mut landed = 0;
    for (outcome, append) in report.outcomes.into_iter().zip(&batch) {
        if applied(&outcome.unwrap()).is_some() {
            landed += 1;
            let holder = holders.iter_mut().find(|holder| holder.job == append.job).unwrap();
            holder.advance(append);
        }
    }
    landed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn settlement_and_holders_append_exclude_each_other() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (mut settled, mut held) = (0, 0);
    for holder in run_jobs(&fleet, &worker, 100).await {
        let (end, settlement) = (holder.clone().success(), holder.settlement());
        let (one, two) = (fleet.store.clone(), fleet.store.clone());
        let (end, settlement) = tokio::join!(
            tokio::spawn(async move { one.append_with_retry(&[end]).await.outcomes.remove(0).unwrap() }),
            tokio::spawn(
                async move { two.append_with_retry(&[settlement]).await.outcomes.remove(0).unwrap() }
            ),
        );
        let (end, settlement) = (applied(&end.unwrap()), applied(&settlement.unwrap()));
        assert!(end.is_some() != settlement.is_some(), "end {end:?}, settlement {settlement:?}");
        settled += usize::from(settlement.is_some());
        held += usize::from(end.is_some());
        let states = fleet.journal(holder.job).await;
        assert_eq!(states.len(), 5, "{states:?}");
    }
    println!("{settled} settlements and {held} ends won");
    assert_eq!(fleet.count("SELECT count(*) FROM leases").await, 0);
    assert_eq!(fleet.count("SELECT count(*) FROM ready").await, i64::try_from(settled).unwrap());
}
