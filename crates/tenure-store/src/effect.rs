//! Reading effects: the last attempt under a key, for the run that is about to announce it, and listings for people. Rows are
//! written by `append`, with the records that they follow from; here nothing is written. What an attempt returned stands in
//! the journal, beside its outcome's record. Neighbours: `append`, `testimony`.

use jiff::Timestamp;
use tenure_core::{
    effect::{Compensation, Doubt, EffectKey, EffectRecovery, LastAttempt},
    id::{Digest, JobId, Run, Seq, Tenant},
    limits::RECORD_PAGE_MAX_BYTES,
    record::{Record, RecordKind},
};

use crate::{
    Store, StoreError,
    stored::{Reader, from_bigint, from_integer, to_bigint},
    timestamp::Stamp,
};

/// One attempt at an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectRow {
    /// The effect.
    pub key: EffectKey,
    /// How the attempt stands.
    pub last: LastAttempt,
    /// What it uses.
    pub tool: String,
    /// How it is undone.
    pub compensation: Compensation,
    /// The seq of its outcome; none: it has none.
    pub outcome_seq: Option<Seq>,
    /// What it returned, or its error; none: nothing, or it was erased.
    pub value: Option<Vec<u8>>,
    /// The code that its command exited with, where it failed with one.
    pub exit_code: Option<i32>,
    /// True where what it returned was cut off before it was recorded.
    pub truncated: bool,
    /// True where its outcome names a value that is not there any more.
    pub erased: bool,
    /// True where the run that announced it holds the job and it has no outcome: no doubt yet.
    pub under_way: bool,
}

/// A step that is to be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepToUndo {
    /// Its key.
    pub key: EffectKey,
    /// The attempt that landed.
    pub attempt: u32,
    /// What was declared to happen to it in doubt, and holds for its undoing.
    pub recovery: EffectRecovery,
    /// What it used.
    pub tool: String,
    /// Its command, undo and probe as JSON; none: they were erased.
    pub request: Option<Vec<u8>>,
    /// What it returned; none: nothing that can be used, or it was erased.
    pub output: Option<Vec<u8>>,
    /// True where nobody knows whether it took effect: it is looked up first.
    pub in_doubt: bool,
}

/// A page of a job's effects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EffectPage {
    /// In the order of their announcements.
    pub effects: Vec<EffectRow>,
    /// The announcement after which the next page begins, which may turn out to be empty; none: there was nothing more.
    pub next: Option<Seq>,
}

/// Which attempts to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectFilter {
    /// All.
    All,
    /// Those that mutate, and of which nobody knows whether they happened.
    InDoubt,
}

impl EffectRow {
    /// True where nobody but a person can decide what became of it.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        let doubt = Doubt { key: self.key.clone(), last: self.last.clone() };
        self.last.mutates && self.last.is_in_doubt() && !self.under_way && doubt.needs_a_person()
    }
}

impl Store {
    /// Reads the last attempt under a key; nothing where nothing was announced.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_last_attempt(
        &self,
        tenant: &Tenant,
        job: JobId,
        key: &EffectKey,
    ) -> Result<Option<EffectRow>, StoreError> {
        let attempted = "reading the last attempt at an effect";
        let row = sqlx::query_file_as!(
            StoredEffect,
            "queries/effects/read_last_attempt.sql",
            tenant.as_str(),
            job.0,
            key.as_str()
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        row.map(|row| row.into_effect(Reader(attempted))).transpose()
    }

    /// Reads the step of a job that is to be undone next, the last that landed; nothing where nothing is left that can be. Where
    /// keys are named, only one of those, whatever pivot came after it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_step_to_undo(
        &self,
        tenant: &Tenant,
        job: JobId,
        keys: &[EffectKey],
    ) -> Result<Option<StepToUndo>, StoreError> {
        let attempted = "reading the step that is to be undone next";
        let keys: Vec<_> = keys.iter().map(|key| key.as_str().to_owned()).collect();
        let found = sqlx::query_file!("queries/effects/read_step_to_undo.sql", tenant.as_str(), job.0, &keys)
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        let Some(row) = found else { return Ok(None) };
        let reader = Reader(attempted);
        Ok(Some(StepToUndo {
            key: reader.parse("key of an effect", row.key)?,
            attempt: from_integer(row.attempt),
            recovery: reader.effect_recovery(row.recovery)?,
            tool: row.tool,
            request: row.request,
            output: row.output,
            in_doubt: row.in_doubt,
        }))
    }

    /// Lists attempts that were announced after a seq, in order. A page ends at `limit` or at
    /// `limits::RECORD_PAGE_MAX_BYTES`, whichever is first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_effects(
        &self,
        tenant: &Tenant,
        job: JobId,
        filter: EffectFilter,
        after: Seq,
        limit: u32,
    ) -> Result<EffectPage, StoreError> {
        let attempted = "listing effects";
        let rows = sqlx::query_file_as!(
            StoredEffect,
            "queries/effects/list_effects.sql",
            tenant.as_str(),
            job.0,
            to_bigint(after.0),
            filter == EffectFilter::InDoubt,
            i64::from(limit),
            i64::from(RECORD_PAGE_MAX_BYTES)
        )
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::while_doing(attempted))?;
        let came = rows.len() as u64;
        let more = rows.last().is_some_and(|last| from_bigint(last.found) > came || came == u64::from(limit));
        let read = |row: StoredEffect| row.into_effect(Reader(attempted));
        let effects: Vec<EffectRow> = rows.into_iter().map(read).collect::<Result<_, _>>()?;
        let next = effects.last().filter(|_| more).map(|last| last.last.announced);
        Ok(EffectPage { effects, next })
    }
}

