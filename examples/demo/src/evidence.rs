//! What really happened, from three witnesses that the fleet does not control: the repository, the rows of the database,
//! and the files that the agents' own children append to.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use sqlx::PgPool;

use crate::{
    faults::Kill,
    fleet::{DemoJob, Fleet},
    repository::Repository,
};

/// One run of a job.
pub(crate) struct RunEvidence {
    /// Who held it.
    pub(crate) worker: String,
    /// How its child was known to be gone, where it was interrupted.
    pub(crate) proof: Option<String>,
    /// The first and last heartbeat, in nanoseconds of the wall clock; none where the child never wrote one.
    pub(crate) beats_ns: Option<(u128, u128)>,
}

/// One job.
pub(crate) struct JobEvidence {
    /// Its id.
    pub(crate) id: uuid::Uuid,
    /// Its commit.
    pub(crate) commit: String,
    /// Its state in the database.
    pub(crate) state: String,
    /// True where the branch is in the repository, once, with the right contents.
    pub(crate) branch: bool,
    /// The notes in its journal.
    pub(crate) notes: i64,
    /// Its runs, in order.
    pub(crate) runs: Vec<RunEvidence>,
}

/// Everything.
pub(crate) struct Evidence {
    /// The jobs, in the order of submission.
    pub(crate) jobs: Vec<JobEvidence>,
    /// From a kill to the first line of the next child, where the death was seen; in milliseconds.
    pub(crate) seen_ms: Vec<u64>,
    /// The same, where only a lapsed term showed it.
    pub(crate) unseen_ms: Vec<u64>,
}

impl Evidence {
    /// Asks all three.
    pub(crate) async fn collect(
        fleet: &Fleet,
        repository: &Repository,
        jobs: &[DemoJob],
        kills: &[Kill],
    ) -> Result<Self> {
        let heartbeats = fleet.heartbeats();
        let mut found = Vec::new();
        for job in jobs {
            found.push(JobEvidence {
                id: job.id,
                commit: job.commit.clone(),
                state: read_state(&fleet.cluster.database, job).await?,
                branch: repository.has_notes(&job.commit)?,
                notes: count_notes(&fleet.cluster.database, job).await?,
                runs: read_runs(&fleet.cluster.database, &heartbeats, job).await?,
            });
        }
        let (seen_ms, unseen_ms) = measure_recoveries(&found, kills);
        Ok(Self { jobs: found, seen_ms, unseen_ms })
    }

    /// Runs that took over from an earlier one.
    pub(crate) fn handovers(&self) -> usize {
        self.jobs.iter().map(|job| job.runs.len().saturating_sub(1)).sum()
    }

    /// Pairs of consecutive runs of one job whose children were alive at the same time: the earlier one wrote a
    /// heartbeat after the later one's first.
    pub(crate) fn overlapping_children(&self) -> usize {
        let overlap = |pair: &[RunEvidence]| match (pair[0].beats_ns, pair[1].beats_ns) {
            (Some((_, last)), Some((first, _))) => last >= first,
            _ => false,
        };
        self.jobs.iter().map(|job| job.runs.windows(2).filter(|pair| overlap(pair)).count()).sum()
    }
}

async fn read_state(database: &PgPool, job: &DemoJob) -> Result<String> {
    let (state,) = sqlx::query_as("SELECT state FROM jobs WHERE tenant = 'default' AND job = $1")
        .bind(job.id)
        .fetch_one(database)
        .await?;
    Ok(state)
}

async fn count_notes(database: &PgPool, job: &DemoJob) -> Result<i64> {
    let (notes,) = sqlx::query_as(
        "SELECT count(*) FROM journal WHERE tenant = 'default' AND job = $1 AND kind = 'note'",
    )
    .bind(job.id)
    .fetch_one(database)
    .await?;
    Ok(notes)
}

/// The runs from the journal's own bytes, with the heartbeats of each.
async fn read_runs(database: &PgPool, heartbeats: &Path, job: &DemoJob) -> Result<Vec<RunEvidence>> {
    let rows: Vec<(Vec<u8>,)> = sqlx::query_as(
        "SELECT bytes FROM journal WHERE tenant = 'default' AND job = $1 AND kind IN ('run_started', 'child_gone')
         ORDER BY seq",
    )
    .bind(job.id)
    .fetch_all(database)
    .await?;
    let mut runs = BTreeMap::new();
    let mut epochs = BTreeMap::new();
    for (bytes,) in rows {
        let record: serde_json::Value = serde_json::from_slice(&bytes)?;
        let number = |key: &str| record[key].as_u64().with_context(|| format!("a record has no {key}"));
        if record["kind"] == "run_started" {
            let run = number("run")?;
            epochs.insert(number("epoch")?, run);
            let worker = record["worker"].as_str().unwrap_or_default().to_owned();
            let beats_ns = read_beats(&heartbeats.join(format!("{}.{run}", job.id)))?;
            runs.insert(run, RunEvidence { worker, proof: None, beats_ns });
        } else if let Some(run) = epochs.get(&number("of_epoch")?).and_then(|run| runs.get_mut(run)) {
            run.proof = record["proof"].as_str().map(str::to_owned);
        }
    }
    Ok(runs.into_values().collect())
}

/// The first and last line of a heartbeat file. A last line that a kill cut short is not a time.
fn read_beats(path: &Path) -> Result<Option<(u128, u128)>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(path)?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let beats: Vec<u128> = whole.lines().map(str::parse).collect::<Result<_, _>>()?;
    Ok(beats.iter().min().copied().zip(beats.iter().max().copied()))
}

/// From each kill to the first heartbeat of the run after one that the killed worker held: seen, and unseen.
fn measure_recoveries(jobs: &[JobEvidence], kills: &[Kill]) -> (Vec<u64>, Vec<u64>) {
    let (mut seen, mut unseen) = (Vec::new(), Vec::new());
    for pair in jobs.iter().flat_map(|job| job.runs.windows(2)) {
        let Some(kill) = kills.iter().find(|kill| kill.worker == pair[0].worker) else { continue };
        let Some((first, _)) = pair[1].beats_ns else { continue };
        let ms = u64::try_from(first.saturating_sub(kill.at_ns) / 1_000_000).unwrap_or(u64::MAX);
        if pair[0].proof.as_deref() == Some("term_lapsed") { unseen.push(ms) } else { seen.push(ms) }
    }
    seen.sort_unstable();
    unseen.sort_unstable();
    (seen, unseen)
}
