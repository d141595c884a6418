//! The fleet and the work of one row. The work is jobs of one agent that leave notes until a gate is opened, note down
//! themselves which were acknowledged, and have a child that beats, outside their session. So whatever a row does finds the
//! work in the middle, and every witness has something to say.
//!
//! Neighbours: `rows` and `scenarios` use it; `charges` looks at what restarts drew on; `worksheet` is the fleet file; the test kit owns the processes and the checkers.

mod blockade;
mod charges;
mod worksheet;

use std::{
    fs,
    path::PathBuf,
    process::{Child, Output, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use rand::{Rng, RngExt as _, SeedableRng as _, rngs::StdRng};
use tenure_postgres::Options;
use tenure_testkit::{
    Answer, Cluster, Fault, Finding, Heartbeats, Ledger, Pid, Submitted, Witnesses, measure_recoveries,
    read_histories, read_history, wait_for,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};
use uuid::Uuid;

use crate::row::{Account, Setting};

pub(crate) use self::{blockade::Blockade, charges::Charges};

/// How long anything may take that has to come. It bounds a row that hangs and judges nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The shortest term that there is.
pub(crate) const TTL: Duration = Duration::from_secs(5);
/// The same, for a worker: with more slots than any row has jobs, so that a recovery never waits for one.
pub(crate) const QUICK: &[&str] = &["--slots", "64", "--ttl", "5s"];
/// For rows in which nobody may be declared dead.
pub(crate) const PATIENT: &[&str] = &["--slots", "64", "--ttl", "30s"];

/// A fleet at work.
pub(crate) struct Arena {
    pub(crate) cluster: Cluster,
    pub(crate) random: StdRng,
    /// What the announcing agents post to.
    pub(crate) ledger: Ledger,
    shared: PathBuf,
    submissions: Vec<Submitted>,
    /// What was done to workers while the database was up and slots were free.
    faults: Vec<Fault>,
    remarks: Vec<String>,
    /// What a row found itself.
    findings: Vec<Finding>,
    /// True once everything was found to hold. Until then the logs are of interest.
    holds: bool,
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.holds {
            return;
        }
        let kept = std::env::temp_dir().join(format!("tenure-chaos-logs-{}", std::process::id()));
        match self.cluster.keep_logs(&kept) {
            Ok(()) => eprintln!("chaos-fleet: the logs are in {}", kept.display()),
            Err(error) => eprintln!("chaos-fleet: the logs are lost: {error:#}"),
        }
    }
}

impl Arena {
    /// Starts a database and so many coordinators, `c1` and on, and applies the agents.
    pub(crate) async fn start(setting: &Setting, row: u32, coordinators: usize) -> Result<Self> {
        Self::start_with(setting, row, coordinators, Options::default()).await
    }

    /// The same with a database of these options.
    pub(crate) async fn start_with(
        setting: &Setting,
        row: u32,
        coordinators: usize,
        options: Options,
    ) -> Result<Self> {
        let program = setting.program.with_file_name("tenure-ledger");
        ensure!(program.exists(), "{} is not there; build it first", program.display());
        let mut cluster = Cluster::start_database(&setting.program, options).await?;
        for number in 1..=coordinators {
            cluster.start_coordinator(&format!("c{number}")).await?;
        }
        let shared = cluster.directory().join("shared");
        for folder in ["", "beats", "notes"] {
            fs::create_dir(shared.join(folder))?;
        }
        let ledger = Ledger::start(&shared.join("ledger.jsonl")).await?;
        let arena = Self {
            cluster,
            ledger,
            random: StdRng::seed_from_u64(setting.seed ^ u64::from(row)),
            shared,
            submissions: Vec::new(),
            faults: Vec::new(),
            remarks: Vec::new(),
            findings: Vec::new(),
            holds: false,
        };
        let path = arena.shared.join("fleet.toml");
        fs::write(&path, worksheet::write_agents(&arena.shared, &program, &arena.ledger.url()))?;
        arena.cluster.run(&["apply", &path.display().to_string()])?;
        Ok(arena)
    }

    /// What the children write.
    pub(crate) fn heartbeats(&self) -> Heartbeats {
        Heartbeats::new(&self.shared.join("beats"))
    }

    /// Says something in the row's line.
    pub(crate) fn remark(&mut self, words: impl Into<String>) {
        self.remarks.push(words.into());
    }

    /// Counts a fault whose recovery is fair to measure: made now.
    pub(crate) fn count_fault(&mut self, worker: &str) {
        self.faults.push(Fault::now(worker));
    }

    /// Kills a worker together with whoever is named beside it. The worker is frozen first, so that it cannot say anything about the
    /// others' deaths.
    pub(crate) fn kill_at_once(&mut self, worker: &str, beside: &[Pid]) -> Result<()> {
        self.cluster.freeze_worker(worker)?;
        self.cluster.kill_worker(worker, beside)
    }

    /// One of these, at random.
    pub(crate) fn choose<T: Clone>(&mut self, from: &[T]) -> Result<T> {
        ensure!(!from.is_empty(), "there is nothing to choose from");
        Ok(from[self.random.random_range(0..from.len())].clone())
    }

    /// Submits so many jobs of the working agent, and expects each to be acknowledged.
    pub(crate) async fn submit(&mut self, jobs: usize) -> Result<Vec<Uuid>> {
        self.submit_to("steady", jobs).await
    }

    /// Submits so many jobs of an agent, and expects each to be acknowledged.
    pub(crate) async fn submit_to(&mut self, agent: &str, jobs: usize) -> Result<Vec<Uuid>> {
        let endpoints = self.cluster.endpoints();
        let mut ids = Vec::new();
        for _ in 0..jobs {
            let mark = self.next_mark();
            ids.push(self.submit_until_acknowledged(&mark, agent, &endpoints).await?);
        }
        Ok(ids)
    }

    /// A mark that no submission has yet.
    pub(crate) fn next_mark(&self) -> String {
        format!("s{}", self.submissions.len() + 1)
    }

    /// Submits under a mark, which is the idempotency key too, until there is an answer.
    pub(crate) async fn submit_until_acknowledged(
        &mut self,
        mark: &str,
        agent: &str,
        endpoints: &str,
    ) -> Result<Uuid> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.submit_once(mark, agent, endpoints).await? {
                Answer::Acknowledged(job) => return Ok(job),
                Answer::Refused => bail!("the submission {mark} was refused"),
                Answer::Unknown => {
                    ensure!(Instant::now() < until, "the submission {mark} was never answered")
                }
            }
        }
    }

    /// Submits under a mark once, and notes what was answered: that is what the checkers are told.
    pub(crate) async fn submit_once(&mut self, mark: &str, agent: &str, endpoints: &str) -> Result<Answer> {
        let label = format!("submission={mark}");
        let mut command =
            self.cluster.tenure_at(endpoints, &["submit", agent, "--key", mark, "--label", &label]);
        let output = tokio::task::spawn_blocking(move || command.output()).await?.context("submitting")?;
        let answer = read_answer(&output)?;
        match self.submissions.iter_mut().find(|submitted| submitted.mark == mark) {
            // What was acknowledged once is acknowledged, whatever is answered afterwards.
            Some(submitted) if !matches!(submitted.answer, Answer::Acknowledged(_)) => {
                submitted.answer = answer
            }
            Some(_) => {}
            None => self.submissions.push(Submitted { mark: mark.to_owned(), answer }),
        }
        Ok(answer)
    }

    /// Submits so many jobs of an agent in one batch, and expects each to be acknowledged.
    pub(crate) async fn submit_batch(&mut self, agent: &str, jobs: usize) -> Result<Vec<Uuid>> {
        let marks: Vec<String> = (1..=jobs).map(|number| format!("{agent}{number}")).collect();
        let line =
            |mark: &String| serde_json::json!({ "key": mark, "labels": { "submission": mark } }).to_string();
        let lines: Vec<String> = marks.iter().map(line).collect();
        let path = self.shared.join("batch.ndjson");
        fs::write(&path, lines.join("\n"))?;
        let printed = self.cluster.run(&["submit", agent, "--batch", &path.display().to_string()])?;
        let ids: Vec<Uuid> = printed.lines().map(str::parse).collect::<Result<_, _>>()?;
        ensure!(ids.len() == jobs, "{} of {jobs} submissions were acknowledged", ids.len());
        let acknowledged = marks.into_iter().zip(ids.iter().copied());
        self.submissions
            .extend(acknowledged.map(|(mark, job)| Submitted { mark, answer: Answer::Acknowledged(job) }));
        Ok(ids)
    }

    /// Starts a client that submits and has nobody to tell: it is killed when this is dropped.
    pub(crate) fn spawn_submission(&self, mark: &str, endpoints: &str) -> Result<Client> {
        let label = format!("submission={mark}");
        let mut command =
            self.cluster.tenure_at(endpoints, &["submit", "steady", "--key", mark, "--label", &label]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Client { process: process.context("submitting")? })
    }

    /// Waits until each job has a run whose child beats, of at least this number.
    pub(crate) async fn wait_for_runs(&self, jobs: &[Uuid], least: u32) -> Result<()> {
        let heartbeats = self.heartbeats();
        for job in jobs {
            wait_for(&format!("run {least} of job {job}"), PATIENCE, async || {
                let runs = read_history(&self.cluster.database, &heartbeats, *job).await;
                let runs = runs.map_err(|error| format!("{error:#}"))?;
                let beats = runs.iter().any(|run| run.run >= least && run.beats.is_some());
                if beats { Ok(()) } else { Err(format!("{runs:?}")) }
            })
            .await;
        }
        Ok(())
    }

    /// Waits until each of these jobs has so many acknowledged notes more than it has now.
    pub(crate) async fn wait_for_notes(&self, jobs: &[Uuid], more: usize) {
        let count = |job: &Uuid| {
            let path = self.shared.join("notes").join(job.to_string());
            fs::read_to_string(path).unwrap_or_default().lines().count()
        };
        let before: Vec<usize> = jobs.iter().map(count).collect();
        for (job, before) in jobs.iter().zip(before) {
            wait_for(&format!("{more} more notes of job {job}"), PATIENCE, async || {
                let now = count(job);
                if now >= before + more { Ok(()) } else { Err(now) }
            })
            .await;
        }
    }

    /// The worker that holds a job; waits until one does.
    pub(crate) async fn wait_for_holder(&self, job: Uuid) -> String {
        wait_for(&format!("somebody to hold job {job}"), PATIENCE, async || {
            let held: Result<Option<(String,)>, sqlx::Error> =
                sqlx::query_as("SELECT worker FROM leases WHERE job = $1 AND released_at IS NULL")
                    .bind(job)
                    .fetch_optional(&self.cluster.database)
                    .await;
            match held {
                Ok(Some((worker,))) => Ok(worker),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// The number of a job's present or last run.
    pub(crate) async fn find_run(&self, job: Uuid) -> Result<u32> {
        let (run,): (i32,) = sqlx::query_as("SELECT run FROM jobs WHERE job = $1")
            .bind(job)
            .fetch_one(&self.cluster.database)
            .await?;
        Ok(run.try_into()?)
    }

    /// Waits until a worker has attached under an open term.
    pub(crate) async fn wait_for_worker(&self, name: &str) {
        wait_for(&format!("worker {name} to be attached"), PATIENCE, async || {
            let terms: Result<(i64,), sqlx::Error> =
                sqlx::query_as("SELECT count(*) FROM terms WHERE worker = $1 AND attach > 0 AND closed_at IS NULL AND expires_at > now()")
                    .bind(name)
                    .fetch_one(&self.cluster.database)
                    .await;
            match terms {
                Ok((1..,)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Fails where one of these jobs was interrupted: each is in its first run.
    pub(crate) async fn assert_undisturbed(&self, jobs: &[Uuid]) -> Result<()> {
        for job in jobs {
            let run = self.find_run(*job).await?;
            ensure!(run == 1, "job {job} was interrupted, and is in run {run}");
        }
        Ok(())
    }

    /// What a coordinator answers to a probe: the status.
    pub(crate) async fn probe(&self, coordinator: &str, path: &str) -> Result<u16> {
        let mut stream = TcpStream::connect(self.cluster.coordinator_probes(coordinator)?).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await??;
        let status = answer.split_whitespace().nth(1).with_context(|| format!("no status in {answer:?}"))?;
        Ok(status.parse()?)
    }

    /// Opens the gate, waits until every acknowledged job has succeeded, and has everything checked.
    pub(crate) async fn finish(mut self) -> Result<Account> {
        let account = self.finish_and_check().await?;
        self.holds = account.findings.is_empty();
        Ok(account)
    }

    /// Opens the gate, waits until everything is over, and counts the entries of the ledger.
    pub(crate) async fn open_gate_and_wait(&self) -> Result<usize> {
        fs::write(self.shared.join("gate"), "")?;
        self.wait_until_over().await;
        self.wait_until_at_rest().await;
        Ok(self.ledger.entries()?.len())
    }

    async fn finish_and_check(&mut self) -> Result<Account> {
        self.open_gate_and_wait().await?;
        let heartbeats = self.heartbeats();
        let entries = self.ledger.entries()?;
        let witnesses = Witnesses {
            entries: Some(&entries),
            heartbeats: Some(&heartbeats),
            submissions: Some(&self.submissions),
            notes: Some(&self.shared.join("notes")),
            database: &self.cluster.database,
        };
        let mut findings = witnesses.check().await?;
        findings.append(&mut self.findings);
        let histories = read_histories(&self.cluster.database, &heartbeats).await?;
        Ok(Account {
            findings,
            recoveries: measure_recoveries(&histories, &self.faults),
            fenced_writes: u64::try_from(self.cluster.count_fenced_writes()?)?,
            remarks: std::mem::take(&mut self.remarks),
        })
    }

    async fn wait_until_over(&self) {
        wait_for("every job to succeed", PATIENCE, async || {
            let open: Result<Vec<(Uuid, String, Option<String>)>, sqlx::Error> = sqlx::query_as(
                "SELECT job, state, detail FROM jobs
                 WHERE (agent LIKE 'steady%' OR agent LIKE 'announce-%') AND state <> 'succeeded'
                   AND NOT (agent = 'announce-ask' AND state = 'quarantined')",
            )
            .fetch_all(&self.cluster.database)
            .await;
            match open {
                Ok(open) if open.is_empty() => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// A lease that was given back is gone a moment after its job's end.
    async fn wait_until_at_rest(&self) {
        wait_for("no lease to be held", PATIENCE, async || {
            let held: Result<(i64,), sqlx::Error> =
                sqlx::query_as("SELECT count(*) FROM leases WHERE released_at IS NULL")
                    .fetch_one(&self.cluster.database)
                    .await;
            match held {
                Ok((0,)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
}

/// A client whose answer nobody waits for.
pub(crate) struct Client {
    process: Child,
}

impl Drop for Client {
    fn drop(&mut self) {
        // One that has ended is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Lets time pass, where a fault has to last.
pub(crate) async fn wait_out(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// A duration between these, at random.
pub(crate) fn draw_duration(random: &mut impl Rng, least_ms: u64, most_ms: u64) -> Duration {
    Duration::from_millis(random.random_range(least_ms..=most_ms))
}

fn read_answer(output: &Output) -> Result<Answer> {
    Ok(match output.status.code() {
        Some(0) => {
            let printed = std::str::from_utf8(&output.stdout)?.trim();
            Answer::Acknowledged(printed.parse().with_context(|| format!("{printed:?} is no job"))?)
        }
        Some(1) => Answer::Refused,
        Some(4) => Answer::Unknown,
        other => bail!("a submission ended with {other:?}: {}", String::from_utf8_lossy(&output.stderr)),
    })
}
