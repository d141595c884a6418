//! The checkers: each knows one thing that must always hold, and reads nothing but the database, the ledger, and what clients
//! and children wrote themselves. They ask no part of the fleet, and none relies on another.
//!
//! They judge a fleet at rest: work that is on its way may look unaccounted for between two statements. What they find is
//! returned, not thrown, so that whoever runs them can count. Neighbours: `history`, `heartbeat`, `ledger`.

mod chain;
mod children;
mod conclusion;
mod deadline;
mod effect;
mod lease;
mod limit;
mod liveness;
mod note;
mod ownership;
mod price;
mod submission;

use std::fmt;

use anyhow::Result;
use sqlx::PgPool;

use crate::{heartbeat::Heartbeats, ledger::Entry};

pub use self::{
    chain::check_chains,
    children::check_children,
    conclusion::check_conclusions,
    deadline::check_deadlines,
    effect::{check_effects, count_in_doubt},
    lease::check_leases,
    limit::check_limits,
    liveness::check_liveness,
    note::check_notes,
    ownership::check_ownership,
    price::check_prices,
    submission::{Answer, Submitted, check_submissions},
};

/// What must hold and did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Concern {
    /// Something that was acknowledged, or done, is not there.
    Lost,
    /// Something is there, or was done, more than once.
    Duplicated,
    /// Two children of one job were alive at the same time.
    OverlappingChildren,
    /// A record was accepted under an epoch that was superseded.
    Ownership,
    /// A chain does not verify.
    Chain,
    /// A final state was left.
    Conclusion,
    /// Something unfinished is neither ready nor held nor anybody's business.
    Liveness,
    /// A lease is there without a run.
    Lease,
    /// A deadline was not kept.
    Deadline,
    /// A limit was not kept.
    Limit,
    /// A restart was charged to whom it should not have been.
    Price,
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "lost",
            Self::Duplicated => "duplicated",
            Self::OverlappingChildren => "overlapping children",
            Self::Ownership => "ownership",
            Self::Chain => "chain",
            Self::Conclusion => "conclusion",
            Self::Liveness => "liveness",
            Self::Lease => "lease",
            Self::Deadline => "deadline",
            Self::Limit => "limit",
            Self::Price => "price",
        })
    }
}

/// One thing that a checker found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What did not hold.
    pub concern: Concern,
    /// Where: a job, a key, a worker.
    pub subject: String,
    /// How.
    pub words: String,
}

impl Finding {
    fn new(concern: Concern, subject: impl fmt::Display, words: impl Into<String>) -> Self {
        Self { concern, subject: subject.to_string(), words: words.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.concern, self.subject, self.words)
    }
}

/// Who can say what happened.
#[derive(Debug, Clone, Copy)]
pub struct Witnesses<'a> {
    /// The database.
    pub database: &'a PgPool,
    /// What the children wrote; none where they write nothing.
    pub heartbeats: Option<&'a Heartbeats>,
    /// What the clients were answered; none where nobody noted it.
    pub submissions: Option<&'a [Submitted]>,
    /// The directory in which agents note which of their notes were acknowledged.
    pub notes: Option<&'a std::path::Path>,
    /// What the ledger entered, each text being `JOB KEY` of an effect; none where there is no ledger.
    pub entries: Option<&'a [Entry]>,
}

impl<'a> Witnesses<'a> {
    /// The database alone.
    #[must_use]
    pub fn of_database(database: &'a PgPool) -> Self {
        Self { database, heartbeats: None, submissions: None, notes: None, entries: None }
    }

    /// Has every checker look that has somebody to ask.
    ///
    /// # Errors
    /// A witness cannot be asked.
    pub async fn check(&self) -> Result<Vec<Finding>> {
        let mut findings = check_ownership(self.database).await?;
        findings.extend(check_chains(self.database).await?);
        findings.extend(check_conclusions(self.database).await?);
        findings.extend(check_liveness(self.database).await?);
        findings.extend(check_leases(self.database).await?);
        findings.extend(check_deadlines(self.database).await?);
        findings.extend(check_limits(self.database).await?);
        findings.extend(check_prices(self.database).await?);
        if let Some(heartbeats) = self.heartbeats {
            findings.extend(check_children(self.database, heartbeats).await?);
        }
        if let Some(submissions) = self.submissions {
            findings.extend(check_submissions(self.database, submissions).await?);
        }
        if let Some(notes) = self.notes {
            findings.extend(check_notes(self.database, notes).await?);
        }
        if let Some(entries) = self.entries {
            findings.extend(check_effects(self.database, entries).await?);
        }
        Ok(findings)
    }
}

#[cfg(test)]
mod tests;
