//! Outcomes of effects that arrived after their run was fenced or their job sealed. They stand outside the chain and decide
//! nothing; people read them beside what is in doubt. Keeping one twice is harmless. Neighbours: lanes keep it where they
//! refuse the report that it came with; `effect` lists the doubts that it is about.

use jiff::Timestamp;
use tenure_core::{
    effect::{Disposition, EffectKey, EffectMark, Outcome},
    id::{Epoch, JobId, Run, Tenant},
    limits::{RECORD_PAGE_MAX_BYTES, TESTIMONIES_MAX, TESTIMONIES_PER_ATTEMPT_MAX},
    run_ref::RunRef,
};

use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, from_integer, to_bigint, to_integer},
    timestamp::Stamp,
};

/// What a late report says about one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTestimony {
    /// The run that reports.
    pub run: RunRef,
    /// The number of the report in its run.
    pub n: u64,
    /// The place of the record in the report.
    pub place: u32,
    /// What it says.
    pub mark: EffectMark,
    /// The output or error that came with it.
    pub value: Option<Vec<u8>>,
}

/// A late report about one attempt, as it was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestimonyRow {
    /// The job.
    pub job: JobId,
    /// The effect.
    pub key: EffectKey,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The run that reported.
    pub run: Run,
    /// Its epoch.
    pub epoch: Epoch,
    /// How the attempt ended, as claimed.
    pub claimed: Outcome,
    /// How it ended, as recorded; none: the attempt has no row.
    pub recorded: Option<Outcome>,
    /// When it arrived.
    pub arrived_at: Timestamp,
    /// The output or error that it claimed.
    pub value: Option<Vec<u8>>,
}

/// What came too late and matters to a person.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TestimonyPage {
    /// The first of them.
    pub listed: Vec<TestimonyRow>,
    /// How many there are in all.
    pub count: u64,
}

impl TestimonyRow {
    /// True where the journal says otherwise about what became of the world.
    #[must_use]
    pub fn contradicts(&self) -> bool {
        let recorded = self.recorded.and_then(Outcome::happened);
        recorded.is_some_and(|recorded| self.claimed.happened().is_some_and(|claimed| claimed != recorded))
    }
}

impl Store {
    /// Keeps outcomes that came too late, of one attempt at most `limits::TESTIMONIES_PER_ATTEMPT_MAX`. Announcements are not
    /// kept: they were not permitted. Returns what was kept and was not there before, without its values.
    ///
    /// # Errors
    /// The database does not answer. `Data`: nothing was kept, because of one of them.
    pub async fn keep_testimony(&self, testimony: &[NewTestimony]) -> Result<Vec<TestimonyRow>, StoreError> {
        let attempted = "keeping outcomes that came too late";
        let mut columns = Columns::default();
        testimony.iter().for_each(|testimony| columns.push(testimony));
        if columns.tenant.is_empty() {
            return Ok(Vec::new());
        }
        let rows = sqlx::query_file_as!(
            StoredTestimony,
            "queries/testimony/keep_testimony.sql",
            &columns.tenant as _,
            &columns.job,
            &columns.epoch,
            &columns.n,
            &columns.place,
            &columns.run,
            &columns.key as _,
            &columns.attempt,
            &columns.state as _,
            &columns.disposition as _,
            &columns.value as _,
            i64::from(TESTIMONIES_PER_ATTEMPT_MAX)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter().map(|row| row.into_testimony(Reader(attempted))).collect()
    }

    /// Lists what came too late about the effects of a job that are in doubt, or contradicts the journal, in the order of
    /// arrival; at most `limits::TESTIMONIES_MAX`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_testimony(&self, tenant: &Tenant, job: JobId) -> Result<TestimonyPage, StoreError> {
        let attempted = "listing outcomes that came too late";
        let rows = sqlx::query_file_as!(
            StoredTestimony,
            "queries/testimony/list_testimony.sql",
            tenant.as_str(),
            job.0,
            i64::from(TESTIMONIES_MAX),
            i64::from(RECORD_PAGE_MAX_BYTES)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        let count = rows.first().map_or(0, |row| from_bigint(row.found));
        let listed = rows.into_iter().map(|row| row.into_testimony(Reader(attempted)));
        Ok(TestimonyPage { listed: listed.collect::<Result<_, _>>()?, count })
    }
}

#[derive(Default)]
struct Columns<'a> {
    tenant: Vec<&'a str>,
    job: Vec<uuid::Uuid>,
    epoch: Vec<i64>,
    n: Vec<i64>,
    place: Vec<i32>,
    run: Vec<i32>,
    key: Vec<&'a str>,
    attempt: Vec<i32>,
    state: Vec<&'static str>,
    disposition: Vec<Option<&'static str>>,
    value: Vec<Option<&'a [u8]>>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, testimony: &'a NewTestimony) {
        let Some(claimed) = testimony.mark.act.outcome() else { return };
        self.tenant.push(testimony.run.tenant.as_str());
        self.job.push(testimony.run.job.0);
        self.epoch.push(to_bigint(testimony.run.epoch.0));
        self.n.push(to_bigint(testimony.n));
        self.place.push(to_integer(testimony.place));
        self.run.push(to_integer(testimony.run.run.0));
        self.key.push(testimony.mark.key.as_str());
        self.attempt.push(to_integer(testimony.mark.attempt));
        self.state.push(claimed.state());
        self.disposition.push(claimed.disposition().map(Disposition::word));
        self.value.push(testimony.value.as_deref());
    }
}

/// A row, as the driver reads it.
struct StoredTestimony {
    job: uuid::Uuid,
    key: String,
    attempt: i32,
    run: i32,
    epoch: i64,
    state: String,
    disposition: Option<String>,
    arrived_at: Stamp,
    value: Option<Vec<u8>>,
    recorded_state: Option<String>,
    recorded_disposition: Option<String>,
    found: i64,
}

impl StoredTestimony {
    fn into_testimony(self, reader: Reader) -> Result<TestimonyRow, StoreError> {
        let recorded = self.recorded_state.as_deref();
        let recorded = recorded.map(|state| reader.outcome(state, self.recorded_disposition.as_deref()));
        Ok(TestimonyRow {
            job: JobId(self.job),
            claimed: reader.outcome(&self.state, self.disposition.as_deref())?,
            recorded: recorded.transpose()?,
            key: reader.parse("key of an effect", self.key)?,
            attempt: from_integer(self.attempt),
            run: Run(from_integer(self.run)),
            epoch: Epoch(from_bigint(self.epoch)),
            arrived_at: self.arrived_at.0,
            value: self.value,
        })
    }
}
