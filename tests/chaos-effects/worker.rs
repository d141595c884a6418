//! The worker of the storm whose agent is a Rust function: `effects-worker NAME ENDPOINTS DATA_DIR LEDGER_URL BEATS`. Each job
//! performs an effect of each recovery, and two that belong together. As in the scripts, a moment passes between an act
//! and its end, so that there is a boundary between the two; and each run beats, so that two at a time would show.
//!
//! Neighbours: `storm` starts it, kills it and has the scripts; the example of handlers shows how one is written.

use std::{
    env,
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use tenure_testkit::LedgerClient;
use tenure_worker::{
    Worker, WorkerOptions,
    handler::{EffectCall, HandlerError, Probe, RunContext},
};
use tokio::task::JoinSet;

/// How long the ledger is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two beats.
const BEAT_INTERVAL: Duration = Duration::from_millis(50);
/// The longest moment between an act and its end, in milliseconds.
const MOMENT_MS: u64 = 300;
const SLOTS: u32 = 8;
const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tenure_worker::guardian::run_if_asked();
    let mut arguments = env::args().skip(1);
    let mut next = |what| arguments.next().with_context(|| format!("{what} is missing"));
    let (name, endpoints, data_dir) = (next("NAME")?, next("ENDPOINTS")?, next("DATA_DIR")?);
    let world = World {
        ledger: LedgerClient::new(&next("LEDGER_URL")?, PATIENCE),
        beats: PathBuf::from(next("BEATS")?),
    };
    let endpoints = endpoints.split(',').map(str::to_owned).collect();
    let options =
        WorkerOptions { slots: SLOTS, ttl: TTL, ..WorkerOptions::new(name, endpoints, data_dir.into()) };
    let worker = Worker::agent("function", "1", move |run: RunContext, (): ()| {
        let world = world.clone();
        async move { world.perform_all(&run).await }
    });
    Ok(worker.start(options)?.serve_until_signalled().await?)
}

/// What the function changes, and where it beats.
#[derive(Clone)]
struct World {
    ledger: LedgerClient,
    beats: PathBuf,
}

impl World {
    /// One effect of each recovery. What has no key of its provider's would be entered twice where it was performed twice.
    async fn perform_all(&self, run: &RunContext) -> Result<(), HandlerError> {
        let _beating = beat(&self.beats.join(format!("{}.{}", run.job(), run.run())))?;
        let retry = run.effect("retry/1").retry().no_undo();
        let text = name_effect(run, "retry/1");
        retry.perform(async |_| self.post(Some(&text), &text).await).await?;
        let idempotent = run.effect("idempotent/1").idempotent().no_undo();
        idempotent
            .perform(async |call: EffectCall| self.post_keyed(run, &call, "idempotent/1").await)
            .await?;
        let text = name_effect(run, "probe/1");
        let probe = run.effect("probe/1").probe(|_| self.find(&text)).no_undo();
        probe.perform(async |_| self.post(None, &text).await).await?;
        let ask = run.effect("ask/1").ask().no_undo();
        ask.perform(async |_| self.post(None, &name_effect(run, "ask/1")).await).await?;
        self.perform_group(run).await
    }

    async fn perform_group(&self, run: &RunContext) -> Result<(), HandlerError> {
        let mut group = run.group("together").await?;
        let member = run.effect("idempotent/2").idempotent().no_undo();
        group.perform(member, async |call| self.post_keyed(run, &call, "idempotent/2").await).await?;
        group.check("there is a ledger", true).await?;
        let put_off = run.effect("idempotent/3").idempotent().no_undo();
        group.defer(put_off, move |call| async move { self.post_keyed(run, &call, "idempotent/3").await })?;
        group.commit().await
    }

    async fn post_keyed(&self, run: &RunContext, call: &EffectCall, key: &str) -> Result<u64, HandlerError> {
        self.post(Some(&call.idempotency_key), &name_effect(run, key)).await
    }

    /// Posts, and lets a moment pass before it says so.
    async fn post(&self, key: Option<&str>, text: &str) -> Result<u64, HandlerError> {
        let number = self.ledger.post(key, text).await?.entry.number;
        wait_a_moment(Duration::from_millis(rand::random_range(0..=MOMENT_MS))).await;
        Ok(number)
    }

    async fn find(&self, text: &str) -> Result<Probe<u64>, HandlerError> {
        let entries = self.ledger.entries().await?;
        let found = entries.into_iter().find(|entry| entry.text == text);
        Ok(found.map_or(Probe::DidNotHappen, |entry| Probe::Landed(entry.number)))
    }
}

/// The text that the checkers read.
fn name_effect(run: &RunContext, key: &str) -> String {
    format!("{} {key}", run.job())
}

/// Writes a line for each beat until what is returned is dropped.
fn beat(path: &Path) -> Result<JoinSet<()>, HandlerError> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let mut beating = JoinSet::new();
    beating.spawn(async move {
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // A beat that cannot be written is missed, and the run is the shorter for it.
            let _ = writeln!(file, "{}", now.as_nanos());
            wait_a_moment(BEAT_INTERVAL).await;
        }
    });
    Ok(beating)
}

async fn wait_a_moment(duration: Duration) {
    tokio::time::sleep(duration).await;
}
