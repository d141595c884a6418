//! Reading jobs and acting on them. A job is named by its whole id, or by an ending of it that no other job has.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use tenure_core::job::State;
use tenure_proto::{
    convert::{blob::read_blob_ref, state::write_state, time::write_timestamp},
    v1,
};

use crate::{
    Client, ClientError,
    blobs::BlobReader,
    client::{Repeat, job_service},
    job::{Job, JobPage},
};

/// Which jobs a listing shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Only these states. Empty: all.
    pub states: Vec<State>,
    /// Only this agent.
    pub agent: Option<String>,
    /// Only jobs submitted at or after.
    pub since: Option<Timestamp>,
    /// Only jobs that bear all of these labels.
    pub labels: BTreeMap<String, String>,
}

/// What a job returned.
#[derive(Debug)]
pub enum JobResult {
    /// All of it.
    Whole(Bytes),
    /// More than 256 KiB, to be read in pieces.
    Large(Box<BlobReader>),
}

impl Client {
    /// Reads one job.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn get_job(&self, job: &str) -> Result<Job, ClientError> {
        let request = v1::GetJobRequest { job: job.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).get_job(request).await }
        };
        Ok(Job::read(self.call(Repeat::Reads, ask).await?.job)?)
    }

    /// Reads a page of jobs, newest first; a limit of 0 leaves the size to the fleet.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn list_jobs(
        &self,
        filter: &JobFilter,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<JobPage, ClientError> {
        let request = v1::ListJobsRequest {
            states: filter.states.iter().map(|state| write_state(*state) as i32).collect(),
            agent: filter.agent.clone().unwrap_or_default(),
            since: filter.since.map(write_timestamp),
            labels: filter.labels.clone().into_iter().collect(),
            limit,
            cursor: cursor.unwrap_or_default().to_owned(),
        };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).list_jobs(request).await }
        };
        Ok(JobPage::read(self.call(Repeat::Reads, ask).await?)?)
    }

    /// Reads what a job returned.
    ///
    /// # Errors
    /// The fleet refuses or does not answer.
    pub async fn get_result(&self, job: &str) -> Result<Bytes, ClientError> {
        match self.open_result(job).await? {
            JobResult::Whole(result) => Ok(result),
            JobResult::Large(reader) => reader.read_whole().await,
        }
    }

    /// The same without reading a large one.
    ///
    /// # Errors
    /// As `get_result`.
    pub async fn open_result(&self, job: &str) -> Result<JobResult, ClientError> {
        let request = v1::GetResultRequest { job: job.to_owned(), accept_blob: true };
        let ask = |channel| {
            let request = request.clone();
            async move { job_service(channel).get_result(request).await }
        };
        let answer = self.call(Repeat::Reads, ask).await?;
        match answer.blob {
            None => Ok(JobResult::Whole(answer.result)),
            Some(blob) => {
                let job = self.get_job(job).await?.id;
                Ok(JobResult::Large(self.read_blob(job, read_blob_ref("blob", &blob)?).into()))
            }
        }
    }
}
