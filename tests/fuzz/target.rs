//! What is fuzzed: a coordinator as a process of its own, on a real PostgreSQL, with an agent, jobs, and a worker that holds
//! a run, so that there is something to be right about; one that wants no credentials, or one that does. It is looked at after each case: a panic in its log, an end of its
//! process, and no connection or answer for a client that behaves are findings.
//!
//! Neighbours: the test kit owns the processes and the peers.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures_util::future::join_all;
use prost::Message as _;
use tenure_core::credential::Token;
use tenure_proto::{
    caller::CallerMetadata,
    v1::{
        self, attach_request::Message as Request, attach_response::Message as Response,
        worker_service_client::WorkerServiceClient,
    },
};
use tenure_testkit::{Answered, Cluster, Peer, frame_message, throw_bytes};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{service::interceptor::InterceptedService, transport::Channel};

use crate::{
    credential::{Credential, TENANT},
    messages::Call,
};

/// What a client that behaves waits for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a case is waited for; what goes on is left. A stream of a worker goes on, and a silent connection does, too.
const CASE_WAIT: Duration = Duration::from_millis(500);
/// The same for a call without a valid credential, whose refusal is held back for a second.
const REFUSAL_WAIT: Duration = Duration::from_millis(1_200);
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

/// The way to the coordinator.
type Way = InterceptedService<Channel, CallerMetadata>;

/// What was planted before the coordinator.
struct Planted {
    process: Child,
    log: PathBuf,
}