/// A row, as the driver reads it.
struct StoredEffect {
    key: String,
    attempt: i32,
    state: String,
    disposition: Option<String>,
    recovery: String,
    mutates: bool,
    tool: String,
    compensation: String,
    request: Vec<u8>,
    run: i32,
    announced_seq: i64,
    announced_at: Stamp,
    outcome_seq: Option<i64>,
    outcome_bytes: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    under_way: bool,
    found: i64,
}

impl StoredEffect {
    fn into_effect(self, reader: Reader) -> Result<EffectRow, StoreError> {
        let request: Digest = reader.digest(&self.request)?;
        let outcome = self.outcome_bytes.as_deref().map_or_else(RecordedEnd::default, RecordedEnd::read);
        Ok(EffectRow {
            exit_code: outcome.exit_code,
            truncated: outcome.truncated,
            erased: outcome.has_value && self.value.is_none(),
            key: reader.parse("key of an effect", self.key)?,
            last: LastAttempt {
                attempt: from_integer(self.attempt),
                run: Run(from_integer(self.run)),
                announced: Seq(from_bigint(self.announced_seq)),
                since: self.announced_at.0,
                recovery: reader.effect_recovery(self.recovery)?,
                mutates: self.mutates,
                request,
                outcome: reader.outcome(&self.state, self.disposition.as_deref())?,
            },
            tool: self.tool,
            compensation: reader.compensation(self.compensation)?,
            outcome_seq: self.outcome_seq.map(from_bigint).map(Seq),
            value: self.value,
            under_way: self.under_way,
        })
    }
}

/// What the record of an outcome says beside what its row has. One that this release does not know says nothing.
#[derive(Default)]
struct RecordedEnd {
    exit_code: Option<i32>,
    truncated: bool,
    has_value: bool,
}

impl RecordedEnd {
    fn read(bytes: &[u8]) -> Self {
        match serde_json::from_slice::<Record>(bytes).map(|record| record.kind) {
            Ok(RecordKind::EffectFailed { exit_code, .. }) => {
                Self { exit_code, truncated: false, has_value: true }
            }
            Ok(RecordKind::EffectDone { truncated, .. }) => {
                Self { exit_code: None, truncated, has_value: true }
            }
            Ok(RecordKind::EffectReconciled { value, .. }) => {
                Self { exit_code: None, truncated: false, has_value: value.is_some() }
            }
            Ok(_) | Err(_) => Self::default(),
        }
    }
}

/// An effect in doubt as the facts of a job hold it, in JSON that the statement composes.
#[derive(serde::Deserialize)]
pub(crate) struct StoredDoubt {
    key: String,
    attempt: u32,
    state: String,
    disposition: Option<String>,
    recovery: String,
    mutates: bool,
    request: Digest,
    run: u32,
    announced_seq: u64,
    announced_at: Timestamp,
}

impl StoredDoubt {
    pub(crate) fn into_doubt(self, reader: Reader) -> Result<Doubt, StoreError> {
        let last = LastAttempt {
            attempt: self.attempt,
            run: Run(self.run),
            announced: Seq(self.announced_seq),
            since: self.announced_at,
            recovery: reader.effect_recovery(self.recovery)?,
            mutates: self.mutates,
            request: self.request,
            outcome: reader.outcome(&self.state, self.disposition.as_deref())?,
        };
        Ok(Doubt { key: reader.parse("key of an effect", self.key)?, last })
    }
}
