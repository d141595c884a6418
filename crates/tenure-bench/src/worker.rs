//! The stand-in worker: it speaks the real protocol over a real stream, and its runner does nothing. It registers, attaches,
//! renews, wants runs, writes notes and ends runs as it is told; what a coordinator sees is a worker. It keeps no child and
//! no output, and it does not attach again: a stream that ends is the end of the measurement.
//! Neighbours: `runs` is what it holds; `records`, `jobs` and `idle` tell it what to do.

mod runs;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use futures_util::FutureExt as _;
use tenure_proto::v1::{
    self, attach_request::Message as Request, attach_response::Message as Response, renewed,
    worker_service_client::WorkerServiceClient,
};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Streaming, transport::Channel};

use runs::Runs;

/// The life of its term; it renews three times in it, as workers do.
const TTL_S: i64 = 30;
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How long any step may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// What it was told to do with the runs that it is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// End them at once, with exit code 0, and want as many more.
    EndAtOnce,
    /// Keep them.
    Hold,
}

/// What it has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Runs that were granted.
    pub(crate) granted: u64,
    /// When the last grant came.
    pub(crate) granted_at: Option<Instant>,
    /// Notes that were acknowledged.
    pub(crate) noted: u64,
    /// Ends that were acknowledged.
    pub(crate) ended: u64,
}

/// What it can be told later.
#[derive(Debug)]
enum Command {
    WriteNotes { each: u64, in_flight: u64 },
    EndRuns,
}

/// A worker that is attached. It leaves when this is dropped.
pub(crate) struct Worker {
    commands: mpsc::UnboundedSender<Command>,
    progress: watch::Receiver<Progress>,
    task: tokio::task::JoinHandle<Result<()>>,
}

impl Worker {
    /// Registers, attaches, and wants as many runs as it has slots.
    pub(crate) async fn attach(channel: Channel, name: &str, slots: u32, runner: Runner) -> Result<Self> {
        let mut client = WorkerServiceClient::new(channel);
        let registered = client.register_worker(introduce(name, slots)).await?.into_inner();
        let (outbound, messages) = mpsc::unbounded_channel();
        let hello = v1::AttachHello {
            worker: name.to_owned(),
            term: registered.term,
            secret: registered.secret,
            runs: Vec::new(),
        };
        let (published, progress) = watch::channel(Progress::default());
        let (commands, orders) = mpsc::unbounded_channel();
        let mut stand_in = StandIn {
            outbound,
            echo: registered.answer,
            renewals: 0,
            credits: slots,
            runner,
            runs: Runs::default(),
            progress: Progress::default(),
            published,
        };
        stand_in.say(Request::Hello(hello))?;
        let inbound = client.attach(UnboundedReceiverStream::new(messages)).await?.into_inner();
        Ok(Self { commands, progress, task: tokio::spawn(stand_in.serve(inbound, orders)) })
    }

    /// Has each of its runs write so many notes, of which so many may wait for their acknowledgement.
    pub(crate) fn write_notes(&self, each: u64, in_flight: u64) {
        // Where it has ended, whoever waits for its progress learns why.
        let _ = self.commands.send(Command::WriteNotes { each, in_flight });
    }

    /// Has all its runs end.
    pub(crate) fn end_runs(&self) {
        let _ = self.commands.send(Command::EndRuns);
    }

