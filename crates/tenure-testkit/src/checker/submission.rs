//! Every acknowledged submission is there exactly once, and whatever the client was told fits what is there. Clients mark
//! each submission with a label of its own, `submission`, so that a second job of the same is seen whatever key it has.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use sqlx::PgPool;
use uuid::Uuid;

use super::{Concern, Finding};

/// What a client knows of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// The value of its label `submission`.
    pub mark: String,
    /// What it was answered.
    pub answer: Answer,
}

/// What a submission was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is stored, as this job.
    Acknowledged(Uuid),
    /// It is not stored.
    Refused,
    /// No answer came: it may be stored or not.
    Unknown,
}

const MARKED: &str = "SELECT labels ->> 'submission', job FROM jobs WHERE labels ? 'submission' ORDER BY job";

/// Compares what clients were answered with the jobs that there are.
///
/// # Errors
/// The database cannot be read.
pub async fn check_submissions(database: &PgPool, submitted: &[Submitted]) -> Result<Vec<Finding>> {
    let rows: Vec<(String, Uuid)> =
        sqlx::query_as(MARKED).fetch_all(database).await.context("reading the marked jobs")?;
    let mut stored: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
    for (mark, job) in rows {
        stored.entry(mark).or_default().push(job);
    }
    let mut findings = Vec::new();
    for Submitted { mark, answer } in submitted {
        let jobs = stored.remove(mark).unwrap_or_default();
        findings.extend(judge(mark, *answer, &jobs));
    }
    let strangers = stored.into_iter();
    findings.extend(strangers.map(|(mark, jobs)| {
        Finding::new(Concern::Duplicated, mark, format!("nobody submitted it, and it is stored as {jobs:?}"))
    }));
    Ok(findings)
}

fn judge(mark: &str, answer: Answer, jobs: &[Uuid]) -> Option<Finding> {
    let (concern, words) = match (answer, jobs) {
        (_, [_, _, ..]) => (Concern::Duplicated, format!("it is stored {} times: {jobs:?}", jobs.len())),
        (Answer::Acknowledged(job), []) => {
            (Concern::Lost, format!("it was acknowledged as {job}, which is not there"))
        }
        (Answer::Acknowledged(job), [stored]) if job != *stored => {
            (Concern::Lost, format!("it was acknowledged as {job} and is stored as {stored}"))
        }
        (Answer::Refused, [stored]) => {
            (Concern::Duplicated, format!("it was refused and is stored as {stored}"))
        }
        (Answer::Acknowledged(_) | Answer::Unknown, [_]) | (Answer::Refused | Answer::Unknown, []) => {
            return None;
        }
    };
    Some(Finding::new(concern, mark, words))
}
