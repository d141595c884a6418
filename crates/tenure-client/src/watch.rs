//! Watching a job: its journal from a seq on, then what is added, until nothing more can be added. The stream may break as
//! often as it likes, at any coordinator: the watch remembers the next seq that it owes, opens a stream from there, leaves
//! out what comes again, and takes a gap for a broken stream. So from seq N it goes on at N + 1.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff};
use tenure_core::{
    id::{JobId, Seq},
    job::State,
};
use tenure_proto::{convert::state::read_state, v1};
use tonic::Streaming;

use crate::{
    Client, ClientError,
    client::{Repeat, job_service},
    record::{JournalRecord, read_required},
    retry::{Failure, pauses},
};

/// A record as it was watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedRecord {
    /// The record.
    pub record: JournalRecord,
    /// The state of the job when the record was read.
    pub state: State,
}

/// A watch over one job.
#[derive(Debug)]
pub struct JobWatch {
    client: Client,
    job: JobId,
    next: Seq,
    /// The stream, and the place at which it was opened.
    stream: Option<(usize, Streaming<v1::WatchJobResponse>)>,
    steadiness: Steadiness,
}

impl Client {
    /// Watches a job from a seq on; 0 is the beginning.
    ///
    /// # Errors
    /// There is no such job, several, or no answer.
    pub async fn watch_job(&self, job: &str, from: Seq) -> Result<JobWatch, ClientError> {
        let job = self.get_job(job).await?.id;
        let steadiness = Steadiness::new(self);
        Ok(JobWatch { client: self.clone(), job, next: Seq(from.0.max(1)), stream: None, steadiness })
    }
}

impl JobWatch {
    /// Which job is watched.
    #[must_use]
    pub const fn job(&self) -> JobId {
        self.job
    }

    /// The next record; none where the journal takes no more.
    ///
    /// # Errors
    /// The fleet refuses, or patience ran out before the stream went on.
    pub async fn next(&mut self) -> Result<Option<WatchedRecord>, ClientError> {
        loop {
            match self.advance().await {
                Ok(Some(response)) => {
                    let record = read_required(response.record)?;
                    if record.seq == self.next {
                        let state = read_state("state", response.state)?;
                        self.next = record.seq.next();
                        self.steadiness.renew();
                        return Ok(Some(WatchedRecord { record, state }));
                    }
                    self.close_unless_repeated(record.seq);
                }
                Ok(None) => {
                    self.stream = None;
                    if self.is_complete().await? {
                        return Ok(None);
                    }
                    self.steadiness.rest().await;
                }
                Err(failure) => {
                    self.stream = None;
                    self.steadiness.pause(&self.client, failure).await?;
                }
            }
        }
    }

    /// The next message of the stream, which is opened where there is none.
    async fn advance(&mut self) -> Result<Option<v1::WatchJobResponse>, Failure> {
        if self.stream.is_none() {
            let request = v1::WatchJobRequest { job: self.job.to_string(), from_seq: self.next.0 };
            let open = |channel| {
                let request = request.clone();
                async move { job_service(channel).watch_job(request).await }
            };
            self.stream = Some(self.client.open(&open).await?);
        }
        match &mut self.stream {
            Some((place, stream)) => {
                stream.message().await.map_err(|status| self.client.broken(*place, status))
            }
            None => Ok(None),
        }
    }

    /// A record that came again is left out; one that comes too early means that the stream cannot be trusted.
    fn close_unless_repeated(&mut self, came: Seq) {
        if came > self.next {
            tracing::debug!(job = %self.job, wanted = %self.next, %came, "a gap in a watch");
            self.stream = None;
        }
    }

    /// True where the job is sealed and every record of it was seen.
    async fn is_complete(&self) -> Result<bool, ClientError> {
        let job = self.client.get_job(&self.job.to_string()).await?;
        Ok(job.state.is_sealed() && job.head_seq < self.next)
    }
}

/// The pauses between two attempts to go on, which start anew with every step forward.
#[derive(Debug)]
pub(crate) struct Steadiness {
    patience: Duration,
    pauses: ExponentialBackoff,
}

impl Steadiness {
    pub(crate) fn new(client: &Client) -> Self {
        let patience = client.options.stream_patience;
        Self { patience, pauses: pauses(patience).build() }
    }

    /// A step forward was made.
    pub(crate) fn renew(&mut self) {
        self.pauses = pauses(self.patience).build();
    }

    /// Waits before the next look, where the fleet answered and there is nothing yet.
    pub(crate) async fn rest(&mut self) {
        match self.pauses.next() {
            Some(pause) => tokio::time::sleep(pause).await,
            None => self.renew(),
        }
    }

    /// Waits before the next attempt, at another coordinator where this one did not answer.
    pub(crate) async fn pause(&mut self, client: &Client, failure: Failure) -> Result<(), ClientError> {
        if !failure.passes() {
            return Err(client.explain(Repeat::Reads, failure));
        }
        client.leave(&failure);
        match self.pauses.next() {
            Some(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            None => Err(client.explain(Repeat::Reads, failure)),
        }
    }
}