impl Drop for Planted {
    fn drop(&mut self) {
        // It ends with whoever wanted it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The coordinator.
pub(crate) struct Target {
    planted: Option<Planted>,
    cluster: Cluster,
    address: SocketAddr,
    /// How much of each log was looked at.
    read_bytes: [usize; 2],
    /// What came of the last cases that must not.
    wrong: Option<String>,
}

impl Target {
    /// One that wants no credentials.
    pub(crate) async fn start_open() -> Result<Self> {
        Self::with_cluster(Cluster::start(find_program()?).await?)
    }

    /// One that wants credentials.
    pub(crate) async fn start_guarded() -> Result<Self> {
        Self::with_cluster(Cluster::start_guarded(find_program()?).await?)
    }

    fn with_cluster(cluster: Cluster) -> Result<Self> {
        let address = cluster.coordinator_address("c1")?;
        let fleet = cluster.directory().join("fleet.toml");
        fs::write(&fleet, FLEET)?;
        cluster.run(&["apply", &fleet.display().to_string()])?;
        Ok(Self { planted: None, cluster, address, read_bytes: [0; 2], wrong: None })
    }

    /// Plants a fault before the coordinator.
    pub(crate) fn plant(&mut self) -> Result<()> {
        let log = self.cluster.directory().join("planted.log");
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--stand-before", &self.address.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log)?)
            .spawn()
            .context("planting a fault")?;
        let said = process.stdout.take().context("it says where it is")?;
        self.planted = Some(Planted { process, log });
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        self.address = line.trim().parse().context("reading where the fault is")?;
        Ok(())
    }

    /// What the cluster's own clients bear.
    fn caller(&self) -> CallerMetadata {
        let token = self.cluster.token().and_then(Token::parse);
        let tenant = token.as_ref().and_then(|_| TENANT.parse().ok());
        CallerMetadata::new(token.as_ref(), tenant.as_ref())
    }

    /// Registers a worker that is granted a run, and leaves both as they are.
    pub(crate) async fn prepare_known(&self) -> Result<Known> {
        let channel = Channel::from_shared(self.cluster.endpoint("c1")?)?.connect().await?;
        let mut workers = WorkerServiceClient::with_interceptor(channel, self.caller());
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
        self.wrong = thrown.iter().any(Result::is_err).then(refuse_connections);
    }

    /// The same with calls. How many were carried out.
    pub(crate) async fn throw_calls(&mut self, calls: &[Call]) -> u64 {
        let token = self.cluster.token();
        let thrown = join_all(calls.iter().map(|call| throw_call(self.address, token, call))).await;
        self.wrong = thrown.iter().any(Option::is_none).then(refuse_connections);
        let accepted: Vec<&Call> = calls
            .iter()
            .zip(&thrown)
            .filter(|(_, thrown)| **thrown == Some(true))
            .map(|(call, _)| call)
            .collect();
        if let Some(call) =
            accepted.iter().find(|call| token.is_some() && !call.credential.suffices(&call.path))
        {
            let words =
                format!("{} was carried out with a credential that is {}", call.path, call.credential.word());
            self.wrong = Some(words);
        }
        accepted.len() as u64
    }

    /// How many of these calls bear less than this coordinator wants.
    pub(crate) fn count_unauthenticated(&self, calls: &[Call]) -> u64 {
        let short = |call: &&Call| self.cluster.token().is_some() && !call.credential.suffices(&call.path);
        calls.iter().filter(short).count() as u64
    }

    /// True where a client that behaves is answered.
    pub(crate) async fn serves(&self) -> bool {
        let asked = async {
            let mut peer = Peer::connect(self.address, 65_535).await?;
            let metadata = self.cluster.token().map(|token| Credential::Valid.metadata(token));
            call_with(&mut peer, "/tenure.v1.JobService/ListJobs", frame_message(&[]), metadata).await
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
        let planted = self.planted.as_ref().map(|planted| planted.log.clone());
        let logs = [Some(self.cluster.log_path("c1")), planted];
        for (path, read_bytes) in logs.iter().zip(&mut self.read_bytes) {
            let Some(path) = path else { continue };
            let log = fs::read(path)?;
            let news = String::from_utf8_lossy(&log[(*read_bytes).min(log.len())..]).into_owned();
            *read_bytes = log.len();
            if let Some(line) = news.lines().find(|line| line.contains(PANIC)) {
                return Ok(Some(line.to_owned()));
            }
        }
        Ok(self.wrong.take())
    }

    /// Copies the logs to where they outlive the run, and says where.
    pub(crate) fn keep_logs(&self) -> Result<()> {
        let wants = if self.cluster.token().is_some() { "guarded" } else { "open" };
        let kept = std::env::temp_dir().join(format!("tenure-fuzz-logs-{}-{wants}", std::process::id()));
        self.cluster.keep_logs(&kept)?;
        println!("the logs are in {}", kept.display());
        Ok(())
    }
}

fn find_program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("tenure"))
}

fn refuse_connections() -> String {
    "the coordinator takes no connection".to_owned()
}

/// True where it was carried out; none where there was no connection.
async fn throw_call(address: SocketAddr, token: Option<&str>, call: &Call) -> Option<bool> {
    let mut peer = Peer::connect(address, 65_535).await.ok()?;
    let metadata = token.map(|token| call.credential.metadata(token));
    let within =
        if token.is_none() || call.credential.suffices(&call.path) { CASE_WAIT } else { REFUSAL_WAIT };
    // What the transport refuses, and what goes on, is as good an answer as any.
    let answered = timeout(within, call_with(&mut peer, &call.path, call.body.clone(), metadata)).await;
    Some(answered.is_ok_and(|answered| answered.is_ok_and(|answered| answered.grpc_code() == Some(0))))
}

async fn call_with(
    peer: &mut Peer,
    path: &str,
    body: Bytes,
    metadata: Option<Vec<(&'static str, String)>>,
) -> Result<Answered> {
    let metadata = metadata.unwrap_or_default();
    let metadata: Vec<(&str, &str)> = metadata.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut call = peer.begin(path, &metadata).await?;
    // An answer may come before everything is sent; then the rest is not wanted.
    let _ = call.sending.send_data(body, true);
    call.answer().await
}

async fn take_grant(workers: &mut WorkerServiceClient<Way>, hello: v1::AttachRequest) -> Result<v1::Grant> {
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
