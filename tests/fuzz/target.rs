//! What is fuzzed: a coordinator as a process of its own, on a real PostgreSQL, with an agent, jobs, and a worker that holds
//! a run, so that there is something to be right about. It is looked at after each case: a panic in its log, an end of its
//! process, and no connection or answer for a client that behaves are findings.
//!
//! Neighbours: the test kit owns the processes and the peers.

use std::{fs, net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, bail};
use futures_util::future::join_all;
use prost::Message as _;
use tenure_proto::v1::{
    self, attach_request::Message as Request, attach_response::Message as Response,
    worker_service_client::WorkerServiceClient,
};
use tenure_testkit::{Cluster, Peer, frame_message, throw_bytes};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::messages::Call;

/// What a client that behaves waits for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a case is waited for; what goes on is left. A stream of a worker goes on, and a silent connection does, too.
const CASE_WAIT: Duration = Duration::from_millis(500);
/// What stands in the log of a process that panicked.
const PANIC: &str = "panicked at";

const FLEET: &str =
    "schema = 1\n[agents.plain]\ncommand = [\"true\"]\n[agents.other]\ncommand = [\"true\"]\n";

/// What the coordinator knows, so that cases can name it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Known {
    pub(crate) texts: Vec<String>,
    pub(crate) secrets: Vec<Vec<u8>>,
    /// The first message of a worker's stream, as bytes.
    pub(crate) hello: Vec<u8>,
    /// A run that the worker holds, as bytes.
    pub(crate) run: Vec<u8>,
}

/// The coordinator.
pub(crate) struct Target {
    cluster: Cluster,
    address: SocketAddr,
    /// How much of its log was looked at.
    read_bytes: usize,
    /// It took no connection for the last case.
    refuses: bool,
}

impl Target {
    pub(crate) async fn start() -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("tenure");
        let cluster = Cluster::start(program).await?;
        let address = cluster.coordinator_address("c1")?;
        let fleet = cluster.directory().join("fleet.toml");
        fs::write(&fleet, FLEET)?;
        cluster.run(&["apply", &fleet.display().to_string()])?;
        Ok(Self { cluster, address, read_bytes: 0, refuses: false })
    }

    /// Registers a worker that is granted a run, and leaves both as they are.
    pub(crate) async fn prepare_known(&self) -> Result<Known> {
        let channel = Channel::from_shared(self.cluster.endpoint("c1")?)?.connect().await?;
        let mut workers = WorkerServiceClient::new(channel);
        let request = v1::RegisterWorkerRequest {
            name: "w1".into(),
            slots: 10_000,
            ttl: Some(prost_types::Duration { seconds: 300, nanos: 0 }),
            fencing: v1::Fencing::Kernel.into(),
            version: "fuzz".into(),
            ..Default::default()
        };
        let term = workers.register_worker(request).await?.into_inner();
        let hello = v1::AttachHello {
            worker: "w1".into(),
            term: term.term,
            secret: term.secret.clone(),
            runs: Vec::new(),
        };
        let hello = v1::AttachRequest { message: Some(Request::Hello(hello)) };
        let mut texts: Vec<String> = ["plain", "other", "w1", "default"].map(str::to_owned).into();
        for n in 0..8 {
            let job = self.cluster.run(&["submit", "plain", "--key", &format!("k{n}")])?;
            texts.push(job.trim().to_owned());
        }
        let grant = take_grant(&mut workers, hello.clone()).await?;
        let run = grant.run.context("a grant names its run")?;
        texts.push(run.job_id.clone());
        Ok(Known {
            texts,
            secrets: vec![term.secret.into(), grant.secret.into()],
            hello: hello.encode_to_vec(),
            run: run.encode_to_vec(),
        })
    }

    /// Throws these at the same time, each at a connection of its own.
    pub(crate) async fn throw_bytes(&mut self, cases: &[Vec<u8>]) {
        let thrown = join_all(cases.iter().map(|case| throw_bytes(self.address, case, CASE_WAIT))).await;
        self.refuses = thrown.iter().any(Result::is_err);
    }

    /// The same with calls. How many were carried out.
    pub(crate) async fn throw_calls(&mut self, calls: &[Call]) -> u64 {
        let thrown = join_all(calls.iter().map(|call| throw_call(self.address, call))).await;
        self.refuses = thrown.iter().any(Option::is_none);
        thrown.into_iter().flatten().map(u64::from).sum()
    }

    /// True where a client that behaves is answered.
    pub(crate) async fn serves(&self) -> bool {
        let asked = async {
            let mut peer = Peer::connect(self.address, 65_535).await?;
            peer.call("/tenure.v1.JobService/ListJobs", frame_message(&[])).await
        };
        let answered = timeout(PATIENCE, asked).await;
        let serves = matches!(&answered, Ok(Ok(answered)) if answered.grpc_code() == Some(0));
        if !serves {
            println!("found: a client that behaves is not served: {answered:?}");
        }
        serves
    }

    /// What is found since the last look.
    pub(crate) fn look(&mut self) -> Result<Option<String>> {
        let log = fs::read(self.cluster.log_path("c1"))?;
        let news = String::from_utf8_lossy(&log[self.read_bytes.min(log.len())..]).into_owned();
        self.read_bytes = log.len();
        if let Some(line) = news.lines().find(|line| line.contains(PANIC)) {
            return Ok(Some(line.to_owned()));
        }
        if self.refuses {
            return Ok(Some("the coordinator takes no connection".to_owned()));
        }
        Ok(None)
    }

    /// Copies the logs to where they outlive the run, and says where.
    pub(crate) fn keep_logs(&self) -> Result<()> {
        let kept = std::env::temp_dir().join(format!("tenure-fuzz-logs-{}", std::process::id()));
        self.cluster.keep_logs(&kept)?;
        println!("the logs are in {}", kept.display());
        Ok(())
    }
}

/// True where it was carried out; none where there was no connection.
async fn throw_call(address: SocketAddr, call: &Call) -> Option<bool> {
    let mut peer = Peer::connect(address, 65_535).await.ok()?;
    // What the transport refuses, and what goes on, is as good an answer as any.
    let answered = timeout(CASE_WAIT, peer.call(&call.path, call.body.clone())).await;
    Some(answered.is_ok_and(|answered| answered.is_ok_and(|answered| answered.grpc_code() == Some(0))))
}

async fn take_grant(
    workers: &mut WorkerServiceClient<Channel>,
    hello: v1::AttachRequest,
) -> Result<v1::Grant> {
    let (outbound, messages) = mpsc::channel(4);
    let credits =
        v1::AttachRequest { message: Some(Request::Credits(v1::Credits { more: 4, withdrawn: false })) };
    outbound.send(hello).await?;
    outbound.send(credits).await?;
    let mut inbound = workers.attach(ReceiverStream::new(messages)).await?.into_inner();
    while let Some(message) = timeout(PATIENCE, inbound.message()).await?? {
        if let Some(Response::Grant(grant)) = message.message {
            return Ok(grant);
        }
    }
    bail!("the stream ended without a grant")
}
