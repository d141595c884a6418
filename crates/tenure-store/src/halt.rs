//! Halts: thrown, lifted, listed, and which of them stand against a submission. What they refuse is refused by the statements
//! that store and claim jobs; a row that this release cannot read is an error, and never passed over. It decides nothing.
//! Neighbours: `submission` and `claim` are refused, `facts` says what stands against a job.

use jiff::Timestamp;
use sqlx::query_file_as;
use tenure_core::{
    credential::Tenants,
    halt::{Halt, Lift, Scope, StandingHalt},
    id::{HaltId, Tenant},
    limits::HALTS_STANDING_MAX,
    principal::Principal,
};

use crate::{
    NewJob, Store, StoreError,
    stored::{Reader, from_bigint, to_bigint},
    timestamp::Stamp,
};

/// What became of a halt that was thrown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thrown {
    /// It stands from now on.
    New(Halt),
    /// The same person had thrown it before, for the same reason.
    Standing(Halt),
    /// As many stand as may: [`HALTS_STANDING_MAX`].
    TooMany,
}

/// What became of a lift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lifted {
    /// It does not stand any more.
    Now(Halt),
    /// It had been lifted before.
    Before(Halt),
    /// There is none of this number within the tenants that were named.
    Unknown,
    /// It is the fleet's, and the tenants that were named are not all.
    NotGranted,
}

/// Which halts to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaltFilter {
    /// Those of these tenants, and the fleet's.
    pub tenants: Tenants,
    /// Also those that were lifted.
    pub lifted: bool,
    /// Only those older than this one: the last of the page before.
    pub before: Option<HaltId>,
    /// At most so many.
    pub limit: u32,
}

impl Store {
    /// Throws a halt. It holds for every statement that begins once this has returned, at all coordinators.
    ///
    /// # Errors
    /// `TimelineChanged`; the database does not answer.
    pub async fn throw_halt(
        &self,
        tenant: Option<&Tenant>,
        scope: &Scope,
        by: &Principal,
        why: &str,
    ) -> Result<Thrown, StoreError> {
        const ATTEMPTED: &str = "throwing a halt";
        let (tenant, name) = (tenant.map(Tenant::as_str), scope.name());
        let by = serde_json::json!(by);
        let most = i64::from(HALTS_STANDING_MAX);
        let thrown = query_file_as!(
            HaltRow,
            "queries/halts/throw_halt.sql",
            scope.word(),
            tenant,
            name.as_deref(),
            why,
            &by,
            most
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::while_doing(ATTEMPTED))?;
        if let Some(row) = thrown {
            return row.into_halt(Reader(ATTEMPTED)).map(Thrown::New);
        }
        self.check_timeline().await?;
        let standing = query_file_as!(
            HaltRow,
            "queries/halts/find_standing_halt.sql",
            scope.word(),
            tenant,
            name.as_deref(),
            why,
            &by
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::while_doing(ATTEMPTED))?;
        standing.map_or(Ok(Thrown::TooMany), |row| row.into_halt(Reader(ATTEMPTED)).map(Thrown::Standing))
    }

    /// Lifts a halt of one of these tenants; the fleet's takes all of them.
    ///
    /// # Errors
    /// `TimelineChanged`; the database does not answer.
    pub async fn lift_halt(
        &self,
        halt: HaltId,
        tenants: &Tenants,
        by: &Principal,
        why: &str,
    ) -> Result<Lifted, StoreError> {
        const ATTEMPTED: &str = "lifting a halt";
        let lifted = query_file_as!(
            HaltRow,
            "queries/halts/lift_halt.sql",
            to_bigint(halt.0),
            &tenants.to_texts(),
            serde_json::json!(by),
            why
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::while_doing(ATTEMPTED))?;
        if let Some(row) = lifted {
            return row.into_halt(Reader(ATTEMPTED)).map(Lifted::Now);
        }
        self.check_timeline().await?;
        let before = Some(halt.next());
        let filter = HaltFilter { tenants: tenants.clone(), lifted: true, before, limit: 1 };
        let found = self.list_halts(&filter).await?.pop().filter(|found| found.id == halt);
        Ok(match found {
            Some(found) if found.lift.is_some() => Lifted::Before(found),
            Some(_) => Lifted::NotGranted,
            None => Lifted::Unknown,
        })
    }

