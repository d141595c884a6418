//! What the restarts of jobs drew on, against what a row knows that they should have. The checkers know the rule; a row knows the
//! figures.
//!
//! Neighbours: `rows` and `scenarios`.

use anyhow::Result;
use tenure_testkit::{Concern, Finding};
use uuid::Uuid;

use super::Arena;

/// What a job used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charges {
    pub(crate) attempts: i32,
    pub(crate) losses: i32,
}

impl Arena {
    /// What a job's restarts drew on so far.
    pub(crate) async fn read_charges(&self, job: Uuid) -> Result<Charges> {
        let (attempts, losses) = sqlx::query_as("SELECT attempts, losses FROM jobs WHERE job = $1")
            .bind(job)
            .fetch_one(&self.cluster.database)
            .await?;
        Ok(Charges { attempts, losses })
    }

    /// Counts each of these jobs as a finding that used something else.
    pub(crate) async fn expect_charges(&mut self, jobs: &[Uuid], wanted: Charges) -> Result<()> {
        for job in jobs {
            let used = self.read_charges(*job).await?;
            if used != wanted {
                let words = format!("it used {used:?} where it should have used {wanted:?}");
                self.findings.push(Finding { concern: Concern::Price, subject: job.to_string(), words });
            }
        }
        Ok(())
    }
}
