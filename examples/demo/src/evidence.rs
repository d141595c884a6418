//! What really happened, from witnesses that the fleet does not control: the repository, the ledger's file, the rows of the
//! database, and the files that the agents' own children append to.

use std::collections::BTreeMap;

use anyhow::Result;
use tenure_testkit::{
    Concern, Fault, Finding, Recoveries, RunHistory, Witnesses, measure_recoveries, read_entries,
    read_histories,
};

use crate::{
    fleet::{DemoJob, Fleet},
    repository::Repository,
};

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
    /// How often the ledger has its announcement.
    pub(crate) entries: usize,
    /// Its runs, in order.
    pub(crate) runs: Vec<RunHistory>,
}

/// Everything.
pub(crate) struct Evidence {
    /// The jobs, in the order of submission.
    pub(crate) jobs: Vec<JobEvidence>,
    /// Lines of the ledger's file.
    pub(crate) ledger_entries: usize,
    /// Branches of release notes that were pushed, by whomever.
    pub(crate) pushed_branches: usize,
    /// Late reports that were refused.
    pub(crate) fenced_writes: usize,
    /// How long the handovers took.
    pub(crate) recoveries: Recoveries,
    /// What the checkers of the test kit found.
    pub(crate) findings: Vec<Finding>,
}

impl Evidence {
    /// Asks all of them.
    pub(crate) async fn collect(
        fleet: &Fleet,
        repository: &Repository,
        jobs: &[DemoJob],
        faults: &[Fault],
    ) -> Result<Self> {
        let heartbeats = fleet.heartbeats();
        let mut histories = read_histories(&fleet.cluster.database, &heartbeats).await?;
        let recoveries = measure_recoveries(&histories, faults);
        let states = read_states(fleet).await?;
        let entries = read_entries(&fleet.ledger_path())?;
        let mut found = Vec::new();
        for job in jobs {
            let text = format!("{} announce", job.id);
            found.push(JobEvidence {
                id: job.id,
                commit: job.commit.clone(),
                state: states.get(&job.id).cloned().unwrap_or_default(),
                branch: repository.has_notes(&job.commit)?,
                entries: entries.iter().filter(|entry| entry.text == text).count(),
                runs: histories.remove(&job.id).unwrap_or_default(),
            });
        }
        let (submitted, noted) = (Fleet::submitted(jobs), fleet.noted());
        let witnesses = Witnesses {
            heartbeats: Some(&heartbeats),
            submissions: Some(&submitted),
            notes: Some(&noted),
            // The pushes are not in the ledger; both are counted here.
            entries: None,
            ..Witnesses::of_database(&fleet.cluster.database)
        };
        Ok(Self {
            jobs: found,
            ledger_entries: entries.len(),
            pushed_branches: repository.count_pushed()?,
            fenced_writes: fleet.cluster.count_fenced_writes()?,
            recoveries,
            findings: witnesses.check().await?,
        })
    }

    /// Runs that took over from an earlier one.
    pub(crate) fn handovers(&self) -> usize {
        self.jobs.iter().map(|job| job.runs.len().saturating_sub(1)).sum()
    }

    /// What is in the world without a job that should have put it there, or more than once; and what the checkers call so.
    pub(crate) fn duplicated(&self) -> usize {
        let announced = self.jobs.iter().filter(|job| job.entries > 0).count();
        let pushed = self.jobs.iter().filter(|job| job.branch).count();
        self.ledger_entries.saturating_sub(announced)
            + self.pushed_branches.saturating_sub(pushed)
            + self.count_findings(Concern::Duplicated)
    }

    /// What jobs that succeeded should have put into the world and is not there; and what the checkers call so.
    pub(crate) fn lost(&self) -> usize {
        let succeeded = || self.jobs.iter().filter(|job| job.state == "succeeded");
        succeeded().filter(|job| job.entries == 0).count()
            + succeeded().filter(|job| !job.branch).count()
            + self.count_findings(Concern::Lost)
    }

    /// Findings of the checkers about one concern.
    pub(crate) fn count_findings(&self, concern: Concern) -> usize {
        self.findings.iter().filter(|finding| finding.concern == concern).count()
    }
}

async fn read_states(fleet: &Fleet) -> Result<BTreeMap<uuid::Uuid, String>> {
    let rows: Vec<(uuid::Uuid, String)> =
        sqlx::query_as("SELECT job, state FROM jobs").fetch_all(&fleet.cluster.database).await?;
    Ok(rows.into_iter().collect())
}
