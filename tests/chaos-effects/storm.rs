//! The fleet of the storm: jobs that perform a row of effects each, one agent for each recovery, and workers that are killed
//! at random until all is done. The commands wait a moment between the act and their end, so that many kills fall there.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tenure_testkit::{Cluster, HEARTBEAT_SCRIPT, Heartbeats, Ledger};

/// The recoveries, which are the names of the agents, too.
pub(crate) const RECOVERIES: [&str; 4] = ["retry", "idempotent", "probe", "ask"];
/// Effects of one job.
const PER_JOB: i64 = 5;
/// Jobs that are submitted at once.
const BATCH: i64 = 50;
const WORKERS: [&str; 3] = ["w1", "w2", "w3"];
const WORKER_ARGUMENTS: &[&str] = &["--slots", "8", "--ttl", "5s"];
/// Between two kills, in milliseconds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 400..=2_000;
/// One kill in so many takes the guardians along.
const WITH_GUARDIANS: u32 = 5;
/// How long the storm may go without a job that ends.
const PATIENCE: Duration = Duration::from_secs(120);

/// The fleet, and what was done to it.
pub(crate) struct Storm {
    pub(crate) cluster: Cluster,
    pub(crate) ledger: Ledger,
    pub(crate) kills: u64,
    /// Announcements without a record, in runs of the workers that were killed, as they stood just before.
    pub(crate) caught_between: i64,
    pub(crate) began: Instant,
    random: StdRng,
    shared: PathBuf,
}

impl Storm {
    /// Starts two coordinators, three workers and a ledger.
    pub(crate) async fn start(seed: u64) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("tenure");
        let mut cluster = Cluster::start(program).await?;
        cluster.start_coordinator("c2").await?;
        let shared = cluster.directory().join("shared");
        for directory in ["", "beats"] {
            fs::create_dir(shared.join(directory))?;
        }
        let ledger = Ledger::start(&shared.join("ledger.jsonl")).await?;
        let path = shared.join("fleet.toml");
        fs::write(&path, write_agents(&shared.join("beats"), &ledger.url())?)?;
        cluster.run(&["apply", &path.display().to_string()])?;
        for worker in WORKERS {
            cluster.start_worker(worker, WORKER_ARGUMENTS)?;
        }
        let random = StdRng::seed_from_u64(seed);
        Ok(Self { cluster, ledger, kills: 0, caught_between: 0, began: Instant::now(), random, shared })
    }

    /// What the children wrote.
    pub(crate) fn heartbeats(&self) -> Heartbeats {
        Heartbeats::new(&self.shared.join("beats"))
    }

    /// Copies the logs to where they outlive the storm, and says where.
    pub(crate) fn keep_logs(&self) -> Result<()> {
        let kept = std::env::temp_dir().join(format!("tenure-effects-logs-{}", std::process::id()));
        self.cluster.keep_logs(&kept)?;
        eprintln!("chaos-effects: the logs are in {}", kept.display());
        Ok(())
    }

    /// Submits until so many effects of each recovery were announced, and kills until all jobs are over.
    pub(crate) async fn rage(&mut self, effects: i64) -> Result<()> {
        let mut progress = (0, Instant::now());
        loop {
            let open = self.count("SELECT count(*) FROM jobs WHERE state IN ('ready', 'running')").await?;
            if open < BATCH && !self.submit_more(effects).await? && open == 0 {
                return Ok(());
            }
            self.kill_one().await?;
            let done = self.count("SELECT count(*) FROM journal WHERE kind IN ('effect_done', 'effect_reconciled', 'job_concluded')").await?;
            if done > progress.0 {
                progress = (done, Instant::now());
            }
            ensure!(
                progress.1.elapsed() < PATIENCE,
                "nothing was done for {PATIENCE:?}; {open} jobs are open"
            );
        }
    }

    /// Submits jobs of the recoveries of which not enough was announced or is to come; false where there is none.
    async fn submit_more(&mut self, effects: i64) -> Result<bool> {
        let mut submitted = false;
        for recovery in RECOVERIES {
            let (announced, open): (i64, i64) = sqlx::query_as(
                "SELECT (SELECT count(DISTINCT (job, key)) FROM effects WHERE recovery = $1),
                        (SELECT count(*) FROM jobs WHERE agent = $1 AND state IN ('ready', 'running'))",
            )
            .bind(recovery)
            .fetch_one(&self.cluster.database)
            .await?;
            let missing = effects - announced - open * PER_JOB;
            let wanted = ((missing + PER_JOB - 1) / PER_JOB).clamp(0, BATCH);
            if wanted > 0 {
                self.submit(recovery, wanted)?;
                submitted = true;
            }
        }
        Ok(submitted)
    }

    fn submit(&self, recovery: &str, jobs: i64) -> Result<()> {
        let lines: String = (0..jobs).map(|_| "{\"input\":\"\"}\n").collect();
        let path = self.shared.join("batch.ndjson");
        fs::write(&path, lines)?;
        self.cluster.run(&["submit", recovery, "--batch", &path.display().to_string()])?;
        Ok(())
    }

    /// Lets a moment pass, kills one worker, sometimes with its guardians, and starts it again.
    async fn kill_one(&mut self) -> Result<()> {
        let pause = self.random.random_range(PAUSE_MS);
        let worker = WORKERS[self.random.random_range(0..WORKERS.len())];
        wait_out(Duration::from_millis(pause)).await;
        let guardians = match self.random.random_ratio(1, WITH_GUARDIANS) {
            true => self.cluster.guardian_pids(worker)?,
            false => Vec::new(),
        };
        let (between,): (i64,) = sqlx::query_as(
            "SELECT count(*) FROM effects e JOIN leases l ON l.tenant = e.tenant AND l.job = e.job
             WHERE e.state = 'started' AND l.released_at IS NULL AND l.worker = $1",
        )
        .bind(worker)
        .fetch_one(&self.cluster.database)
        .await?;
        self.cluster.kill_worker(worker, &guardians).context("killing a worker")?;
        self.kills += 1;
        self.caught_between += between;
        self.cluster.restart_worker(worker)
    }

    async fn count(&self, query: &'static str) -> Result<i64> {
        let (count,) = sqlx::query_as(query).fetch_one(&self.cluster.database).await?;
        Ok(count)
    }
}

