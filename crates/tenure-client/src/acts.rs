//! What people ask of jobs: to be cancelled, restarted, answered, judged again, given up, to go on. A job is named by its
//! whole id, or by an ending of it that no other job has. Each is sent again only where that is harmless.

use bytes::Bytes;
use tenure_core::id::{Digest, Epoch};
use tenure_proto::v1::{self, reconcile_effect_request::Answer as Given};

use crate::{
    Client, ClientError,
    client::{Repeat, job_service},
    job::Job,
};

/// What a person says became of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It happened, and this is what it returned.
    Done(Bytes),
    /// It did not happen.
    NotDone,
}

impl Client {
    /// Asks for a job to be cancelled. True beside the job: an earlier request stands.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn cancel_job(&self, job: &str, why: &str) -> Result<(Job, bool), ClientError> {
        let request = v1::CancelJobRequest { job: job.to_owned(), why: why.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).cancel_job(request).await }
        };
        let answer = self.call(Repeat::Harmless, ask).await?;
        Ok((Job::read(answer.job)?, answer.already_requested))
    }

    /// Restarts an interrupted job on a person's authority. Sent again only where it was never sent, because the job may
    /// have been interrupted anew in between.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn recover_job(&self, job: &str, why: &str) -> Result<Job, ClientError> {
        let request = v1::RecoverJobRequest { job: job.to_owned(), why: why.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).recover_job(request).await }
        };
        Ok(Job::read(self.call(Repeat::OnlyUnsent, ask).await?.job)?)
    }

    /// Vouches that the child of one run is gone. Sent again only where it was never sent.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn confirm_gone(&self, job: &str, epoch: Epoch, why: &str) -> Result<Job, ClientError> {
        let request = v1::ConfirmGoneRequest { job: job.to_owned(), epoch: epoch.0, why: why.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).confirm_gone(request).await }
        };
        Ok(Job::read(self.call(Repeat::OnlyUnsent, ask).await?.job)?)
    }

    /// Answers one effect in doubt of a quarantined job. Sent again only where it was never sent: the answer that was taken
    /// would be refused the second time.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn reconcile_effect(
        &self,
        job: &str,
        key: &str,
        answer: Answer,
        why: &str,
    ) -> Result<Job, ClientError> {
        let answer = match answer {
            Answer::Done(value) => Given::Done(value),
            Answer::NotDone => Given::NotDone(v1::EffectNotDone {}),
        };
        let (job, key, why) = (job.to_owned(), key.to_owned(), why.to_owned());
        let request = v1::ReconcileEffectRequest { job, key, answer: Some(answer), why };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).reconcile_effect(request).await }
        };
        Ok(Job::read(self.call(Repeat::OnlyUnsent, ask).await?.job)?)
    }

    /// Has a quarantined job judged again, and where a declaration is accepted, held to that from now on. Sent again only
    /// where it was never sent.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn reopen_job(
        &self,
        job: &str,
        why: &str,
        accepted: Option<Digest>,
    ) -> Result<Job, ClientError> {
        let accept_declaration = accepted.map(|digest| Bytes::copy_from_slice(&digest.0));
        let request = v1::ReopenJobRequest { job: job.to_owned(), why: why.to_owned(), accept_declaration };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).reopen_job(request).await }
        };
        Ok(Job::read(self.call(Repeat::OnlyUnsent, ask).await?.job)?)
    }

    /// Gives a job up. True beside the job: an earlier request stands.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn abandon_job(&self, job: &str, why: &str) -> Result<(Job, bool), ClientError> {
        let request = v1::AbandonJobRequest { job: job.to_owned(), why: why.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).abandon_job(request).await }
        };
        // Sent again, it would be refused where the first one sealed the job.
        let answer = self.call(Repeat::OnlyUnsent, ask).await?;
        Ok((Job::read(answer.job)?, answer.already_requested))
    }

    /// Has a failed, exhausted or withheld job go on. Sent again only where it was never sent.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn resume_job(&self, job: &str, why: &str) -> Result<Job, ClientError> {
        let request = v1::ResumeJobRequest { job: job.to_owned(), why: why.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).resume_job(request).await }
        };
        Ok(Job::read(self.call(Repeat::OnlyUnsent, ask).await?.job)?)
    }

    /// Redirects a job with a note. Sent again only where it was never sent: it would redirect the run that started for it.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn steer_job(&self, job: &str, note: &str) -> Result<Job, ClientError> {
        let request = v1::SteerJobRequest { job: job.to_owned(), note: note.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).steer_job(request).await }
        };
        Ok(Job::read(self.call(Repeat::OnlyUnsent, ask).await?.job)?)
    }
}
