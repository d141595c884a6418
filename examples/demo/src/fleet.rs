//! The fleet of the demo: what it is given to do, and the gates at which its agents wait. The processes themselves are
//! the test kit's; what they claim about themselves is not believed (see `evidence`).

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use tenure_testkit::Cluster;

use crate::repository::Repository;

/// More slots than there are jobs, so that one is always free for a handover; and the shortest term that there is, so
/// that what nobody saw is also found soon.
const WORKER_ARGUMENTS: &[&str] = &["--slots", "12", "--ttl", "5s"];
/// Longer than any part of the demo takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A job of the demo.
pub(crate) struct DemoJob {
    /// Its id.
    pub(crate) id: uuid::Uuid,
    /// The commit that it writes notes for.
    pub(crate) commit: String,
}

/// The cluster and the demo's own files.
pub(crate) struct Fleet {
    /// The processes and their database.
    pub(crate) cluster: Cluster,
    directory: PathBuf,
}

impl Fleet {
    /// Starts a coordinator and two workers, and applies the fleet file.
    pub(crate) async fn start(directory: &Path, repository: &Repository) -> Result<Self> {
        for name in ["heartbeats", "gates"] {
            fs::create_dir(directory.join(name))?;
        }
        let program = std::env::current_exe()?.with_file_name("tenure");
        let mut fleet = Self { cluster: Cluster::start(program).await?, directory: directory.to_owned() };
        fleet.apply(repository)?;
        fleet.start_worker("w1")?;
        fleet.start_worker("w2")?;
        Ok(fleet)
    }

    /// Fills in the places of this demo's directories.
    fn apply(&self, repository: &Repository) -> Result<()> {
        let mut file: toml::Table = toml::from_str(include_str!("../fleet.toml"))?;
        let env =
            file["agents"]["release-notes"]["env"].as_table_mut().context("the fleet file has no env")?;
        for (name, path) in [
            ("REMOTE", repository.path().to_owned()),
            ("HEARTBEATS", self.heartbeats()),
            ("GATES", self.directory.join("gates")),
        ] {
            env.insert(name.into(), path.display().to_string().into());
        }
        let path = self.directory.join("fleet.toml");
        fs::write(&path, toml::to_string(&file)?)?;
        self.cluster.run(&["apply", &path.display().to_string()])?;
        Ok(())
    }

    /// Starts one more worker.
    pub(crate) fn start_worker(&mut self, name: &str) -> Result<()> {
        self.cluster.start_worker(name, WORKER_ARGUMENTS)
    }

    /// Submits one job for each commit.
    pub(crate) fn submit_all(&self, commits: &[String]) -> Result<Vec<DemoJob>> {
        let submit = |commit: &String| -> Result<DemoJob> {
            let id = self.cluster.run(&["submit", "release-notes", "--input", commit, "--key", commit])?;
            Ok(DemoJob { id: id.trim().parse()?, commit: commit.clone() })
        };
        commits.iter().map(submit).collect()
    }

    /// Lets the agents that wait at a gate go on.
    pub(crate) fn open_gate(&self, name: &str) -> Result<()> {
        Ok(fs::write(self.directory.join("gates").join(name), "")?)
    }

    /// Where the agents leave their heartbeats.
    pub(crate) fn heartbeats(&self) -> PathBuf {
        self.directory.join("heartbeats")
    }

    /// Waits until none of the jobs is ready or running any more.
    pub(crate) async fn wait_until_over(&self, jobs: &[DemoJob]) -> Result<()> {
        let ids: Vec<uuid::Uuid> = jobs.iter().map(|job| job.id).collect();
        let until = Instant::now() + PATIENCE;
        loop {
            let states: Vec<(String,)> =
                sqlx::query_as("SELECT state FROM jobs WHERE tenant = 'default' AND job = ANY($1)")
                    .bind(&ids)
                    .fetch_all(&self.cluster.database)
                    .await?;
            if states.len() == ids.len()
                && states.iter().all(|(state,)| state != "ready" && state != "running")
            {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("the jobs are not over: {states:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Copies the logs to where they outlive the demo, and says where.
    pub(crate) fn keep_logs(&self) -> Result<()> {
        let kept = std::env::temp_dir().join(format!("tenure-demo-logs-{}", std::process::id()));
        fs::create_dir_all(&kept)?;
        for name in ["c1", "w1", "w2", "w3", "w4"] {
            let log = self.cluster.log_path(name);
            if log.exists() {
                fs::copy(log, kept.join(format!("{name}.log")))?;
            }
        }
        eprintln!("demo: the logs are in {}", kept.display());
        Ok(())
    }
}
