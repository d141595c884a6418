//! Renewals: a worker is alive to us while it hears our answers. They run on a connection of their own.

use tenure_core::{
    id::{Attach, Epoch, Generation, JobId, Run, Seq, Term, WorkerName},
    record::NOTICE_KINDS,
};
use uuid::Uuid;

use super::{Renewal, Standing, TermRefusal};
use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, from_integer, to_bigint},
    timestamp::Stamp,
};

const ATTEMPTED: &str = "renewing a term";

impl Store {
    /// Renews a term, on a connection of its own. `echo` is the number of the last answer that the worker received.
    ///
    /// # Errors
    /// `TimelineChanged`; the database does not answer.
    pub async fn renew_term(
        &self,
        worker: &WorkerName,
        term: Term,
        attach: Attach,
        echo: u64,
    ) -> Result<Renewal, StoreError> {
        let rows = sqlx::query_file_as!(
            RenewalRow,
            "queries/terms/renew_term.sql",
            worker.as_str(),
            to_bigint(term.0),
            to_bigint(attach.0),
            to_bigint(echo)
        )
        .fetch_all(&self.term_pool)
        .await
        .map_err(StoreError::while_doing(ATTEMPTED))?;
        match rows.first() {
            None => self.explain_renewal(worker, term, attach).await,
            Some(first) if !first.hears => Ok(Renewal::Deaf { answer: from_bigint(first.answer) }),
            Some(first) => Ok(Renewal::Renewed {
                answer: from_bigint(first.answer),
                now: first.now.0,
                expires_at: first.expires_at.0,
                standing: read_standing(rows)?,
            }),
        }
    }

    async fn explain_renewal(
        &self,
        worker: &WorkerName,
        term: Term,
        attach: Attach,
    ) -> Result<Renewal, StoreError> {
        self.check_timeline().await?;
        match self.explain_term(ATTEMPTED, worker, term, attach).await? {
            Some(TermRefusal::Unknown | TermRefusal::Closed) => Ok(Renewal::Closed),
            Some(TermRefusal::Displaced) => Ok(Renewal::Displaced),
            // Nothing forbids it by now; a lapse does not either.
            Some(TermRefusal::Lapsed | TermRefusal::WrongSecret | TermRefusal::OtherTenants) | None => {
                Err(StoreError::PositionTaken { attempted: ATTEMPTED })
            }
        }
    }
}

/// The renewal, and beside it one notice that stands, where there is any.
struct RenewalRow {
    answer: i64,
    expires_at: Stamp,
    hears: bool,
    now: Stamp,
    tenant: Option<String>,
    job: Option<Uuid>,
    epoch: Option<i64>,
    run: Option<i32>,
    generation: Option<i64>,
    notice: Option<i64>,
    kind: Option<String>,
}

fn read_standing(rows: Vec<RenewalRow>) -> Result<Vec<Standing>, StoreError> {
    rows.into_iter().filter_map(|row| row.into_standing().transpose()).collect()
}

impl RenewalRow {
    fn into_standing(self) -> Result<Option<Standing>, StoreError> {
        let (Some(tenant), Some(job), Some(epoch), Some(run), Some(generation), Some(notice)) =
            (self.tenant, self.job, self.epoch, self.run, self.generation, self.notice)
        else {
            return Ok(None);
        };
        Ok(Some(Standing {
            tenant: Reader(ATTEMPTED).tenant(tenant)?,
            job: JobId(job),
            epoch: Epoch(from_bigint(epoch)),
            run: Run(from_integer(run)),
            generation: Generation(from_bigint(generation)),
            notice: Seq(from_bigint(notice)),
            kind: read_kind(self.kind)?,
        }))
    }
}

fn read_kind(found: Option<String>) -> Result<&'static str, StoreError> {
    let found = found.unwrap_or_default();
    let known = NOTICE_KINDS.iter().copied().find(|known| *known == found);
    known.ok_or_else(|| Reader(ATTEMPTED).unknown("kind of a notice", found))
}
