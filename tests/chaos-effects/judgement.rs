//! What the storm left: for each recovery how many effects were announced, are done, and are in doubt; and what the checkers
//! found, who compare them with the ledger's file.

use std::collections::{BTreeMap, btree_map::Entry};

use anyhow::Result;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;
use serde_json::json;
use tenure_testkit::{Concern, Finding, Witnesses};

use crate::storm::{RECOVERIES, Storm};

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
    listed: usize,
    /// In doubt, and nobody is told.
    unlisted: Vec<String>,
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
    let (listed, unlisted) = list_doubts(storm).await?;
    Ok(Judgement {
        listed,
        unlisted,
        tallies,
        findings,
        jobs: jobs.into_iter().collect(),
        entries: entries.len(),
    })
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

/// Of the effects that mutate and are in doubt, how many are listed where a person looks for them, and which are not.
async fn list_doubts(storm: &Storm) -> Result<(usize, Vec<String>)> {
    let doubted: Vec<(uuid::Uuid, String)> = sqlx::query_as(
        "SELECT job, key FROM (
             SELECT DISTINCT ON (job, key) job, key, state, disposition, mutates FROM effects
             ORDER BY job, key, attempt DESC
         ) AS last
         WHERE mutates AND (state = 'started' OR disposition = 'in_doubt') ORDER BY job, key",
    )
    .fetch_all(&storm.cluster.database)
    .await?;
    let mut pages: BTreeMap<uuid::Uuid, Vec<String>> = BTreeMap::new();
    let (mut listed, mut unlisted) = (0, Vec::new());
    for (job, key) in doubted {
        let keys = match pages.entry(job) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let page = storm.cluster.run(&["undecided", &job.to_string(), "--json"])?;
                unknown.insert(read_keys(&page)?)
            }
        };
        if keys.contains(&key) {
            listed += 1;
        } else {
            unlisted.push(format!("{job} {key}"));
        }
    }
    Ok((listed, unlisted))
}

/// The keys on a page of `tenure undecided --json`: one document, or one a line.
fn read_keys(page: &str) -> Result<Vec<String>> {
    let documents = serde_json::Deserializer::from_str(page).into_iter::<serde_json::Value>();
    let mut keys = Vec::new();
    for document in documents {
        let document = document?;
        let effects = document["effects"].as_array().cloned().unwrap_or_else(|| vec![document.clone()]);
        keys.extend(effects.iter().filter_map(|effect| effect["key"].as_str().map(str::to_owned)));
    }
    Ok(keys)
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
        self.unlisted.iter().for_each(|effect| println!("in doubt and not listed: {effect}"));
    }

    /// The last line; true where everything held.
    pub(crate) fn print_summary(&self, storm: &Storm) -> bool {
        let counted =
            [Concern::Duplicated, Concern::Lost, Concern::OverlappingChildren].map(|of| self.count(of));
        let summary = json!({
            "jobs": self.jobs.values().sum::<i64>(),
            "kills": storm.kills,
            "duplicated": counted[0],
            "lost": counted[1],
            "unlisted": self.unlisted.len(),
            "listed_in_doubt": self.listed,
            "seconds": storm.began.elapsed().as_secs(),
            "effects": self.tallies.values().map(|tally| tally.announced).sum::<i64>(),
            "recoveries": self.tallies,
            "ledger_entries": self.entries,
            "states": self.jobs,
            "caught_between": storm.caught_between,
            "boundaries": storm.boundaries,
            "overlapping_children": counted[2],
        });
        println!("{summary}");
        self.findings.is_empty() && self.unlisted.is_empty() && self.is_settled() && storm.caught_between > 0
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
