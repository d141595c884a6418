//! Submitting jobs. A submission whose answer was lost is sent again, so every submission must have an idempotency key:
//! one that the caller gave none gets a random one here, before it is first sent, and only this client knows it. The same
//! key answers with the same job; so nothing is submitted twice, whatever breaks on the way.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use tenure_core::{
    id::{JobId, SessionId},
    record::{DeadlineSetting, ValueRef},
    refusal::Refusal,
};
use tenure_proto::{
    convert::{
        InvalidField,
        blob::write_blob_ref,
        id::{read_job_id, read_session_id},
        require,
        submission::{read_refusal, write_deadline},
        time::{read_optional_timestamp, write_timestamp},
    },
    v1,
};
use uuid::Uuid;

use crate::{
    Client, ClientError,
    client::{Repeat, job_service},
};

/// One piece of work to submit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Submission {
    /// For which agent.
    pub agent: String,
    /// The raw input.
    pub input: Bytes,
    /// An input that `put_blob` stored, instead of `input`.
    pub input_blob: Option<ValueRef>,
    /// The idempotency key; none: a random one, so that sending again is safe.
    pub key: Option<String>,
    /// When the session must be over; none: the agent's own limit, otherwise one hour.
    pub deadline: Option<DeadlineSetting>,
    /// What to attach.
    pub labels: BTreeMap<String, String>,
    /// 0 (low) to 3 (urgent); none: 1.
    pub priority: Option<u32>,
    /// Not to be started before.
    pub not_before: Option<Timestamp>,
    /// W3C trace context of the submitter.
    pub traceparent: Option<String>,
}

/// A submission that was accepted; it is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Admitted {
    /// The job.
    pub job_id: JobId,
    /// Its session.
    pub session_id: SessionId,
    /// The session's deadline; none: no ceiling.
    pub deadline_at: Option<Timestamp>,
    /// True where the key had been used before, with the same payload: this is the earlier job.
    pub already_submitted: bool,
}

impl Client {
    /// Submits one job.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn submit_job(&self, submission: Submission) -> Result<Admitted, ClientError> {
        let request = v1::SubmitJobRequest { submission: Some(submission.write()) };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).submit_job(request).await }
        };
        Ok(Admitted::read(self.call(Repeat::Harmless, ask).await?.admitted)?)
    }

    /// Submits many jobs in one call; each is accepted or refused by itself, in the order of the request.
    ///
    /// # Errors
    /// The fleet refuses the whole or does not answer.
    pub async fn submit_jobs(
        &self,
        submissions: Vec<Submission>,
    ) -> Result<Vec<Result<Admitted, Refusal>>, ClientError> {
        let request =
            v1::SubmitJobsRequest { submissions: submissions.into_iter().map(Submission::write).collect() };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).submit_jobs(request).await }
        };
        let answer = self.call(Repeat::Harmless, ask).await?;
        Ok(answer.items.into_iter().map(read_item).collect::<Result<_, _>>()?)
    }
}

impl Submission {
    fn write(self) -> v1::Submission {
        v1::Submission {
            agent: self.agent,
            input: self.input,
            input_blob: self.input_blob.map(write_blob_ref),
            key: Some(self.key.unwrap_or_else(|| format!("client-{}", Uuid::now_v7()))),
            deadline: self.deadline.map(write_deadline),
            labels: self.labels.into_iter().collect(),
            priority: self.priority,
            not_before: self.not_before.map(write_timestamp),
            traceparent: self.traceparent.unwrap_or_default(),
        }
    }
}

impl Admitted {
    fn read(given: Option<v1::Admitted>) -> Result<Self, InvalidField> {
        let given = require("admitted", given)?;
        Ok(Self {
            job_id: read_job_id("admitted.job_id", &given.job_id)?,
            session_id: read_session_id("admitted.session_id", &given.session_id)?,
            deadline_at: read_optional_timestamp("admitted.deadline_at", given.deadline_at.as_ref())?,
            already_submitted: given.already_submitted,
        })
    }
}

fn read_item(item: v1::SubmitJobsItem) -> Result<Result<Admitted, Refusal>, InvalidField> {
    match require("outcome", item.outcome)? {
        v1::submit_jobs_item::Outcome::Admitted(admitted) => Admitted::read(Some(admitted)).map(Ok),
        v1::submit_jobs_item::Outcome::Refused(refusal) => read_refusal(refusal).map(Err),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submission_without_a_key_gets_one_of_its_own() {
        let [first, second] =
            [Submission::default().write().key.unwrap(), Submission::default().write().key.unwrap()];
        assert_ne!(first, second);
        let given = Submission { key: Some("mine".into()), ..Submission::default() };
        assert_eq!(given.write().key.as_deref(), Some("mine"));
    }
}