/// Lets time pass: between two kills there has to be work.
async fn wait_out(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// The fleet file. `retry` is for acts that are harmless to repeat, so its command has a key of its own; `probe` and `ask` post
/// without a key, so that the ledger would have twice what was done twice.
fn write_agents(beats: &std::path::Path, ledger_url: &str) -> Result<String> {
    let ledger = std::env::current_exe()?.with_file_name("tenure-ledger");
    let mut file = format!(
        "schema = 1\n[defaults]\ntimeout = \"10m\"\nstop-grace = \"1s\"\n\
         recovery = {{ policy = \"automatic\", max-attempts = 1000, max-losses = 1000, backoff = {{ first = \"100ms\", max = \"1s\" }} }}\n\
         limits = {{ hops = 1000 }}\n\
         env = {{ HEARTBEATS = \"{}\", LEDGER = \"{}\", LEDGER_URL = \"{ledger_url}\" }}\n",
        beats.display(),
        ledger.display()
    );
    for recovery in RECOVERIES {
        let (options, key) = match recovery {
            "retry" => ("--retry", "--key \"$TENURE_JOB $KEY\""),
            "idempotent" => ("--idempotent", "--key \"$TENURE_IDEMPOTENCY_KEY\""),
            "probe" => ("--probe \"$PROBE\"", ""),
            _ => ("--ask", ""),
        };
        file.push_str(&format!(
            r#"
[agents.{recovery}]
script = '''{HEARTBEAT_SCRIPT}
export PROBE='entries=$("$LEDGER" entries) || exit 1; case "$entries" in *"\"$TENURE_JOB $KEY\""*) exit 0 ;; *) exit 10 ;; esac'
number=0
while [ "$number" -lt {PER_JOB} ]; do
    number=$((number + 1))
    export KEY="{recovery}/$number"
    tenure effect "$KEY" {options} --no-undo -- sh -c '
        "$LEDGER" post {key} --text "$TENURE_JOB $KEY" > posted
        sleep "0.$(( $(date +%N | tail -c 4 | sed "s/^0*//;s/^$/0/") % 4 ))"
    ' > /dev/null
done
'''
"#
        ));
    }
    Ok(file)
}
