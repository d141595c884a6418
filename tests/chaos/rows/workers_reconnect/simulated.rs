//! A simulated worker: it speaks the real protocol over connections of its own, takes one run and holds it, attaches again
//! after jittered pauses as the real one does, and ends its run when it is told to. It starts no child.
//!
//! Whatever it may not survive (a closed term, a run that is taken away) is an error, and with it the row's.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rand::RngExt as _;
use tenure_core::limits;
use tenure_proto::v1::{
    AttachHello, AttachRequest, Credits, EndRun, Fencing, Grant, NotMine, RegisterWorkerRequest, Renew,
    RunEnd, RunRef, appended, attach_request::Message as Request, attach_response::Message as Response,
    renewed, run_end, worker_service_client::WorkerServiceClient,
};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};

/// Its term, and how often it is renewed. Longer than the default: all of them share one coordinator, of a build for tests, and a
/// host that simulates them too; what is to be seen is the herd, not how many renewals that host can do a second.
const TTL: Duration = Duration::from_secs(120);
const RENEW_EVERY: Duration = Duration::from_secs(TTL.as_secs() / 3);

/// One worker.
pub(super) struct Simulated {
    name: String,
    endpoint: String,
    /// Lets so many register at a time: how they come the first time is not the fault.
    door: Arc<Semaphore>,
    /// True once it is to end its run.
    told: watch::Receiver<bool>,
    /// How many workers have a run in their hands.
    holding: Arc<AtomicI64>,
    term: u64,
    secret: Vec<u8>,
    echo: u64,
    renewals: u64,
    held: Option<Held>,
}

struct Held {
    run: RunRef,
    seq: u64,
}

/// How a stream came to its end.
enum End {
    /// It broke: another one is to be opened.
    Lost,
    /// Its run has ended.
    Done,
}

impl Simulated {
    /// Nothing happens before [`Simulated::live`].
    pub(super) fn new(
        name: String,
        endpoint: String,
        door: Arc<Semaphore>,
        told: watch::Receiver<bool>,
        holding: Arc<AtomicI64>,
    ) -> Self {
        let (term, secret, echo, renewals, held) = (0, Vec::new(), 0, 0, None);
        Self { name, endpoint, door, told, holding, term, secret, echo, renewals, held }
    }

    /// Registers, and stays attached until its run has ended.
    ///
    /// # Errors
    /// Its term is closed, its run is taken from it, or it cannot be registered.
    pub(super) async fn live(mut self) -> Result<()> {
        self.register().await.with_context(|| format!("registering {}", self.name))?;
        let mut longest = limits::RECONNECT_FIRST;
        loop {
            if let End::Done = self.attach().await.with_context(|| format!("the worker {}", self.name))? {
                return Ok(());
            }
            wait_jittered(longest).await;
            longest = (longest * 2).min(limits::RECONNECT_MAX);
        }
    }

    async fn register(&mut self) -> Result<()> {
        let request = RegisterWorkerRequest {
            name: self.name.clone(),
            labels: vec!["simulated".to_owned()],
            agents: vec!["simulated".to_owned()],
            slots: 1,
            ttl: Some(prost_types::Duration { seconds: i64::try_from(TTL.as_secs())?, nanos: 0 }),
            fencing: Fencing::Kernel.into(),
            version: "simulated".to_owned(),
        };
        let door = Arc::clone(&self.door);
        let _entered = door.acquire().await?;
        let mut pauses = 0;
        let registered = loop {
            let answered = match self.connect().await {
                Ok(mut client) => client.register_worker(request.clone()).await.map_err(anyhow::Error::from),
                Err(error) => Err(error),
            };
            match answered {
                Ok(answer) => break answer.into_inner(),
                Err(error) if pauses == 10 => return Err(error),
                Err(_) => wait_jittered(limits::RECONNECT_MAX).await,
            }
            pauses += 1;
        };
        (self.term, self.echo) = (registered.term, registered.answer);
        self.secret = registered.secret.to_vec();
        Ok(())
    }

