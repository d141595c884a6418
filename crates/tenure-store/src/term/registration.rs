//! A worker introduces itself, attaches, and is listed.

use jiff::Timestamp;
use tenure_core::{
    credential::Tenants,
    id::{AgentName, Attach, Digest, Generation, Term, WorkerName},
};

use super::{AttachedTerm, NewTerm, Registered, TermRefusal, WorkerRow};
use crate::{
    Store, StoreError,
    stored::{
        Reader, fencing_name, from_bigint, from_integer, from_ms, instant, to_bigint, to_integer, to_ms,
    },
    timestamp::Stamp,
};

impl Store {
    /// Opens a term.
    ///
    /// # Errors
    /// `TimelineChanged`; the database does not answer.
    pub async fn register_worker(&self, new: &NewTerm) -> Result<Registered, StoreError> {
        let attempted = "registering a worker";
        let tenants = new.tenants.to_texts();
        let agents: Vec<_> = new.agents.iter().map(AgentName::to_string).collect();
        let row = sqlx::query_file_as!(
            RegisteredRow,
            "queries/terms/register_worker.sql",
            new.worker.as_str(),
            &new.secret_hash.0[..],
            &tenants,
            &new.labels,
            &agents,
            to_integer(new.slots),
            to_ms(new.ttl),
            fencing_name(new.fencing),
            new.version
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        let Some(row) = row else {
            self.check_timeline().await?;
            return Err(StoreError::PositionTaken { attempted });
        };
        Ok(Registered {
            term: Term(from_bigint(row.term)),
            answer: from_bigint(row.answer),
            generation: Generation(from_bigint(row.generation)),
            now: row.now.0,
        })
    }

    /// Makes a new attach the current one, where the secret is that of the registration and all of its tenants are among
    /// these; on the connection for renewals, because without an attach nothing is renewed. That connection may have broken while it was idle, so it is asked a
    /// second time where it does not answer; an attach that nobody was told of displaces nobody that lives.
    ///
    /// # Errors
    /// `TimelineChanged`; the database does not answer.
    pub async fn attach_worker(
        &self,
        worker: &WorkerName,
        term: Term,
        secret_hash: Digest,
        tenants: &Tenants,
    ) -> Result<Result<AttachedTerm, TermRefusal>, StoreError> {
        let attempted = "attaching a worker";
        let row = match self.write_attach(attempted, worker, term, secret_hash, tenants).await {
            Err(StoreError::Unavailable { .. }) => {
                self.write_attach(attempted, worker, term, secret_hash, tenants).await?
            }
            answered => answered?,
        };
        match row {
            Some(row) => row.into_term(Reader(attempted)).map(Ok),
            None => self.explain_attach(attempted, worker, term, secret_hash, tenants).await.map(Err),
        }
    }

    async fn write_attach(
        &self,
        attempted: &'static str,
        worker: &WorkerName,
        term: Term,
        secret_hash: Digest,
        tenants: &Tenants,
    ) -> Result<Option<AttachedRow>, StoreError> {
        sqlx::query_file_as!(
            AttachedRow,
            "queries/terms/attach_worker.sql",
            worker.as_str(),
            to_bigint(term.0),
            &secret_hash.0[..],
            &tenants.to_texts()
        )
        .fetch_optional(&self.term_pool)
        .await
        .map_err(StoreError::while_doing(attempted))
    }

    async fn explain_attach(
        &self,
        attempted: &'static str,
        worker: &WorkerName,
        term: Term,
        secret_hash: Digest,
        tenants: &Tenants,
    ) -> Result<TermRefusal, StoreError> {
        self.check_timeline().await?;
        match self.read_term(attempted, worker, term).await? {
            None => Ok(TermRefusal::Unknown),
            // Without the secret, nothing is told about the term.
            Some(row) if row.secret_hash != secret_hash.0 => Ok(TermRefusal::WrongSecret),
            Some(row) if row.closed => Ok(TermRefusal::Closed),
            Some(row) if !tenants.cover(&Reader(attempted).tenants(&row.tenants)?) => {
                Ok(TermRefusal::OtherTenants)
            }
            Some(_) => Err(StoreError::PositionTaken { attempted }),
        }
    }

    /// Reads a page of the terms that are open or still have leases, by name and number: of the workers that take jobs of
    /// one of these tenants, with the leases of these tenants' jobs alone.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_workers(
        &self,
        tenants: &Tenants,
        after: Option<(&WorkerName, Term)>,
        limit: u32,
    ) -> Result<Vec<WorkerRow>, StoreError> {
        let attempted = "listing workers";
        let (after_worker, after_term) = after.map_or(("", 0), |(worker, term)| (worker.as_str(), term.0));
        let rows = sqlx::query_file_as!(
            ListedRow,
            "queries/terms/list_workers.sql",
            after_worker,
            to_bigint(after_term),
            i64::from(limit),
            &tenants.to_texts()
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter().map(|row| row.into_worker(Reader(attempted))).collect()
    }
}

struct RegisteredRow {
    term: i64,
    answer: i64,
    now: Stamp,
    generation: i64,
}

struct AttachedRow {
    attach: i64,
    answer: i64,
    ttl_ms: i64,
    labels: Vec<String>,
    agents: Vec<String>,
    tenants: Vec<String>,
    slots: i32,
    fencing: String,
    generation: i64,
}

impl AttachedRow {
    fn into_term(self, reader: Reader) -> Result<AttachedTerm, StoreError> {
        Ok(AttachedTerm {
            attach: Attach(from_bigint(self.attach)),
            answer: from_bigint(self.answer),
            ttl: from_ms(self.ttl_ms),
            labels: self.labels,
            agents: reader.parse_all("agent", self.agents)?,
            tenants: reader.tenants(&self.tenants)?,
            slots: from_integer(self.slots),
            fencing: reader.fencing(self.fencing)?,
            generation: Generation(from_bigint(self.generation)),
        })
    }
}

struct ListedRow {
    worker: String,
    term: i64,
    labels: Vec<String>,
    agents: Vec<String>,
    slots: i32,
    fencing: String,
    version: String,
    ttl_ms: i64,
    registered_at: Stamp,
    renewed_at: Stamp,
    expires_at: Stamp,
    closed_at: Option<Stamp>,
    leases: i64,
}

impl ListedRow {
    fn into_worker(self, reader: Reader) -> Result<WorkerRow, StoreError> {
        let closed_at: Option<Timestamp> = instant(self.closed_at);
        Ok(WorkerRow {
            worker: reader.parse("worker", self.worker)?,
            term: Term(from_bigint(self.term)),
            labels: self.labels,
            agents: reader.parse_all("agent", self.agents)?,
            slots: from_integer(self.slots),
            leases: u32::try_from(self.leases).unwrap_or(u32::MAX),
            fencing: reader.fencing(self.fencing)?,
            version: self.version,
            registered_at: self.registered_at.0,
            renewed_at: self.renewed_at.0,
            expires_at: self.expires_at.0,
            closed_at,
            ttl: from_ms(self.ttl_ms),
        })
    }
}
