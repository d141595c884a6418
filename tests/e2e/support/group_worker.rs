//! A worker whose handler keeps effects together and has functions that undo them, and that can be held up at each boundary of
//! either: `group-worker NAME ENDPOINTS DATA_DIR LEDGER_URL SHARED`. Where it comes by, it writes the name of the boundary into
//! `SHARED/reached`, and waits there while `SHARED/hold-BOUNDARY` exists.

use std::{
    env,
    fs::OpenOptions,
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use anyhow::Context as _;
use tenure_testkit::LedgerClient;
use tenure_worker::{
    Worker, WorkerOptions,
    handler::{Effect, EffectCall, HandlerError, Probe, RunContext, UndoCall},
};

const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
const TTL: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tenure_worker::guardian::run_if_asked();
    let mut arguments = env::args().skip(1);
    let mut next = |what| arguments.next().with_context(|| format!("{what} is missing"));
    let (name, endpoints, data_dir) = (next("NAME")?, next("ENDPOINTS")?, next("DATA_DIR")?);
    let world = World {
        ledger: LedgerClient::new(&next("LEDGER_URL")?, PATIENCE),
        shared: PathBuf::from(next("SHARED")?),
    };
    let endpoints = endpoints.split(',').map(str::to_owned).collect();
    let options = WorkerOptions { ttl: TTL, ..WorkerOptions::new(name, endpoints, data_dir.into()) };
    let (grouped, waiting) = (world.clone(), world.clone());
    let (ungrouped, unwaited) = (world.clone(), world);
    let worker = Worker::agent("grouper", "1", move |run: RunContext, holds: bool| {
        let world = grouped.clone();
        async move { world.keep_together(&run, holds).await }
    })
    .compensation("take back", move |call: UndoCall, (): ()| ungrouped.clone().take_back(call))
    .agent("waiter", "1", move |run: RunContext, recovery: String| {
        let world = waiting.clone();
        async move { world.act_and_wait(&run, &recovery).await }
    })
    .compensation("take back", move |call: UndoCall, (): ()| unwaited.clone().take_back(call));
    Ok(worker.start(options)?.serve_until_signalled().await?)
}

#[derive(Clone)]
struct World {
    ledger: LedgerClient,
    shared: PathBuf,
}

impl World {
    /// Two members that can be taken back, an invariant that holds or does not, and one that is put off.
    async fn keep_together(&self, run: &RunContext, holds: bool) -> Result<(), HandlerError> {
        let mut group = run.group("order").await?;
        let reserve = run.effect("reserve").idempotent().undo("take back", &());
        group.perform(reserve, async |call| self.act(Some(&call.idempotency_key), "reserve").await).await?;
        self.come_by("recorded reserve").await?;
        // Without a key: performed twice, it would be entered twice. What undoes it cannot be looked up.
        let key = (!holds).then(|| format!("{}/charge", run.job()));
        let charge = run.effect("charge").undo("take back", &());
        let charge = if holds { self.probed(charge, "charge") } else { charge.idempotent() };
        group.perform(charge, async |_| self.act(key.as_deref(), "charge").await).await?;
        self.come_by("recorded charge").await?;
        let notify = self.probed(run.effect("notify").no_undo(), "notify");
        group.defer(notify, move |_: EffectCall| self.act(None, "notify"))?;
        group.check("the customer can be charged", holds).await?;
        group.commit().await?;
        self.come_by("recorded notify").await
    }

    /// Three effects, and then a wait for whoever cancels it.
    async fn act_and_wait(&self, run: &RunContext, recovery: &str) -> Result<(), HandlerError> {
        for key in ["tag", "push", "mail"] {
            let effect = run.effect(key).undo("take back", &());
            let effect = if recovery == "ask" { effect.ask() } else { effect.idempotent() };
            effect.perform(async |call: EffectCall| self.act(Some(&call.idempotency_key), key).await).await?;
        }
        self.come_by("waiting").await?;
        run.cancellation().cancelled().await;
        Err(HandlerError::new("it was asked to end"))
    }

    async fn take_back(self, call: UndoCall) -> Result<(), HandlerError> {
        let what = format!("undo {}", call.effect);
        self.act(Some(&call.idempotency_key), &what).await.map(|_: u64| ())
    }

    fn probed<'a>(&'a self, effect: Effect<'a, u64>, what: &'static str) -> Effect<'a, u64> {
        effect.probe(move |_| self.find(what))
    }

    async fn find(&self, what: &str) -> Result<Probe<u64>, HandlerError> {
        let entries = self.ledger.entries().await?;
        let found = entries.into_iter().find(|entry| entry.text == what);
        Ok(found.map_or(Probe::DidNotHappen, |entry| Probe::Landed(entry.number)))
    }

    async fn act(&self, key: Option<&str>, what: &str) -> Result<u64, HandlerError> {
        self.come_by(&format!("announced {what}")).await?;
        let number = self.ledger.post(key, what).await?.entry.number;
        self.come_by(&format!("performed {what}")).await?;
        Ok(number)
    }

    async fn come_by(&self, boundary: &str) -> Result<(), HandlerError> {
        let boundary = boundary.replace(' ', "-");
        let open = OpenOptions::new().create(true).append(true).open(self.shared.join("reached"));
        open.and_then(|mut file| writeln!(file, "{boundary}"))?;
        self.wait_until_let_go(&boundary).await?;
        Ok(())
    }

    async fn wait_until_let_go(&self, boundary: &str) -> io::Result<()> {
        while self.shared.join(format!("hold-{boundary}")).try_exists()? {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }
}
