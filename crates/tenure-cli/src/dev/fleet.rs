//! The fleet of `tenure dev`: one coordinator and its workers, from their start to their orderly end: workers first, so
//! that their last reports find a coordinator.

use std::{
    collections::BTreeSet,
    future::poll_fn,
    io,
    net::SocketAddr,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::ExitStatus,
    task::Poll,
    time::Duration,
};

use jiff::Timestamp;

use tenure_client::{Client, ClientError};
use tenure_core::{reason::Reason, refusal::Refusal};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::timeout,
};

use crate::{apply::apply_to, context::Context, dev::child::Part, failure::Failure, shutdown::StopSignals};

/// How long the parts may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How often it is looked whether the workers are there.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The parts, running.
pub(super) struct Fleet {
    coordinator: Part,
    workers: Vec<Part>,
    endpoint: String,
    directory: PathBuf,
}

impl Fleet {
    /// Starts the parts, and returns when a coordinator is ready and every worker is registered.
    pub(super) async fn start(
        database_url: &str,
        directory: &Path,
        listen: SocketAddr,
        workers: u32,
    ) -> Result<Self, Failure> {
        let logs = make_logs(directory)?;
        let (coordinator, endpoint) =
            start_coordinator(database_url, listen, &directory.join("blobs"), logs.join("coordinator.log"))
                .await?;
        // The database's clock is this machine's.
        let since = Timestamp::now();
        let mut fleet = Self { coordinator, workers: Vec::new(), endpoint, directory: directory.to_owned() };
        for number in 1..=workers {
            let worker = fleet.start_worker(&format!("dev-{number}"))?;
            fleet.workers.push(worker);
        }
        fleet.wait_for_workers(since, workers).await?;
        Ok(fleet)
    }

    /// Where it is asked.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Applies a fleet file to it.
    pub(super) async fn apply(&self, context: &Context, file: &Path) -> Result<(), Failure> {
        apply_to(context, &self.client()?, file, false).await
    }

    /// Serves until a signal, or until a part ends by itself, and stops the rest.
    pub(super) async fn serve(mut self, context: &Context, signals: &mut StopSignals) -> Result<(), Failure> {
        let served = self.serve_until_stopped(context, signals).await;
        context.printer.remark("stopping; what still runs has its grace, unless Ctrl-C is pressed again");
        loop {
            for worker in &self.workers {
                worker.ask_to_stop();
            }
            tokio::select! {
                () = wait_for_all(&mut self.workers) => break,
                () = signals.next() => {}
            }
        }
        self.coordinator.ask_to_stop();
        let _ended = self.coordinator.wait().await;
        served
    }

    /// A worker that somebody killed is started again, as a supervisor would: killing one is what a curious person does
    /// first.
    async fn serve_until_stopped(
        &mut self,
        context: &Context,
        signals: &mut StopSignals,
    ) -> Result<(), Failure> {
        loop {
            let (place, ended) = tokio::select! {
                () = signals.next() => return Ok(()),
                ended = self.coordinator.wait() => return Err(self.coordinator.failure(&ended)),
                ended = first_end(&mut self.workers) => ended,
            };
            let worker = &self.workers[place];
            if !ended.as_ref().is_ok_and(|status| status.signal().is_some()) {
                return Err(worker.failure(&ended));
            }
            let name = worker.name.clone();
            context.printer.remark(&format!("worker {name} was killed; it is started again"));
            self.workers[place] = self.start_worker(&name)?;
        }
    }

    fn start_worker(&self, name: &str) -> Result<Part, Failure> {
        let log = self.directory.join("logs").join(format!("worker-{name}.log"));
        Part::start(name, log, |command| {
            command.args(["worker", "--endpoint", &self.endpoint, "--name", name, "--data-dir"]);
            command.arg(self.directory.join("workers").join(name)).stdout(std::process::Stdio::null());
        })
    }

    async fn wait_for_workers(&mut self, since: Timestamp, wanted: u32) -> Result<(), Failure> {
        let client = self.client()?;
        let registered = timeout(READY_WITHIN, wait_until_registered(&client, since, wanted));
        tokio::select! {
            registered = registered => match registered {
                Ok(registered) => Ok(registered?),
                Err(_elapsed) => Err(not_in_time("workers are not registered")),
            },
            (place, ended) = first_end(&mut self.workers) => Err(self.workers[place].failure(&ended)),
        }
    }

