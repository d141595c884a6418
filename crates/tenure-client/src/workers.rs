//! Listing the workers: the terms that are open, or that still have leases.

use jiff::Timestamp;
use serde::Serialize;
use tenure_core::{
    id::{Term, WorkerName},
    plan::Fencing,
};
use tenure_proto::{
    convert::{
        InvalidField, id::read_worker_name, require, state::read_fencing, time::read_duration,
        time::read_optional_timestamp,
    },
    v1,
};

use crate::{
    Client, ClientError,
    client::{Repeat, worker_service},
    job::read_instant,
};

/// A worker's term as it stood when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Worker {
    /// The worker's name.
    pub name: WorkerName,
    /// The number of its term.
    pub term: Term,
    /// Its labels.
    pub labels: Vec<String>,
    /// The agents that it takes. Empty: all.
    pub agents: Vec<String>,
    /// Runs at the same time.
    pub slots: u32,
    /// Leases that it holds.
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
    /// When it was closed; none: it is open.
    pub closed_at: Option<Timestamp>,
    /// How long it lives without a renewal, in milliseconds.
    pub ttl_ms: u64,
}

/// A page of workers, by name and term.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerPage {
    /// The workers.
    pub workers: Vec<Worker>,
    /// Where the next page begins; none: this was the last.
    pub cursor: Option<String>,
}

impl Client {
    /// Reads a page of workers; a limit of 0 leaves the size to the fleet.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn list_workers(&self, limit: u32, cursor: Option<&str>) -> Result<WorkerPage, ClientError> {
        let request = v1::ListWorkersRequest { limit, cursor: cursor.unwrap_or_default().to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { worker_service(channel).list_workers(request).await }
        };
        let answer = self.call(Repeat::Reads, ask).await?;
        let workers = answer.workers.into_iter().map(Worker::read).collect::<Result<_, _>>()?;
        Ok(WorkerPage { workers, cursor: Some(answer.cursor).filter(|cursor| !cursor.is_empty()) })
    }
}

impl Worker {
    fn read(given: v1::Worker) -> Result<Self, InvalidField> {
        let ttl = read_duration("workers.ttl", require("workers.ttl", given.ttl.as_ref())?)?;
        Ok(Self {
            name: read_worker_name("workers.name", &given.name)?,
            term: Term(given.term),
            labels: given.labels,
            agents: given.agents,
            slots: given.slots,
            leases: given.leases,
            fencing: read_fencing("workers.fencing", given.fencing)?,
            version: given.version,
            registered_at: read_instant("workers.registered_at", given.registered_at.as_ref())?,
            renewed_at: read_instant("workers.renewed_at", given.renewed_at.as_ref())?,
            expires_at: read_instant("workers.expires_at", given.expires_at.as_ref())?,
            closed_at: read_optional_timestamp("workers.closed_at", given.closed_at.as_ref())?,
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
        })
    }
}
