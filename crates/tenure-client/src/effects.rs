//! Listing a job's effects, what a person has to decide about them, and what was said about that too late. A job is named by
//! its whole id, or by an ending of it that no other job has.

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use tenure_core::{
    effect::{Compensation, Disposition, EffectKey, EffectRecovery, Outcome},
    id::{Digest, Epoch, JobId, Run, Seq},
};
use tenure_proto::{
    convert::{
        InvalidField,
        effect::{
            read_compensation, read_disposition, read_effect_key, read_outcome, read_recovery,
            read_request_digest,
        },
        id::read_job_id,
        require,
    },
    v1,
};

use crate::{
    Client, ClientError,
    client::{Repeat, job_service},
    job::read_instant,
};

/// One attempt at an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// The effect.
    pub key: EffectKey,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// How it stands: `started`, `done`, `failed` or `reconciled`.
    pub state: &'static str,
    /// What became of the world; none while it is started or done.
    pub disposition: Option<Disposition>,
    /// What happens to it in doubt.
    pub recovery: EffectRecovery,
    /// False where nothing in the world is changed.
    pub mutates: bool,
    /// What it uses.
    pub tool: String,
    /// How it is undone.
    pub compensation: Compensation,
    /// The run that announced it.
    pub run: Run,
    /// The seq of its announcement.
    pub announced_seq: Seq,
    /// When it was announced.
    pub announced_at: Timestamp,
    /// The seq of its outcome; none: it has none.
    pub outcome_seq: Option<Seq>,
    /// SHA-256 of what it was announced with.
    pub request_digest: Digest,
    /// What it returned, or its error; none: nothing, or it was erased. In JSON as text, as far as it is text.
    #[serde(serialize_with = "write_text")]
    pub value: Option<Bytes>,
    /// The code that its command exited with, where it failed with one.
    pub exit_code: Option<i32>,
    /// True where what it returned was cut off before it was recorded.
    pub truncated: bool,
    /// True where a person has to decide.
    pub undecided: bool,
}

/// A page of a job's effects, in the order of their announcements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EffectPage {
    /// The whole id of the job.
    pub job_id: JobId,
    /// The attempts.
    pub effects: Vec<Effect>,
    /// Where the next page begins; none: this was the last.
    pub cursor: Option<String>,
}

/// An outcome that arrived after its run was fenced or its job sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Testimony {
    /// The effect.
    pub key: EffectKey,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The run that reported it.
    pub run: Run,
    /// The epoch of that run.
    pub epoch: Epoch,
    /// What it claims: `done`, `failed` or `reconciled`.
    pub state: &'static str,
    /// What became of the world, as claimed; none where it was done.
    pub disposition: Option<Disposition>,
    /// When it arrived.
    pub arrived_at: Timestamp,
    /// The output or error that it claims. In JSON as text, as far as it is text.
    #[serde(serialize_with = "write_text")]
    pub value: Option<Bytes>,
    /// True where the journal says otherwise.
    pub contradicts: bool,
}

/// A page of what is in doubt about a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UndecidedPage {
    /// The whole id of the job.
    pub job_id: JobId,
    /// The mutating effects in doubt, in the order of their announcements. What a later run may settle is not `undecided`.
    pub effects: Vec<Effect>,
    /// With the first page, what was said too late about effects in doubt, or against the journal, in the order of arrival.
    pub testimonies: Vec<Testimony>,
    /// How many of those there are in all, also where not all are listed.
    pub testimony_count: u64,
    /// Where the next page begins; none: this was the last.
    pub cursor: Option<String>,
}

impl Client {
    /// Reads a page of a job's effects, every attempt; a limit of 0 leaves the size to the fleet.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn list_effects(
        &self,
        job: &str,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<EffectPage, ClientError> {
        let cursor = cursor.unwrap_or_default().to_owned();
        let request = v1::ListEffectsRequest { job: job.to_owned(), limit, cursor };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).list_effects(request).await }
        };
        let answer = self.call(Repeat::Reads, ask).await?;
        Ok(EffectPage {
            job_id: read_job_id("job_id", &answer.job_id)?,
            effects: read_effects(answer.effects)?,
            cursor: Some(answer.cursor).filter(|cursor| !cursor.is_empty()),
        })
    }

    /// Reads a page of what is in doubt about a job; a limit of 0 leaves the size to the fleet.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn list_undecided(
        &self,
        job: &str,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<UndecidedPage, ClientError> {
        let cursor = cursor.unwrap_or_default().to_owned();
        let request = v1::ListUndecidedRequest { job: job.to_owned(), limit, cursor };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).list_undecided(request).await }
        };
        let answer = self.call(Repeat::Reads, ask).await?;
        Ok(UndecidedPage {
            job_id: read_job_id("job_id", &answer.job_id)?,
            effects: read_effects(answer.effects)?,
            testimony_count: answer.testimony_count,
            testimonies: answer.testimonies.into_iter().map(Testimony::read).collect::<Result<_, _>>()?,
            cursor: Some(answer.cursor).filter(|cursor| !cursor.is_empty()),
        })
    }
}

fn read_effects(given: Vec<v1::Effect>) -> Result<Vec<Effect>, InvalidField> {
    given.into_iter().map(Effect::read).collect()
}

impl Effect {
    fn read(given: v1::Effect) -> Result<Self, InvalidField> {
        let outcome: Outcome = read_outcome("effects.state", given.state, given.disposition)?;
        Ok(Self {
            key: read_effect_key("effects.key", &given.key)?,
            attempt: given.attempt,
            state: outcome.state(),
            disposition: read_disposition("effects.disposition", given.disposition)?,
            recovery: require("effects.recovery", read_recovery("effects.recovery", given.recovery)?)?,
            mutates: given.mutates,
            tool: given.tool,
            compensation: read_compensation("effects.compensation", given.compensation)?,
            run: Run(given.run),
            announced_seq: Seq(given.announced_seq),
            announced_at: read_instant("effects.announced_at", given.announced_at.as_ref())?,
            outcome_seq: Some(Seq(given.outcome_seq)).filter(|seq| *seq > Seq(0)),
            request_digest: read_request_digest("effects.request_digest", &given.request_digest)?,
            value: given.value,
            exit_code: given.exit_code,
            truncated: given.truncated,
            undecided: given.undecided,
        })
    }
}

impl Testimony {
    fn read(given: v1::Testimony) -> Result<Self, InvalidField> {
        let claimed: Outcome = read_outcome("testimonies.state", given.state, given.disposition)?;
        Ok(Self {
            key: read_effect_key("testimonies.key", &given.key)?,
            attempt: given.attempt,
            run: Run(given.run),
            epoch: Epoch(given.epoch),
            state: claimed.state(),
            disposition: claimed.disposition(),
            arrived_at: read_instant("testimonies.arrived_at", given.arrived_at.as_ref())?,
            value: given.value,
            contradicts: given.contradicts,
        })
    }
}

#[expect(clippy::ref_option, reason = "the shape that serde asks for")]
fn write_text<S: serde::Serializer>(value: &Option<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_deref().map(String::from_utf8_lossy).serialize(serializer)
}
