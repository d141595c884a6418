//! What the storm left: for each recovery how many effects were announced, are done, and are in doubt; and what the checkers
//! found, who compare them with the ledger's file.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;
use serde_json::json;
use tenure_testkit::{Concern, Finding, Witnesses};

use crate::storm::{RECOVERIES, Storm};

/// Jobs whose doubts are looked up as a person would.
const LOOKED_UP: i64 = 5;

/// One recovery's effects.
#[derive(Debug, Clone, Default, Serialize)]
struct Tally {
    announced: i64,
    happened: i64,
    did_not_happen: i64,
    in_doubt: i64,
}

/// All of it.
pub(crate) struct Judgement {
    tallies: BTreeMap<&'static str, Tally>,
    findings: Vec<Finding>,
    jobs: BTreeMap<String, i64>,
    entries: usize,
}

/// Counts, and has the checkers look.
pub(crate) async fn judge(storm: &Storm) -> Result<Judgement> {
    let entries = storm.ledger.entries()?;
    let heartbeats = storm.heartbeats();
    let witnesses = Witnesses {
        heartbeats: Some(&heartbeats),
        entries: Some(&entries),
        ..Witnesses::of_database(&storm.cluster.database)
    };
    let findings = witnesses.check().await?;
    let mut tallies = BTreeMap::new();
    for recovery in RECOVERIES {
        tallies.insert(recovery, tally(storm, recovery).await?);
    }
    let jobs: Vec<(String, i64)> = sqlx::query_as("SELECT state, count(*) FROM jobs GROUP BY state")
        .fetch_all(&storm.cluster.database)
        .await?;
    ensure_listed(storm).await?;
    Ok(Judgement { tallies, findings, jobs: jobs.into_iter().collect(), entries: entries.len() })
}

async fn tally(storm: &Storm, recovery: &str) -> Result<Tally> {
    let (announced, happened, did_not_happen, in_doubt) = sqlx::query_as(
        "SELECT count(*),
                count(*) FILTER (WHERE state = 'done' OR disposition = 'landed'),
                count(*) FILTER (WHERE disposition = 'did_not_happen'),
                count(*) FILTER (WHERE state = 'started' OR disposition = 'in_doubt')
         FROM (SELECT DISTINCT ON (job, key) state, disposition FROM effects WHERE recovery = $1
               ORDER BY job, key, attempt DESC) AS last",
    )
    .bind(recovery)
    .fetch_one(&storm.cluster.database)
    .await?;
    Ok(Tally { announced, happened, did_not_happen, in_doubt })
}

/// What is in doubt is listed where a person looks for it.
async fn ensure_listed(storm: &Storm) -> Result<()> {
    let doubted: Vec<(uuid::Uuid, String)> = sqlx::query_as(
        "SELECT j.job, e.key FROM jobs j JOIN effects e ON e.tenant = j.tenant AND e.job = j.job
         WHERE j.state = 'quarantined' AND (e.state = 'started' OR e.disposition = 'in_doubt') LIMIT $1",
    )
    .bind(LOOKED_UP)
    .fetch_all(&storm.cluster.database)
    .await?;
    for (job, key) in doubted {
        let listed = storm.cluster.run(&["undecided", &job.to_string()])?;
        ensure!(listed.contains(&key), "`tenure undecided {job}` does not name {key}:\n{listed}");
    }
    Ok(())
}

impl Judgement {
    /// One row for each recovery, and what was found.
    pub(crate) fn print_table(&self) {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header([
            "recovery",
            "announced",
            "happened",
            "did not happen",
            "in doubt",
        ]);
        for (recovery, tally) in &self.tallies {
            let figures = [tally.announced, tally.happened, tally.did_not_happen, tally.in_doubt];
            table.add_row(
                [(*recovery).to_owned()].into_iter().chain(figures.map(|figure| figure.to_string())),
            );
        }
        println!("{table}");
        self.findings.iter().for_each(|finding| println!("found: {finding}"));
    }

    /// The last line; true where everything held.
    pub(crate) fn print_summary(&self, storm: &Storm) -> bool {
        let counted =
            [Concern::Duplicated, Concern::Lost, Concern::OverlappingChildren].map(|of| self.count(of));
        let summary = json!({
            "effects": self.tallies.values().map(|tally| tally.announced).sum::<i64>(),
            "recoveries": self.tallies,
            "ledger_entries": self.entries,
            "jobs": self.jobs,
            "kills": storm.kills,
            "caught_between": storm.caught_between,
            "duplicated": counted[0],
            "lost": counted[1],
            "overlapping_children": counted[2],
            "seconds": storm.began.elapsed().as_secs(),
        });
        println!("{summary}");
        self.findings.is_empty() && self.is_settled() && storm.caught_between > 0
    }

    fn count(&self, concern: Concern) -> usize {
        self.findings.iter().filter(|finding| finding.concern == concern).count()
    }

    /// Only what a person must decide is left in doubt, and nothing else kept a job from its success.
    fn is_settled(&self) -> bool {
        let decided =
            |(recovery, tally): (&&str, &Tally)| *recovery == "ask" || tally.happened == tally.announced;
        self.tallies.iter().all(decided)
            && self.jobs.keys().all(|state| state == "succeeded" || state == "quarantined")
    }
}