    /// Reads a page of halts, newest first.
    ///
    /// # Errors
    /// The database does not answer; a row cannot be read.
    pub async fn list_halts(&self, filter: &HaltFilter) -> Result<Vec<Halt>, StoreError> {
        let attempted = "listing halts";
        let rows = query_file_as!(
            HaltRow,
            "queries/halts/list_halts.sql",
            &filter.tenants.to_texts(),
            filter.lifted,
            filter.before.map(|halt| to_bigint(halt.0)),
            i64::from(filter.limit)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter().map(|row| row.into_halt(Reader(attempted))).collect()
    }

    /// The broadest halt that stands against each submission, in the order given.
    pub(crate) async fn find_halts(
        &self,
        attempted: &'static str,
        jobs: &[&NewJob],
    ) -> Result<Vec<Option<StandingHalt>>, StoreError> {
        let mut found: Vec<Option<StandingHalt>> = vec![None; jobs.len()];
        if jobs.is_empty() {
            return Ok(found);
        }
        let numbers: Vec<_> = (0..jobs.len()).map(|no| to_bigint(no as u64)).collect();
        let tenants: Vec<_> = jobs.iter().map(|job| job.tenant.to_string()).collect();
        let agents: Vec<_> = jobs.iter().map(|job| job.agent.to_string()).collect();
        let declarations: Vec<_> = jobs.iter().map(|job| job.declaration.0.to_vec()).collect();
        let submitters: Vec<_> = jobs.iter().map(|job| job.submitted_by.clone()).collect();
        let rows = sqlx::query_file!(
            "queries/halts/match_halts.sql",
            &numbers,
            &tenants,
            &agents,
            &declarations,
            &submitters
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        for row in rows {
            let scope = read_scope(Reader(attempted), &row.scope, row.name.as_deref())?;
            let halt = StandingHalt { scope, id: HaltId(from_bigint(row.halt)), why: row.why };
            if let Some(place) = usize::try_from(row.no).ok().and_then(|no| found.get_mut(no))
                && place.as_ref().is_none_or(|known| halt < *known)
            {
                *place = Some(halt);
            }
        }
        Ok(found)
    }
}

/// A halt as a statement composes it into JSON.
#[derive(serde::Deserialize)]
struct StoredHalt {
    id: i64,
    scope: String,
    name: Option<String>,
    why: String,
}

/// The halts that stand against a job, the broadest first.
pub(crate) fn read_standing_halts(
    found: Option<serde_json::Value>,
    reader: Reader,
) -> Result<Vec<StandingHalt>, StoreError> {
    let found: Option<Vec<StoredHalt>> = found.map(|found| reader.json("halts", found)).transpose()?;
    let halts = found.unwrap_or_default().into_iter().map(|one| {
        let scope = read_scope(reader, &one.scope, one.name.as_deref())?;
        Ok(StandingHalt { scope, id: HaltId(from_bigint(one.id)), why: one.why })
    });
    let mut halts: Vec<StandingHalt> = halts.collect::<Result<_, StoreError>>()?;
    halts.sort();
    Ok(halts)
}

fn read_scope(reader: Reader, word: &str, name: Option<&str>) -> Result<Scope, StoreError> {
    Scope::from_parts(word, name).map_err(|invalid| reader.unknown("scope of a halt", invalid.given))
}

struct HaltRow {
    halt: i64,
    scope: String,
    tenant: Option<String>,
    name: Option<String>,
    why: String,
    thrown_by: serde_json::Value,
    thrown_at: Stamp,
    lifted_by: Option<serde_json::Value>,
    lift_why: Option<String>,
    lifted_at: Option<Stamp>,
}

impl HaltRow {
    fn into_halt(self, reader: Reader) -> Result<Halt, StoreError> {
        Ok(Halt {
            id: HaltId(from_bigint(self.halt)),
            tenant: self.tenant.map(|tenant| reader.tenant(tenant)).transpose()?,
            scope: read_scope(reader, &self.scope, self.name.as_deref())?,
            by: reader.json("who threw a halt", self.thrown_by)?,
            why: self.why,
            at: self.thrown_at.0,
            lift: read_lift(reader, self.lifted_by, self.lift_why, self.lifted_at.map(|at| at.0))?,
        })
    }
}

fn read_lift(
    reader: Reader,
    by: Option<serde_json::Value>,
    why: Option<String>,
    at: Option<Timestamp>,
) -> Result<Option<Lift>, StoreError> {
    let (Some(by), Some(why), Some(at)) = (by, why, at) else { return Ok(None) };
    Ok(Some(Lift { by: reader.json("who lifted a halt", by)?, why, at }))
}
