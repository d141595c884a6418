//! Waiting for submitted jobs, and saying how they ended.

use std::time::Duration;

use tenure_client::{Client, job::Job};
use tenure_core::{id::JobId, job::State, reason::Reason, refusal::Refusal};
use tokio::time::Instant;

use crate::{context::Context, failure::Failure};

/// Whether to wait, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimit {
    /// Wait at all.
    pub(crate) wait: bool,
    /// No longer than this; none: for ever.
    pub(crate) timeout: Option<Duration>,
}

/// Waits until all are at rest, and fails where one did not succeed.
pub(crate) async fn wait_for_jobs(
    context: &Context,
    client: &Client,
    jobs: &[JobId],
    limit: WaitLimit,
) -> Result<(), Failure> {
    if !limit.wait {
        return Ok(());
    }
    let until = limit.timeout.map(|timeout| Instant::now() + timeout);
    let mut first_failure = None;
    for job in jobs {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let job = client.wait_for_conclusion(&job.to_string(), left).await?;
        if let Err(failure) = judge(&job) {
            if jobs.len() == 1 {
                return Err(failure);
            }
            context.printer.failure(&failure);
            first_failure.get_or_insert(failure);
        }
    }
    first_failure.map_or(Ok(()), |failure| Err(failure.already_printed()))
}

fn judge(job: &Job) -> Result<(), Failure> {
    if job.state == State::Succeeded {
        return Ok(());
    }
    let why = [&job.reason, &job.detail].map(String::as_str).into_iter().find(|text| !text.is_empty());
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    let message = format!("job {} did not succeed: it is {}{why}", job.id.short(), job.state);
    let refusal = Refusal::new(Reason::JobNotSucceeded, message)
        .with_detail("job_id", job.id)
        .with_detail("state", job.state)
        .with_next(format!("tenure job {}", job.id.short()));
    Err(refusal.into())
}
