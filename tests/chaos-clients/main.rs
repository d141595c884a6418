//! What a crowd of clients without a credential costs a valid one: the same calls are timed alone and beside the crowd, turn
//! by turn, and the slowest in a hundred are compared. Each of the crowd calls in a loop, on a connection of its own, and
//! asks again as soon as it is refused.
//!
//! Prints one line of JSON. Ends with 0 only where the valid client's 99th percentile beside the crowd is at most twice what
//! it is alone, in the middle one of the rounds, and where the crowd was only ever refused. That none of its calls reaches the
//! database is a test of the coordinator's, which counts statements.
//!
//! Neighbours: the test kit owns the processes.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use serde_json::json;
use tenure_core::{credential::Token, id::Tenant};
use tenure_proto::{
    caller::CallerMetadata,
    v1::{ListJobsRequest, job_service_client::JobServiceClient},
};
use tenure_testkit::Cluster;
use tonic::{
    Code,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

/// Rounds of both kinds; the middle one counts.
const ROUNDS: usize = 3;
/// What the crowd may cost.
const RATIO_MAX: f64 = 2.0;

/// Compare a valid client alone with the same one beside a crowd without credentials
#[derive(Debug, Parser)]
#[command(name = "chaos-clients")]
struct Arguments {
    /// How many clients have no credential.
    #[arg(long, default_value_t = 300)]
    clients: usize,
    /// How many calls of the valid client are timed in each round.
    #[arg(long, default_value_t = 2_000)]
    calls: usize,
}

type Jobs = JobServiceClient<InterceptedService<Channel, CallerMetadata>>;

#[tokio::main]
async fn main() -> ExitCode {
    match compare(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos-clients: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn compare(arguments: &Arguments) -> Result<bool> {
    let cluster = Cluster::start_guarded(program()?).await?;
    let address = format!("http://{}", cluster.coordinator_address("c1")?);
    let token = cluster.token().and_then(Token::parse).context("the cluster has no token")?;
    let tenant: Tenant = "default".parse()?;
    let mut valid = connect(&address, CallerMetadata::new(Some(&token), Some(&tenant)))?;
    // Plans, connections and code are warm before anything is timed.
    time_calls(&mut valid, arguments.calls).await?;
    let (mut rounds, mut refused) = (Vec::with_capacity(ROUNDS), 0);
    for _ in 0..ROUNDS {
        let alone = time_calls(&mut valid, arguments.calls).await?;
        let crowd = Crowd::gather(&address, arguments.clients)?;
        crowd.wait_until_all_called().await;
        let beside = time_calls(&mut valid, arguments.calls).await?;
        refused += crowd.disperse().await?;
        rounds.push((beside.as_secs_f64() / alone.as_secs_f64(), alone, beside));
    }
    rounds.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (ratio, alone, beside) = rounds[ROUNDS / 2];
    let held = ratio <= RATIO_MAX;
    let summary = json!({
        "chaos": "clients",
        "clients": arguments.clients,
        "calls_refused": refused,
        "p99_alone_us": alone.as_micros(),
        "p99_beside_us": beside.as_micros(),
        "ratio": (ratio * 100.0).round() / 100.0,
        "ratios": rounds.iter().map(|round| (round.0 * 100.0).round() / 100.0).collect::<Vec<_>>(),
        "held": held,
    });
    println!("{summary}");
    Ok(held)
}

/// The `tenure` that was built beside this program.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    Ok(own.with_file_name("tenure"))
}

fn connect(address: &str, caller: CallerMetadata) -> Result<Jobs> {
    let channel = Endpoint::from_shared(address.to_owned())?.connect_lazy();
    Ok(JobServiceClient::new(InterceptedService::new(channel, caller)))
}

/// The 99th percentile of so many calls, one after the other.
async fn time_calls(jobs: &mut Jobs, calls: usize) -> Result<Duration> {
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let begun = Instant::now();
        jobs.list_jobs(ListJobsRequest { limit: 10, ..ListJobsRequest::default() }).await?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times.get(calls * 99 / 100).copied().context("no call was timed")
}

/// Clients without a credential, calling.
struct Crowd {
    leaving: Arc<AtomicBool>,
    first_calls: Arc<AtomicU64>,
    clients: Vec<tokio::task::JoinHandle<Result<u64>>>,
}

impl Crowd {
    fn gather(address: &str, count: usize) -> Result<Self> {
        let (leaving, first_calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients = (0..count)
            .map(|_| {
                let jobs = connect(address, CallerMetadata::default())?;
                Ok(tokio::spawn(call_until_left(jobs, leaving.clone(), first_calls.clone())))
            })
            .collect::<Result<_>>()?;
        Ok(Self { leaving, first_calls, clients })
    }

    async fn wait_until_all_called(&self) {
        while self.first_calls.load(Ordering::Relaxed) < self.clients.len() as u64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends it; returns how often it was refused.
    async fn disperse(self) -> Result<u64> {
        self.leaving.store(true, Ordering::Relaxed);
        let mut refused = 0;
        for client in self.clients {
            refused += client.await??;
        }
        Ok(refused)
    }
}

async fn call_until_left(
    mut jobs: Jobs,
    leaving: Arc<AtomicBool>,
    first_calls: Arc<AtomicU64>,
) -> Result<u64> {
    let mut refused = 0;
    while !leaving.load(Ordering::Relaxed) {
        let answer = jobs.list_jobs(ListJobsRequest::default()).await;
        let code = answer.map(|_| Code::Ok).unwrap_or_else(|status| status.code());
        ensure!(code == Code::Unauthenticated, "a client without a credential was answered {code:?}");
        if refused == 0 {
            first_calls.fetch_add(1, Ordering::Relaxed);
        }
        refused += 1;
    }
    Ok(refused)
}
