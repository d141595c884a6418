//! The fleet of the storm: jobs that perform a row of effects each, one agent for each recovery, which is a script, and one that
//! is a Rust function and has all of them; and workers that are killed at random boundaries until all is done: right after a record of some job, or right after an act that is not recorded yet. The
//! commands wait a moment between the act and their end, so that there is such a boundary.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tenure_testkit::{Cluster, HEARTBEAT_SCRIPT, Heartbeats, Ledger};
use uuid::Uuid;

/// The recoveries, which are the names of the scripts, too: the effects of a script's job are all of one.
pub(crate) const RECOVERIES: [&str; 4] = ["retry", "idempotent", "probe", "ask"];
/// The agent that is a Rust function.
const FUNCTION: &str = "function";
/// Every agent: of each as many jobs are submitted as of any other.
const AGENTS: [&str; 5] = ["retry", "idempotent", "probe", "ask", FUNCTION];
/// Effects of one job.
const PER_JOB: usize = 5;
/// Jobs that are submitted at once, and how many are open when more are: there is always one for each slot.
const BATCH: usize = 50;
const OPEN_MIN: i64 = 80;
const WORKERS: [&str; 3] = ["w1", "w2", "w3"];
/// Those that hold the Rust function.
const FUNCTION_WORKERS: [&str; 2] = ["f1", "f2"];
const WORKER_ARGUMENTS: &[&str] = &["--slots", "8", "--ttl", "5s"];
/// Between a kill and the choice of the next boundary, in milliseconds: there has to be work in between.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 200..=1_500;
/// Records that a job still writes before its worker is killed right after the last of them.
const RECORDS_AHEAD: std::ops::RangeInclusive<i64> = 1..=4;
/// One kill in so many comes after something was performed, and not after a record.
const AFTER_AN_ACT: u32 = 3;
/// How often a job's journal and the ledger are looked at while a boundary is waited for, and for how long at most: the job
/// may come to its end before.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
const BOUNDARY_PATIENCE: Duration = Duration::from_secs(3);
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
    /// How many kills came right after which kind of record, or after an act.
    pub(crate) boundaries: BTreeMap<String, u64>,
    pub(crate) began: Instant,
    random: StdRng,
    shared: PathBuf,
}

impl Storm {
    /// Starts two coordinators, five workers and a ledger.
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
        let function = std::env::current_exe()?.with_file_name("effects-worker");
        for worker in FUNCTION_WORKERS {
            let beats = shared.join("beats").display().to_string();
            cluster.start_own_worker(worker, &function, &[&ledger.url(), &beats])?;
        }
        let random = StdRng::seed_from_u64(seed);
        Ok(Self {
            cluster,
            ledger,
            kills: 0,
            caught_between: 0,
            boundaries: BTreeMap::new(),
            began: Instant::now(),
            random,
            shared,
        })
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

