//! The fleet of the demo: two coordinators, three workers, a ledger, what they are given to do, and the gates at which the
//! agents wait. One worker reaches its coordinator through a proxy, so that what it has to say can be held up. The
//! processes themselves are the test kit's; what they claim about themselves is not believed (see `evidence`).

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use tenure_testkit::{Answer, Cluster, Heartbeats, Ledger, Proxy, Submitted, find_program};
use uuid::Uuid;

use crate::repository::Repository;

/// The shortest term that there is, so that what nobody saw is also found soon.
pub(crate) const TTL: Duration = Duration::from_secs(5);
/// Longer than any part of the demo takes.
const PATIENCE: Duration = Duration::from_secs(180);
/// The worker whose words can be held up.
pub(crate) const BEHIND_PROXY: &str = "w2";

/// A job of the demo.
pub(crate) struct DemoJob {
    /// Its id.
    pub(crate) id: Uuid,
    /// The commit that it writes notes for.
    pub(crate) commit: String,
}

/// The cluster, the ledger and the demo's own files.
pub(crate) struct Fleet {
    /// The processes and their database.
    pub(crate) cluster: Cluster,
    /// Between the worker `BEHIND_PROXY` and its coordinator, `c2`.
    pub(crate) proxy: Proxy,
    /// Somebody else's service.
    pub(crate) ledger: Ledger,
    directory: PathBuf,
    slots: String,
}

impl Fleet {
    /// Starts the ledger, two coordinators and three workers, and applies the fleet file.
    pub(crate) async fn start(directory: &Path, repository: &Repository, jobs: usize) -> Result<Self> {
        for name in ["heartbeats", "gates", "noted"] {
            fs::create_dir(directory.join(name))?;
        }
        let program = find_program("tenure")?;
        let mut cluster = Cluster::start(program).await?;
        cluster.start_coordinator("c2").await?;
        let proxy = Proxy::start(cluster.coordinator_address("c2")?).await?;
        let ledger = Ledger::start(&directory.join("ledger.jsonl")).await?;
        // Two workers have room for all, so that one slot is always free for a handover while the third is away.
        let slots = jobs.div_ceil(2).to_string();
        let mut fleet = Self { cluster, proxy, ledger, directory: directory.to_owned(), slots };
        fleet.apply(repository)?;
        for name in ["w1", "w2", "w3"] {
            fleet.start_worker(name)?;
        }
        fleet.wait_for_workers(3).await?;
        Ok(fleet)
    }

    /// Fills in the places of this demo's directories.
    fn apply(&self, repository: &Repository) -> Result<()> {
        let mut file: toml::Table = toml::from_str(include_str!("../fleet.toml"))?;
        let env =
            file["agents"]["release-notes"]["env"].as_table_mut().context("the fleet file has no env")?;
        let ledger_program = find_program("tenure-ledger")?;
        for (name, value) in [
            ("REMOTE", repository.path().display().to_string()),
            ("HEARTBEATS", self.heartbeats().directory().display().to_string()),
            ("GATES", self.directory.join("gates").display().to_string()),
            ("NOTED", self.noted().display().to_string()),
            ("LEDGER", ledger_program.display().to_string()),
            ("LEDGER_URL", self.ledger.url()),
        ] {
            env.insert(name.into(), value.into());
        }
        let path = self.directory.join("fleet.toml");
        fs::write(&path, toml::to_string(&file)?)?;
        self.cluster.run(&["apply", &path.display().to_string()])?;
        Ok(())
    }

    /// Starts one more worker.
    pub(crate) fn start_worker(&mut self, name: &str) -> Result<()> {
        let ttl = format!("{}s", TTL.as_secs());
        let arguments = ["--slots", self.slots.as_str(), "--ttl", ttl.as_str()];
        if name == BEHIND_PROXY {
            self.cluster.start_worker_at(name, &self.proxy.endpoint(), &arguments)
        } else {
            self.cluster.start_worker(name, &arguments)
        }
    }

    /// Waits until so many workers have open terms.
    async fn wait_for_workers(&self, wanted: i64) -> Result<()> {
        self.wait_for_count(wanted, "open terms", "SELECT count(*) FROM terms WHERE closed_at IS NULL").await
    }

    /// Waits until a count in the database is at least this.
    pub(crate) async fn wait_for_count(&self, wanted: i64, of_what: &str, query: &'static str) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            // The database may be away for a moment: that is one of the faults.
            let counted = sqlx::query_as::<_, (i64,)>(query).fetch_one(&self.cluster.database).await;
            match counted {
                Ok((count,)) if count >= wanted => return Ok(()),
                Ok(_) | Err(_) if Instant::now() < until => {}
                Ok((count,)) => bail!("waited for {wanted} {of_what}, and there are {count}"),
                Err(error) => return Err(error).with_context(|| format!("counting {of_what}")),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Submits one job for each commit.
    pub(crate) fn submit_all(&self, commits: &[String]) -> Result<Vec<DemoJob>> {
        let submit = |commit: &String| -> Result<DemoJob> {
            let mark = format!("submission={commit}");
            let arguments = ["submit", "release-notes", "--input", commit, "--key", commit, "--label", &mark];
            let id = self.cluster.run(&arguments)?;
            Ok(DemoJob { id: id.trim().parse()?, commit: commit.clone() })
        };
        commits.iter().map(submit).collect()
    }

    /// What the submitter was told, for whoever checks it.
    pub(crate) fn submitted(jobs: &[DemoJob]) -> Vec<Submitted> {
        let told =
            |job: &DemoJob| Submitted { mark: job.commit.clone(), answer: Answer::Acknowledged(job.id) };
        jobs.iter().map(told).collect()
    }

    /// Lets the agents that wait at a gate go on.
    pub(crate) fn open_gate(&self, name: &str) -> Result<()> {
        Ok(fs::write(self.directory.join("gates").join(name), "")?)
    }

    /// Where the agents leave their heartbeats.
    pub(crate) fn heartbeats(&self) -> Heartbeats {
        Heartbeats::new(&self.directory.join("heartbeats"))
    }

    /// Where the agents write down which of their notes were acknowledged.
    pub(crate) fn noted(&self) -> PathBuf {
        self.directory.join("noted")
    }

    /// The ledger's file.
    pub(crate) fn ledger_path(&self) -> PathBuf {
        self.directory.join("ledger.jsonl")
    }

    /// Waits until none of the jobs is ready or running any more.
    pub(crate) async fn wait_until_over(&self, jobs: &[DemoJob]) -> Result<()> {
        let wanted = i64::try_from(jobs.len())?;
        let over = "SELECT count(*) FROM jobs WHERE state NOT IN ('ready', 'running')";
        self.wait_for_count(wanted, "jobs that are over", over).await
    }

    /// Copies the logs to where they outlive the demo, and says where.
    pub(crate) fn keep_logs(&self) -> Result<()> {
        let kept = std::env::temp_dir().join(format!("tenure-demo-logs-{}", std::process::id()));
        self.cluster.keep_logs(&kept)?;
        eprintln!("demo: the logs are in {}", kept.display());
        Ok(())
    }
}
