//! Waiting until a job is at rest: concluded, or in need of a person. It watches the journal, so it neither polls nor
//! misses a conclusion between two looks.

use std::time::Duration;

use tokio::time::timeout;

use crate::{
    Client, ClientError,
    job::{Job, is_at_rest},
};

impl Client {
    /// Waits until nothing goes on by itself any longer, and returns the job as it stands then. Without a limit it waits
    /// for ever.
    ///
    /// # Errors
    /// The wait ran out, or the fleet refuses or does not answer.
    pub async fn wait_for_conclusion(&self, job: &str, limit: Option<Duration>) -> Result<Job, ClientError> {
        let Some(waited) = limit else {
            return self.wait_without_limit(job).await;
        };
        match timeout(waited, self.wait_without_limit(job)).await {
            Ok(job) => job,
            Err(_elapsed) => {
                let job = self.get_job(job).await?;
                if is_at_rest(job.state) {
                    return Ok(job);
                }
                Err(ClientError::WaitRanOut { job: job.id, state: job.state, waited })
            }
        }
    }

    async fn wait_without_limit(&self, job: &str) -> Result<Job, ClientError> {
        let mut present = self.get_job(job).await?;
        let id = present.id.to_string();
        while !is_at_rest(present.state) {
            let mut watch = self.watch_job(&id, present.head_seq.next()).await?;
            while let Some(watched) = watch.next().await? {
                if is_at_rest(watched.state) {
                    break;
                }
            }
            present = self.get_job(&id).await?;
        }
        Ok(present)
    }
}