    async fn connect(&self) -> Result<WorkerServiceClient<Channel>> {
        let endpoint = Endpoint::from_shared(self.endpoint.clone())?.connect_timeout(limits::CONNECT_TIMEOUT);
        Ok(WorkerServiceClient::new(endpoint.connect().await?))
    }

    /// One stream, from its hello to its end.
    async fn attach(&mut self) -> Result<End> {
        let Ok(mut client) = self.connect().await else { return Ok(End::Lost) };
        let (outgoing, requests) = mpsc::unbounded_channel();
        let say = |message| {
            // Where the stream is gone, its other half says so.
            let _ = outgoing.send(AttachRequest { message: Some(message) });
        };
        say(Request::Hello(self.hello()));
        let Ok(attached) = client.attach(UnboundedReceiverStream::new(requests)).await else {
            return Ok(End::Lost);
        };
        let mut incoming = attached.into_inner();
        let mut renewals = tokio::time::interval(RENEW_EVERY);
        let mut told = self.told.clone();
        told.mark_changed();
        loop {
            tokio::select! {
                _ = renewals.tick() => say(Request::Renew(self.renew())),
                changed = told.changed() => {
                    changed?;
                    if let Some(end) = self.end_run() {
                        say(Request::EndRun(end));
                    }
                }
                message = incoming.message() => {
                    let Ok(Some(message)) = message else { return Ok(End::Lost) };
                    let Some(message) = message.message else { continue };
                    if matches!(message, Response::Appended(_)) && self.held.is_none() {
                        continue;
                    }
                    if let Some(end) = self.take(message, &say)? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    fn take(&mut self, message: Response, say: &impl Fn(Request)) -> Result<Option<End>> {
        match message {
            Response::Attached(_) => {
                say(Request::Credits(Credits { more: u32::from(self.held.is_none()), withdrawn: false }));
            }
            Response::Grant(grant) => self.take_grant(grant)?,
            Response::Renewed(answer) => {
                self.echo = answer.answer;
                if let Some(renewed::Outcome::Closed(_)) = answer.outcome {
                    bail!("its term was closed");
                }
            }
            Response::Appended(answer) => match answer.outcome {
                Some(appended::Outcome::Applied(_)) => return Ok(Some(End::Done)),
                other => bail!("the end of its run was answered with {other:?}"),
            },
            Response::LostGrants(lost) => {
                let mine = self.held.as_ref().map(|held| &held.run);
                for run in lost.runs.into_iter().filter(|run| Some(run) != mine) {
                    say(Request::NotMine(NotMine { run: Some(run) }));
                }
            }
            Response::Order(order) => bail!("it was ordered {order:?}"),
            Response::OutputWritten(_) | Response::CreditsWithdrawn(_) => {}
        }
        Ok(None)
    }

    fn take_grant(&mut self, grant: Grant) -> Result<()> {
        let run = grant.run.context("a grant without a run")?;
        if let Some(held) = &self.held {
            bail!("it holds {:?} and was granted {run:?}", held.run);
        }
        self.held = Some(Held { run, seq: grant.seq });
        self.holding.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn hello(&self) -> AttachHello {
        AttachHello {
            worker: self.name.clone(),
            term: self.term,
            secret: self.secret.clone().into(),
            runs: self.held.iter().map(|held| held.run.clone()).collect(),
        }
    }

    fn renew(&mut self) -> Renew {
        self.renewals += 1;
        Renew {
            echo: self.echo,
            runs: self.held.iter().map(|held| held.run.clone()).collect(),
            runs_given: true,
            no: self.renewals,
        }
    }

    /// The end of its run, once it is told to; the same again on a later stream.
    fn end_run(&self) -> Option<EndRun> {
        let held = self.held.as_ref().filter(|_| *self.told.borrow())?;
        Some(EndRun {
            run: Some(held.run.clone()),
            n: 1,
            acknowledged_seq: held.seq,
            end: Some(RunEnd { how: Some(run_end::How::ExitCode(0)) }),
            ..EndRun::default()
        })
    }
}

/// Waits for some time up to this, so that a thousand do not come back at once.
async fn wait_jittered(longest: Duration) {
    let ms = rand::rng().random_range(0..=u64::try_from(longest.as_millis()).unwrap_or(u64::MAX));
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
