//! What may need a person: one bounded read for each kind of condition, by a clock that the caller gives. It decides nothing and
//! writes nothing; whether what was found is a condition, and what answers it, is for the core. A backlog that cannot be read is an error and not an
//! empty one. Neighbours: the triggers of `stopped_jobs` note what stopped, `fleet` counts what a gauge shows.

use jiff::Timestamp;
use sqlx::query_file_as;
use tenure_core::{
    attention::{Ages, Found, Kind, Subject},
    handler::HANDLER_LABEL_PREFIX,
    id::Tenant,
    job::State,
};

use crate::{Store, StoreError, timestamp::Stamp};

const ATTEMPTED: &str = "looking for what needs a person";

/// The rows of a query. A macro, because the queries are checked where they stand, each with parameters of its own.
macro_rules! find {
    ($store:ident, $row:ident, $query:literal, $($argument:tt)*) => {
        query_file_as!($row, $query, $($argument)*)
            .fetch_all(&$store.pool)
            .await
            .map_err(StoreError::while_doing(ATTEMPTED))?
    };
}

/// A look: for whom, at which instant, and how far.
#[derive(Debug, Clone)]
pub struct Look {
    /// Whose jobs.
    pub tenant: Tenant,
    /// The instant at which conditions are judged.
    pub at: Timestamp,
    /// At most so many subjects of each kind are read.
    pub page: u32,
    /// For how long something is so before it counts.
    pub ages: Ages,
}

impl Look {
    /// The instant so long before.
    fn earlier(&self, age: std::time::Duration) -> Stamp {
        Stamp(self.at.checked_sub(age).unwrap_or(Timestamp::MIN))
    }

    fn limit(&self) -> i64 {
        i64::from(self.page)
    }

    fn fill(&self, rows: Vec<SubjectRow>) -> Found {
        let page_filled = rows.len() == self.page as usize;
        Found { subjects: rows.into_iter().map(SubjectRow::into_subject).collect(), page_filled }
    }

    /// Of a page of what may count, what does; the page may be full all the same.
    fn judge(&self, rows: Vec<JudgedRow>) -> Found {
        let page_filled = rows.len() == self.page as usize;
        let counted = rows.into_iter().filter(|row| row.counts);
        Found {
            subjects: counted.map(|row| Subject { name: row.subject, since: row.since.0 }).collect(),
            page_filled,
        }
    }
}

impl Store {
    /// Finds what there is of a kind, in the order in which it is to be listed.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn find_subjects(&self, look: &Look, kind: Kind) -> Result<Found, StoreError> {
        match kind {
            Kind::JobQuarantined => self.find_stopped(look, State::Quarantined).await,
            Kind::JobExhausted => self.find_stopped(look, State::Exhausted).await,
            Kind::JobWithheld => self.find_stopped(look, State::Withheld).await,
            Kind::JobInterrupted => self.find_stopped(look, State::Interrupted).await,
            Kind::JobFailedWithLandedWork => self.find_failed(look).await,
            Kind::JobAbandonedLease => self.find_abandoned(look).await,
            Kind::JobWaitExpired => self.find_expired_waits(look).await,
            Kind::JobUnclaimable => self.find_unclaimable(look).await,
            Kind::LayoverRefused => self.find_refused_layovers(look).await,
            Kind::HaltStanding => self.find_old_halts(look).await,
        }
    }

    async fn find_stopped(&self, look: &Look, state: State) -> Result<Found, StoreError> {
        let (tenant, at) = (look.tenant.as_str(), Stamp(look.at));
        let rows = find!(
            self,
            SubjectRow,
            "queries/attention/list_stopped_jobs.sql",
            tenant,
            state.name(),
            at as _,
            look.limit()
        );
        Ok(look.fill(rows))
    }

    async fn find_failed(&self, look: &Look) -> Result<Found, StoreError> {
        let (tenant, at) = (look.tenant.as_str(), Stamp(look.at));
        let rows =
            find!(self, JudgedRow, "queries/attention/list_failed_jobs.sql", tenant, at as _, look.limit());
        Ok(look.judge(rows))
    }

    async fn find_abandoned(&self, look: &Look) -> Result<Found, StoreError> {
        let (tenant, before) = (look.tenant.as_str(), look.earlier(look.ages.abandoned_lease));
        let rows = find!(
            self,
            SubjectRow,
            "queries/attention/list_abandoned_leases.sql",
            tenant,
            before as _,
            look.limit()
        );
        Ok(look.fill(rows))
    }

    async fn find_expired_waits(&self, look: &Look) -> Result<Found, StoreError> {
        let (tenant, at) = (look.tenant.as_str(), Stamp(look.at));
        let rows = find!(
            self,
            SubjectRow,
            "queries/attention/list_expired_waits.sql",
            tenant,
            at as _,
            look.limit()
        );
        Ok(look.fill(rows))
    }

    async fn find_unclaimable(&self, look: &Look) -> Result<Found, StoreError> {
        let (tenant, at) = (look.tenant.as_str(), Stamp(look.at));
        let rows = find!(
            self,
            JudgedRow,
            "queries/attention/list_ready_jobs.sql",
            tenant,
            at as _,
            look.earlier(look.ages.unclaimable) as _,
            look.limit(),
            HANDLER_LABEL_PREFIX
        );
        Ok(look.judge(rows))
    }

    async fn find_refused_layovers(&self, look: &Look) -> Result<Found, StoreError> {
        let (tenant, at) = (look.tenant.as_str(), Stamp(look.at));
        let rows = find!(
            self,
            SubjectRow,
            "queries/attention/list_refused_layovers.sql",
            tenant,
            at as _,
            look.limit()
        );
        Ok(look.fill(rows))
    }

    async fn find_old_halts(&self, look: &Look) -> Result<Found, StoreError> {
        let (tenant, before) = (look.tenant.as_str(), look.earlier(look.ages.halt));
        let rows = find!(
            self,
            SubjectRow,
            "queries/attention/list_old_halts.sql",
            tenant,
            before as _,
            look.limit()
        );
        Ok(look.fill(rows))
    }
}

struct JudgedRow {
    subject: String,
    since: Stamp,
    counts: bool,
}

struct SubjectRow {
    subject: String,
    since: Stamp,
}

impl SubjectRow {
    fn into_subject(self) -> Subject {
        Subject { name: self.subject, since: self.since.0 }
    }
}