    /// Submits so many jobs, a batch at a time, and kills until all are over.
    pub(crate) async fn rage(&mut self, jobs: usize) -> Result<()> {
        let (mut submitted, mut progress) = (0, (0, Instant::now()));
        loop {
            let open = self.count("SELECT count(*) FROM jobs WHERE state IN ('ready', 'running')").await?;
            if open < OPEN_MIN && submitted < jobs {
                submitted += self.submit_more(submitted, jobs)?;
            } else if open == 0 {
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

    /// Submits the next batch, of each agent as many as of any other, and says how many jobs it has.
    fn submit_more(&self, submitted: usize, jobs: usize) -> Result<usize> {
        let batch = BATCH.min(jobs - submitted);
        for (place, agent) in AGENTS.iter().enumerate() {
            let is_its = |number: &usize| number % AGENTS.len() == place;
            let wanted = (submitted..submitted + batch).filter(is_its).count();
            if wanted > 0 {
                self.submit(agent, wanted)?;
            }
        }
        Ok(batch)
    }

    fn submit(&self, agent: &str, jobs: usize) -> Result<()> {
        let lines: String = (0..jobs).map(|_| "{\"input\":\"\"}\n").collect();
        let path = self.shared.join("batch.ndjson");
        fs::write(&path, lines)?;
        self.cluster.run(&["submit", agent, "--batch", &path.display().to_string()])?;
        Ok(())
    }

    /// Lets a moment pass, waits for a boundary in some job, kills its worker right there, sometimes with its guardians, and starts
    /// it again.
    async fn kill_one(&mut self) -> Result<()> {
        let pause = self.random.random_range(PAUSE_MS);
        wait_out(Duration::from_millis(pause)).await;
        let boundary = if self.random.random_ratio(1, AFTER_AN_ACT) {
            self.wait_for_act().await?
        } else {
            let ahead = self.random.random_range(RECORDS_AHEAD);
            self.wait_for_record(ahead).await?
        };
        // Nothing came, or it was over before its worker could be named: whoever it is dies between any two things.
        let workers = [&WORKERS[..], &FUNCTION_WORKERS[..]].concat();
        let anybody = workers[self.random.random_range(0..workers.len())].to_owned();
        let (worker, after) = boundary.unwrap_or((anybody, "nothing".to_owned()));
        let guardians = match self.random.random_ratio(1, WITH_GUARDIANS) {
            true => self.cluster.guardian_pids(&worker)?,
            false => Vec::new(),
        };
        let (between,): (i64,) = sqlx::query_as(
            "SELECT count(*) FROM effects e JOIN leases l ON l.tenant = e.tenant AND l.job = e.job
             WHERE e.state = 'started' AND l.released_at IS NULL AND l.worker = $1",
        )
        .bind(&worker)
        .fetch_one(&self.cluster.database)
        .await?;
        self.cluster.kill_worker(&worker, &guardians).context("killing a worker")?;
        self.kills += 1;
        self.caught_between += between;
        *self.boundaries.entry(after).or_default() += 1;
        self.cluster.restart_worker(&worker)
    }

    /// Waits until some job that is held now has so many records more. Returns its worker and the kind of the last of them.
    async fn wait_for_record(&mut self, ahead: i64) -> Result<Option<(String, String)>> {
        let held: Vec<(Uuid, i64)> = sqlx::query_as(
            "SELECT l.job, (SELECT max(h.seq) FROM journal h WHERE h.tenant = l.tenant AND h.job = l.job)
             FROM leases l WHERE l.released_at IS NULL ORDER BY l.job",
        )
        .fetch_all(&self.cluster.database)
        .await?;
        if held.is_empty() {
            return Ok(None);
        }
        let (job, seq) = held[self.random.random_range(0..held.len())];
        let until = Instant::now() + BOUNDARY_PATIENCE;
        while Instant::now() < until {
            let found: Option<(String, String)> = sqlx::query_as(
                "SELECT l.worker, h.kind FROM journal h
                 JOIN leases l ON l.tenant = h.tenant AND l.job = h.job AND l.released_at IS NULL
                 WHERE h.tenant = 'default' AND h.job = $1 AND h.seq >= $2 ORDER BY h.seq DESC LIMIT 1",
            )
            .bind(job)
            .bind(seq + ahead)
            .fetch_optional(&self.cluster.database)
            .await?;
            if found.is_some() {
                return Ok(found);
            }
            wait_out(LOOK_INTERVAL).await;
        }
        Ok(None)
    }

    /// Waits until something more is in the ledger. Returns the worker of the job that it is of.
    async fn wait_for_act(&self) -> Result<Option<(String, String)>> {
        let path = self.shared.join("ledger.jsonl");
        let before = fs::metadata(&path)?.len();
        let until = Instant::now() + BOUNDARY_PATIENCE;
        while fs::metadata(&path)?.len() == before {
            if Instant::now() > until {
                return Ok(None);
            }
            wait_out(LOOK_INTERVAL).await;
        }
        let entries = self.ledger.entries()?;
        let job: Option<Uuid> = entries.last().and_then(|entry| entry.text.split(' ').next()?.parse().ok());
        let worker: Option<(String,)> = sqlx::query_as(
            "SELECT worker FROM leases WHERE tenant = 'default' AND job = $1 AND released_at IS NULL",
        )
        .bind(job)
        .fetch_optional(&self.cluster.database)
        .await?;
        Ok(worker.map(|(worker,)| (worker, "an act".to_owned())))
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

/// The fleet file: restarts enough for whoever is killed again and again, and hops for all of them. `retry` is for acts that
/// are harmless to repeat, so its command has a key of its own; `probe` and `ask` post without a key, so that the ledger
/// would have twice what was done twice.
fn write_agents(beats: &std::path::Path, ledger_url: &str) -> Result<String> {
    let ledger = std::env::current_exe()?.with_file_name("tenure-ledger");
    let environment = format!(
        "{{ HEARTBEATS = \"{}\", HEARTBEAT_S = \"0.5\", LEDGER = \"{}\", LEDGER_URL = \"{ledger_url}\" }}",
        beats.display(),
        ledger.display()
    );
    let mut file = format!(
        "schema = 1\n[defaults]\ntimeout = \"10m\"\nstop-grace = \"1s\"\n\
         recovery = {{ policy = \"automatic\", max-attempts = 100, max-losses = 1000, backoff = {{ first = \"100ms\", max = \"1s\" }} }}\n\
         limits = {{ hops = 1000, runs = 1000 }}\n\
         [agents.{FUNCTION}]\nhandler = \"1\"\n"
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
env = {environment}
script = '''{HEARTBEAT_SCRIPT}
export PROBE='"$LEDGER" find --text "$TENURE_JOB $KEY" > /dev/null'
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
