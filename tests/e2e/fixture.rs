//! A fleet with one fleet file, and the questions that the tests ask of it. State is read from the database, not from
//! what the fleet says about itself.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use tenure_testkit::{Cluster, wait_for};
use uuid::Uuid;

/// Longer than anything here takes on a busy machine; no test asserts how long something took.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A cluster whose agents are applied.
pub(crate) struct Fleet {
    pub(crate) cluster: Cluster,
}

/// The `tenure` program that was built beside the tests.
pub(crate) fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.parent().unwrap().parent().unwrap().join("tenure");
    assert!(built.exists(), "{} is not there: cargo build --bin tenure", built.display());
    built
}

impl Fleet {
    /// Starts PostgreSQL, a coordinator and these workers, and applies a fleet file with these agents. In their text,
    /// `SHARED` stands for a directory that tests and agents share.
    pub(crate) async fn start(agents: &str, workers: &[(&str, &[&str])]) -> Self {
        let mut fleet = Self::with_cluster(Cluster::start(program()).await.unwrap(), agents);
        for (name, arguments) in workers {
            fleet.cluster.start_worker(name, arguments).unwrap();
        }
        fleet
    }

    /// A fleet on a cluster with a coordinator, with these agents applied.
    pub(crate) fn with_cluster(cluster: Cluster, agents: &str) -> Self {
        let fleet = Self { cluster };
        fs::create_dir(fleet.shared()).unwrap();
        fleet.apply(agents);
        fleet
    }

    /// The directory that tests and agents share.
    pub(crate) fn shared(&self) -> PathBuf {
        self.cluster.directory().join("shared")
    }

    /// Applies a fleet file with these agents.
    pub(crate) fn apply(&self, agents: &str) {
        let text = format!("schema = 1\n{}", agents.replace("SHARED", self.shared().to_str().unwrap()));
        let path = self.cluster.directory().join("fleet.toml");
        fs::write(&path, text).unwrap();
        self.cluster.run(&["apply", path.to_str().unwrap()]).unwrap();
    }

    /// Submits a job.
    pub(crate) fn submit(&self, agent: &str, input: &str) -> Uuid {
        self.cluster.run(&["submit", agent, "--input", input]).unwrap().trim().parse().unwrap()
    }

    /// Runs `tenure`, whatever becomes of it.
    pub(crate) fn try_run(&self, arguments: &[&str]) -> Output {
        self.cluster.tenure(arguments).output().unwrap()
    }

    /// The state in the job's row.
    pub(crate) async fn state(&self, job: Uuid) -> String {
        let row: (String,) = sqlx::query_as("SELECT state FROM jobs WHERE tenant = 'default' AND job = $1")
            .bind(job)
            .fetch_one(&self.cluster.database)
            .await
            .unwrap();
        row.0
    }

    /// Waits until the job is in this state.
    pub(crate) async fn wait_for_state(&self, job: Uuid, wanted: &str) {
        let what = format!("job {job} to be {wanted}");
        wait_for(&what, PATIENCE, async || match self.state(job).await {
            state if state == wanted => Ok(()),
            state => Err(format!("{state} after {:?}", self.kinds(job).await)),
        })
        .await;
    }

    /// The worker that holds the job's lease. Waits until one does.
    pub(crate) async fn wait_for_holder(&self, job: Uuid) -> String {
        wait_for("somebody to hold the job", PATIENCE, async || {
            let row: Option<(String,)> = sqlx::query_as(
                "SELECT worker FROM leases WHERE tenant = 'default' AND job = $1 AND released_at IS NULL",
            )
            .bind(job)
            .fetch_optional(&self.cluster.database)
            .await
            .unwrap();
            row.map(|(worker,)| worker).ok_or("nobody")
        })
        .await
    }

    /// The kinds of the job's records, in order.
    pub(crate) async fn kinds(&self, job: Uuid) -> Vec<String> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT kind FROM journal WHERE tenant = 'default' AND job = $1 ORDER BY seq")
                .bind(job)
                .fetch_all(&self.cluster.database)
                .await
                .unwrap();
        rows.into_iter().map(|(kind,)| kind).collect()
    }

    /// The texts of the job's notes, in order.
    pub(crate) async fn notes(&self, job: Uuid) -> Vec<String> {
        let rows: Vec<(Vec<u8>,)> = sqlx::query_as(
            "SELECT value FROM journal WHERE tenant = 'default' AND job = $1 AND kind = 'note' ORDER BY seq",
        )
        .bind(job)
        .fetch_all(&self.cluster.database)
        .await
        .unwrap();
        rows.into_iter().map(|(value,)| String::from_utf8(value).unwrap()).collect()
    }
}

/// Waits until a file is there and has a whole line.
pub(crate) async fn wait_for_line(path: &Path) {
    let what = format!("a line in {}", path.display());
    wait_for(&what, PATIENCE, async || match fs::read_to_string(path) {
        Ok(text) if text.contains('\n') => Ok(()),
        Ok(text) => Err(text),
        Err(error) => Err(error.to_string()),
    })
    .await;
}

/// Waits until somebody's log has this text.
pub(crate) async fn wait_for_log(log: &Path, wanted: &str) {
    wait_for(&format!("{} to say {wanted:?}", log.display()), PATIENCE, async || {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains(wanted) { Ok(()) } else { Err(text) }
    })
    .await;
}

/// A shell that finds `tenure` and the fleet, and nothing else of ours.
pub(crate) fn run_in_shell(fleet: &Fleet, line: &str) -> String {
    let configured = fleet.cluster.tenure(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-euc", line]).envs(configured.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let beside = program().parent().unwrap().to_owned();
    shell.env("PATH", format!("{}:{}", beside.display(), std::env::var("PATH").unwrap()));
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The reason code of a refusal that was asked for with `--json`.
pub(crate) fn refusal_code(output: &Output) -> String {
    assert!(!output.status.success(), "this was to be refused: {}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no JSON in {text}"));
    let refusal: serde_json::Value = serde_json::from_str(line).unwrap();
    refusal["code"].as_str().unwrap().to_owned()
}