    /// What it has seen so far.
    pub(crate) fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Waits until it has seen enough.
    pub(crate) async fn wait_until(&mut self, enough: impl FnMut(&Progress) -> bool) -> Result<Progress> {
        let seen = tokio::time::timeout(PATIENCE, self.progress.wait_for(enough)).await;
        match seen.map(|seen| seen.map(|seen| *seen)) {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(_)) => {
                let ended = (&mut self.task).await?;
                Err(ended.err().unwrap_or_else(|| anyhow!("the worker left")))
            }
            Err(_) => bail!("the worker waited in vain; it had seen {:?}", self.progress()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn introduce(name: &str, slots: u32) -> v1::RegisterWorkerRequest {
    v1::RegisterWorkerRequest {
        name: name.to_owned(),
        labels: Vec::new(),
        agents: Vec::new(),
        slots,
        ttl: Some(prost_types::Duration { seconds: TTL_S, nanos: 0 }),
        fencing: v1::Fencing::Kernel.into(),
        version: "bench".to_owned(),
    }
}

struct StandIn {
    outbound: mpsc::UnboundedSender<v1::AttachRequest>,
    echo: u64,
    renewals: u64,
    credits: u32,
    runner: Runner,
    runs: Runs,
    progress: Progress,
    published: watch::Sender<Progress>,
}

impl StandIn {
    async fn serve(
        mut self,
        mut inbound: Streaming<v1::AttachResponse>,
        mut commands: mpsc::UnboundedReceiver<Command>,
    ) -> Result<()> {
        let mut renewals = tokio::time::interval(RENEW_EVERY);
        loop {
            tokio::select! {
                _ = renewals.tick() => self.renew()?,
                command = commands.recv() => match command {
                    Some(command) => self.obey(command)?,
                    None => return Ok(()),
                },
                message = inbound.message() => {
                    self.take(message?.context("the coordinator ended the stream")?)?;
                    // What came with it is taken before anybody is told.
                    while let Some(message) = inbound.message().now_or_never() {
                        self.take(message?.context("the coordinator ended the stream")?)?;
                    }
                    self.settle()?;
                }
            }
        }
    }

    fn say(&mut self, message: Request) -> Result<()> {
        self.outbound.send(v1::AttachRequest { message: Some(message) }).context("the stream is gone")
    }

    fn renew(&mut self) -> Result<()> {
        self.renewals += 1;
        let renew =
            v1::Renew { echo: self.echo, runs: self.runs.list(), runs_given: true, no: self.renewals };
        self.say(Request::Renew(renew))
    }

    fn obey(&mut self, command: Command) -> Result<()> {
        let messages = match command {
            Command::WriteNotes { each, in_flight } => self.runs.begin_notes(each, in_flight),
            Command::EndRuns => self.runs.end_all(),
        };
        messages.into_iter().try_for_each(|message| self.say(message))
    }

    fn take(&mut self, response: v1::AttachResponse) -> Result<()> {
        match response.message.context("a message of an unknown kind")? {
            Response::Grant(grant) => self.take_grant(grant),
            Response::Appended(appended) => self.take_answer(appended),
            Response::Renewed(renewed) => {
                self.echo = renewed.answer;
                let lives = matches!(renewed.outcome, Some(renewed::Outcome::Renewed(_)));
                ensure!(lives, "the term was not renewed: {renewed:?}");
                Ok(())
            }
            // Nothing is lost while the stream lives: what it does not hold is on its way, or over.
            Response::Attached(_) | Response::LostGrants(_) => Ok(()),
            other @ (Response::Order(_) | Response::OutputWritten(_) | Response::CreditsWithdrawn(_)) => {
                bail!("nothing of this measurement causes {other:?}")
            }
        }
    }

    fn take_grant(&mut self, grant: v1::Grant) -> Result<()> {
        self.progress.granted += 1;
        self.progress.granted_at = Some(Instant::now());
        let run = grant.run.context("a grant without its run")?;
        match self.runs.hold(run, grant.seq, self.runner == Runner::EndAtOnce) {
            Some(end) => self.say(end),
            None => Ok(()),
        }
    }

    fn take_answer(&mut self, appended: v1::Appended) -> Result<()> {
        let answered = self.runs.take_answer(appended)?;
        if answered.ended {
            self.progress.ended += 1;
            self.credits += 1;
        } else {
            self.progress.noted += 1;
        }
        answered.next.map_or(Ok(()), |next| self.say(next))
    }

    /// Wants runs for the slots that became free, and tells how far it is.
    fn settle(&mut self) -> Result<()> {
        if self.credits > 0 {
            let more = std::mem::take(&mut self.credits);
            self.say(Request::Credits(v1::Credits { more, withdrawn: false }))?;
        }
        self.published.send_replace(self.progress);
        Ok(())
    }
}
