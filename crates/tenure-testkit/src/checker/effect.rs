//! Effects happen once: what the ledger entered is held against the announcements and outcomes in the database. Agents post
//! the text `JOB KEY`, so that each entry names its effect whatever idempotency key it came with.
//!
//! An effect that is done, or landed, is entered once; one that did not happen, not at all; one that is in doubt at most
//! once, and its job waits for a person or for its next run. An entry without an announcement was not announced first.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use sqlx::PgPool;
use uuid::Uuid;

use super::{Concern, Finding};
use crate::ledger::Entry;

/// The last attempt of each key, with the state of its job.
const LAST_ATTEMPTS: &str = "
    SELECT DISTINCT ON (e.tenant, e.job, e.key) e.job, e.key, e.state, e.disposition, e.mutates, j.state AS job_state
    FROM effects AS e
    JOIN jobs AS j ON j.tenant = e.tenant AND j.job = e.job
    ORDER BY e.tenant, e.job, e.key, e.attempt DESC";

/// States of a job in which a doubt is somebody's business, or the next run's.
const DOUBT_IS_LISTED: [&str; 5] = ["quarantined", "ready", "running", "interrupted", "suspended"];

#[derive(Debug, sqlx::FromRow)]
struct Effect {
    job: Uuid,
    key: String,
    state: String,
    disposition: Option<String>,
    mutates: bool,
    job_state: String,
}

/// What became of an effect, as the database has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Happened,
    DidNotHappen,
    InDoubt,
}

impl Effect {
    fn outcome(&self) -> Result<Outcome> {
        Ok(match (self.state.as_str(), self.disposition.as_deref()) {
            ("done", _) | ("failed" | "reconciled", Some("landed")) => Outcome::Happened,
            ("failed" | "reconciled", Some("did_not_happen")) => Outcome::DidNotHappen,
            ("failed" | "reconciled", Some("in_doubt")) | ("started", _) => Outcome::InDoubt,
            (state, disposition) => anyhow::bail!("an effect is {state} with {disposition:?}"),
        })
    }

    fn name(&self) -> String {
        format!("{} {}", self.job, self.key)
    }
}

/// Compares the effects of every job with the ledger.
///
/// # Errors
/// The database cannot be read, or holds a state that is none.
pub async fn check_effects(database: &PgPool, entries: &[Entry]) -> Result<Vec<Finding>> {
    let effects = read_effects(database).await?;
    let mut entered: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        *entered.entry(entry.text.as_str()).or_default() += 1;
    }
    let mut findings = Vec::new();
    for (text, count) in &entered {
        if *count > 1 {
            let words = format!("the ledger has it {count} times");
            findings.push(Finding::new(Concern::Duplicated, text, words));
        }
        if !effects.iter().any(|effect| effect.name() == **text) {
            let words = "the ledger has it, and nobody announced it";
            findings.push(Finding::new(Concern::Duplicated, text, words));
        }
    }
    for effect in effects.iter().filter(|effect| effect.mutates) {
        let count = entered.get(effect.name().as_str()).copied().unwrap_or(0);
        findings.extend(judge(effect, effect.outcome()?, count));
    }
    Ok(findings)
}

/// How many mutating effects are in doubt. They are listed, and count neither as lost nor as duplicated.
///
/// # Errors
/// As [`check_effects`].
pub async fn count_in_doubt(database: &PgPool) -> Result<usize> {
    let outcomes: Vec<Outcome> = read_effects(database)
        .await?
        .iter()
        .filter(|effect| effect.mutates)
        .map(Effect::outcome)
        .collect::<Result<_>>()?;
    Ok(outcomes.into_iter().filter(|outcome| *outcome == Outcome::InDoubt).count())
}

async fn read_effects(database: &PgPool) -> Result<Vec<Effect>> {
    sqlx::query_as(LAST_ATTEMPTS).fetch_all(database).await.context("reading the effects")
}

/// More than one entry is found elsewhere.
fn judge(effect: &Effect, outcome: Outcome, count: usize) -> Option<Finding> {
    let is_listed = DOUBT_IS_LISTED.contains(&effect.job_state.as_str());
    let (concern, words) = match (outcome, count) {
        (Outcome::Happened, 0) => {
            (Concern::Lost, "it is recorded as done, and the ledger has it not".to_owned())
        }
        (Outcome::DidNotHappen, 1..) => {
            (Concern::Duplicated, "it is recorded as not done, and the ledger has it".to_owned())
        }
        (Outcome::InDoubt, _) if !is_listed => {
            (Concern::Lost, format!("it is in doubt, and its job is {}", effect.job_state))
        }
        (Outcome::Happened | Outcome::InDoubt, _) | (Outcome::DidNotHappen, 0) => {
            return None;
        }
    };
    Some(Finding::new(concern, effect.name(), words))
}
