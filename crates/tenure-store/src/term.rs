//! Terms: a worker process's own time to live. One row each, renewed for all its leases at once, and closed on that same
//! row: renewal or closing, one of the two wins. What a lapse means for the leases is decided elsewhere.

mod closing;
mod registration;
mod renewal;

use std::time::Duration;

use jiff::Timestamp;
use sqlx::query_file;
use tenure_core::{
    credential::Tenants,
    id::{AgentName, Attach, Digest, Epoch, Generation, JobId, Run, Seq, Tenant, Term, WorkerName},
    plan::Fencing,
};

use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, to_bigint},
};

/// A worker that introduces itself.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTerm {
    /// Its name.
    pub worker: WorkerName,
    /// SHA-256 of the secret that its attaches bring.
    pub secret_hash: Digest,
    /// Its labels.
    pub labels: Vec<String>,
    /// Only these agents; empty: all.
    pub agents: Vec<AgentName>,
    /// Only these tenants' jobs.
    pub tenants: Tenants,
    /// Runs at the same time.
    pub slots: u32,
    /// How long the term lives without a renewal; whole milliseconds.
    pub ttl: Duration,
    /// How its children are fenced.
    pub fencing: Fencing,
    /// The version of the program.
    pub version: String,
}

/// A term that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// Its number.
    pub term: Term,
    /// The number of this answer, which the first renewal echoes.
    pub answer: u64,
    /// The number of the database's history.
    pub generation: Generation,
    /// The database's clock.
    pub now: Timestamp,
}

/// A term as it was registered, with the attach that is current from now on.
#[derive(Debug, Clone, PartialEq)]
pub struct AttachedTerm {
    /// The number of the attach.
    pub attach: Attach,
    /// The number of the last answer that was given.
    pub answer: u64,
    /// How long the term lives without a renewal.
    pub ttl: Duration,
    /// Its labels.
    pub labels: Vec<String>,
    /// Only these agents; empty: all.
    pub agents: Vec<AgentName>,
    /// Only these tenants' jobs.
    pub tenants: Tenants,
    /// Runs at the same time.
    pub slots: u32,
    /// How its children are fenced.
    pub fencing: Fencing,
    /// The number of the database's history.
    pub generation: Generation,
}

/// Why a term may not do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermRefusal {
    /// There is no such term (any more).
    Unknown,
    /// It is closed.
    Closed,
    /// It lapsed and is not closed yet; a renewal revives it.
    Lapsed,
    /// Another attach is current.
    Displaced,
    /// The secret is not that of its registration.
    WrongSecret,
    /// Whoever attaches may not act for every tenant of the registration.
    OtherTenants,
}

/// What became of a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    /// The term lives on.
    Renewed {
        /// The number of this answer.
        answer: u64,
        /// The database's clock.
        now: Timestamp,
        /// When it lapses next.
        expires_at: Timestamp,
        /// What is asked of its runs: everything that stands, not only what is new.
        standing: Vec<Standing>,
    },
    /// The echo was older than one ttl: nothing was renewed.
    Deaf {
        /// The number of this answer.
        answer: u64,
    },
    /// The term is closed, or gone.
    Closed,
    /// Another attach is current.
    Displaced,
}

/// A notice that stands at a living run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whose.
    pub tenant: Tenant,
    /// Which job.
    pub job: JobId,
    /// The epoch of the claim.
    pub epoch: Epoch,
    /// The run.
    pub run: Run,
    /// The generation of the claim.
    pub generation: Generation,
    /// The seq of the notice.
    pub notice: Seq,
    /// Its kind: `cancel_requested`.
    pub kind: &'static str,
}

/// A term that lapsed and is not closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LapsedTerm {
    /// Whose.
    pub worker: WorkerName,
    /// Its number.
    pub term: Term,
    /// Its time to live.
    pub ttl: Duration,
    /// When it lapsed.
    pub expires_at: Timestamp,
}

/// A term that the caller's watch allows to be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosableTerm {
    /// Whose.
    pub worker: WorkerName,
    /// Its number.
    pub term: Term,
    /// How far the database's clock may be from the instant expected.
    pub tolerance: Duration,
}

/// A term that was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedTerm {
    /// Whose.
    pub worker: WorkerName,
    /// Its number.
    pub term: Term,
    /// When it had lapsed.
    pub expires_at: Timestamp,
}

/// A worker's term as it stood when it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerRow {
    /// The worker's name.
    pub worker: WorkerName,
    /// The number of its term.
    pub term: Term,
    /// Its labels.
    pub labels: Vec<String>,
    /// Only these agents; empty: all.
    pub agents: Vec<AgentName>,
    /// Runs at the same time.
    pub slots: u32,
    /// Leases that it holds, and those whose child is not known to be gone.
    pub leases: u32,
    /// How its children are fenced.
    pub fencing: Fencing,
    /// The version of the program.
    pub version: String,
    /// When the term was opened.
    pub registered_at: Timestamp,
    /// When it was last renewed.
    pub renewed_at: Timestamp,
    /// When it lapses.
    pub expires_at: Timestamp,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// How long it lives without a renewal.
    pub ttl: Duration,
}

/// What stands in a term's row where something was refused.
struct TermRow {
    attach: Attach,
    secret_hash: Vec<u8>,
    tenants: Vec<String>,
    closed: bool,
    lapsed: bool,
}

/// What a worker whose term is open is and serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLabels {
    /// Whose jobs it takes.
    pub tenants: Tenants,
    /// Its labels.
    pub labels: Vec<String>,
}

impl Store {
    /// Lists the labels of every worker whose term is open.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_labels(&self) -> Result<Vec<HeldLabels>, StoreError> {
        let attempted = "listing the labels of workers";
        let rows = query_file!("queries/terms/list_labels.sql").fetch_all(&self.pool).await;
        let rows = rows.map_err(StoreError::while_doing(attempted))?;
        rows.into_iter()
            .map(|row| {
                Ok(HeldLabels { tenants: Reader(attempted).tenants(&row.tenants)?, labels: row.labels })
            })
            .collect()
    }

    /// Tells why a term may not act under an attach; nothing where it may by now.
    pub(crate) async fn explain_term(
        &self,
        attempted: &'static str,
        worker: &WorkerName,
        term: Term,
        attach: Attach,
    ) -> Result<Option<TermRefusal>, StoreError> {
        Ok(match self.read_term(attempted, worker, term).await? {
            None => Some(TermRefusal::Unknown),
            Some(row) if row.closed => Some(TermRefusal::Closed),
            Some(row) if row.attach != attach => Some(TermRefusal::Displaced),
            Some(row) if row.lapsed => Some(TermRefusal::Lapsed),
            Some(_) => None,
        })
    }

    async fn read_term(
        &self,
        attempted: &'static str,
        worker: &WorkerName,
        term: Term,
    ) -> Result<Option<TermRow>, StoreError> {
        let row = query_file!("queries/terms/explain_term.sql", worker.as_str(), to_bigint(term.0))
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        Ok(row.map(|row| TermRow {
            attach: Attach(from_bigint(row.attach)),
            secret_hash: row.secret_hash,
            tenants: row.tenants,
            closed: row.closed,
            lapsed: row.lapsed,
        }))
    }
}