    fn client(&self) -> Result<Client, ClientError> {
        Client::connect(&[&self.endpoint])
    }
}

/// Starts the coordinator, and returns when it says where it listens.
async fn start_coordinator(
    database_url: &str,
    listen: SocketAddr,
    blobs: &Path,
    log: PathBuf,
) -> Result<(Part, String), Failure> {
    let mut coordinator = Part::start("coordinator", log, |command| {
        command.args(["coordinator", "--json", "--http", "127.0.0.1:0", "--listen", &listen.to_string()]);
        command.env("TENURE_DATABASE_URL", database_url).arg("--blobs").arg(blobs);
    })?;
    let mut line = String::new();
    if let Some(stdout) = coordinator.take_stdout() {
        let mut stdout = BufReader::new(stdout);
        match timeout(READY_WITHIN, stdout.read_line(&mut line)).await {
            Ok(read) => read?,
            Err(_elapsed) => return Err(not_in_time("the coordinator is not ready")),
        };
    }
    match serde_json::from_str::<serde_json::Value>(&line)
        .ok()
        .and_then(|said| said["listen"].as_str().map(String::from))
    {
        Some(address) => Ok((coordinator, format!("http://{address}"))),
        None => {
            let ended = coordinator.wait().await;
            Err(coordinator.failure(&ended))
        }
    }
}

/// Refuses a port that is taken, before anything is started: the coordinator would say so to its log alone.
pub(super) fn check_port(listen: SocketAddr) -> Result<(), Failure> {
    match std::net::TcpListener::bind(listen) {
        Ok(_free) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let refusal =
                Refusal::new(Reason::PortInUse, format!("listening on {listen}, which another process uses"))
                    .with_next("tenure dev --listen 127.0.0.1:0");
            Err(Failure::caused(refusal, &error))
        }
        Err(error) => Err(Failure::caused(
            Refusal::new(Reason::InvalidArgument, format!("listening on {listen}")),
            &error,
        )),
    }
}

/// Terms of an earlier start may still be open; those lapse by themselves and do not count.
async fn wait_until_registered(client: &Client, since: Timestamp, wanted: u32) -> Result<(), ClientError> {
    loop {
        let page = client.list_workers(0, None).await?;
        let registered: BTreeSet<_> = page
            .workers
            .iter()
            .filter(|worker| worker.closed_at.is_none() && worker.registered_at >= since)
            .map(|worker| &worker.name)
            .collect();
        if registered.len() >= usize::try_from(wanted).unwrap_or(usize::MAX) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn not_in_time(what: &str) -> Failure {
    let message = format!("{what} after {} s", READY_WITHIN.as_secs());
    Failure::new(Reason::CoordinatorUnavailable, message)
}

/// The place of the first part that ends, and how it ended.
async fn first_end(parts: &mut [Part]) -> (usize, io::Result<ExitStatus>) {
    let mut waits: Vec<_> = parts.iter_mut().map(|part| Box::pin(part.wait())).collect();
    poll_fn(|waker| {
        let mut ended = waits.iter_mut().map(|wait| wait.as_mut().poll(waker)).enumerate();
        ended
            .find_map(|(place, ended)| match ended {
                Poll::Ready(ended) => Some(Poll::Ready((place, ended))),
                Poll::Pending => None,
            })
            .unwrap_or(Poll::Pending)
    })
    .await
}

/// An empty directory for the logs of this start.
fn make_logs(directory: &Path) -> Result<PathBuf, Failure> {
    let logs = directory.join("logs");
    let removed = match std::fs::remove_dir_all(&logs) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    };
    removed.and_then(|()| std::fs::create_dir_all(&logs)).map_err(|error| {
        Failure::caused(Refusal::new(Reason::Internal, format!("making {}", logs.display())), &error)
    })?;
    Ok(logs)
}

async fn wait_for_all(parts: &mut [Part]) {
    for part in parts {
        let _ended = part.wait().await;
    }
}
