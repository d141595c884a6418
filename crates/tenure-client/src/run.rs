//! What the program inside a run may say, over the run's own socket. The identity is the socket: whoever can open it is
//! the run. Where the worker is gone, so is the socket.

use std::{ffi::OsStr, path::PathBuf};

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use tenure_core::{
    admission::Spend,
    id::{Epoch, JobId, Run, Seq, SessionId, WorkerName},
    job::State,
    wait::Until,
};
use tenure_proto::{
    convert::{
        InvalidField,
        id::{read_job_id, read_session_id, read_worker_name},
        require,
        state::read_state,
        time::read_optional_timestamp,
        wait::write_until,
    },
    v1::{self, run_service_client::RunServiceClient},
};

use crate::{Client, ClientError, ClientOptions, client::Repeat};

/// The variable that names the socket.
pub const SOCKET_VARIABLE: &str = "TENURE_SOCKET";

/// The worker beside a run, as the program inside the run sees it.
#[derive(Debug, Clone)]
pub struct RunClient {
    pub(crate) client: Client,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunStatus {
    /// The job.
    pub job_id: JobId,
    /// The number of the run, from 1.
    pub run: Run,
    /// Its epoch.
    pub epoch: Epoch,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The worker.
    pub worker: WorkerName,
    /// The session's deadline; none: no ceiling.
    pub deadline_at: Option<Timestamp>,
    /// Whole seconds that are left, rounded up; none: no ceiling.
    pub remaining_s: Option<u64>,
    /// Notes that this run has left and that are durable.
    pub notes: u64,
    /// True where a cancel stands.
    pub cancel_requested: bool,
}

/// A wait that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitOver {
    /// Its name.
    pub name: String,
    /// The instant that was due; none: it was for jobs.
    pub due: Option<Timestamp>,
    /// What came of each job, in the order in which they were asked for.
    pub jobs: Vec<AwaitedJob>,
}

/// What came of a job that was waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AwaitedJob {
    /// The job.
    pub job: JobId,
    /// How it concluded.
    pub outcome: State,
    /// Why, as a stable word; empty where the outcome says it.
    pub reason: String,
    /// The beginning of what it returned; none: it returned nothing, or nothing that is told here.
    #[serde(skip)]
    pub result: Option<Bytes>,
    /// The length of all that it returned.
    pub result_bytes: u64,
}

impl AwaitedJob {
    fn read(given: v1::AwaitedJob) -> Result<Self, InvalidField> {
        Ok(Self {
            job: read_job_id("over.jobs.job_id", &given.job_id)?,
            outcome: read_state("over.jobs.outcome", given.outcome)?,
            reason: given.reason,
            result: given.result,
            result_bytes: given.result_bytes,
        })
    }
}

impl WaitOver {
    fn read(given: v1::WaitOver) -> Result<Self, InvalidField> {
        let jobs = given.jobs.into_iter().map(AwaitedJob::read).collect::<Result<_, _>>()?;
        Ok(Self { due: read_optional_timestamp("over.due", given.due.as_ref())?, name: given.name, jobs })
    }
}

/// A job that a run gave its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GivenJob {
    /// The job.
    pub job_id: JobId,
    /// Its session.
    pub session_id: SessionId,
    /// True where the same was given before, by an earlier run or under the same key.
    pub already_given: bool,
}

impl RunClient {
    /// A client on the run's socket; nothing is sent before the first call.
    ///
    /// # Errors
    /// The path cannot be one of a socket.
    pub fn connect(socket: &OsStr, options: ClientOptions) -> Result<Self, ClientError> {
        let address = format!("unix:{}", PathBuf::from(socket).display());
        Ok(Self { client: Client::connect_with(&[address], options)? })
    }

    /// Leaves a line of progress. When it returns, the note is durable. Sent again only where it was never sent, because
    /// two notes are not one.
    ///
    /// # Errors
    /// The note is refused, the run is over, or its worker does not answer.
    pub async fn write_note(&self, text: &str) -> Result<Seq, ClientError> {
        let request = v1::WriteNoteRequest { text: text.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { RunServiceClient::new(channel).write_note(request).await }
        };
        Ok(Seq(self.client.call(Repeat::OnlyUnsent, ask).await?.seq))
    }

    /// Says what the run spent. When it returns, that is durable. Sent again only where it was never sent, because twice the amount is
    /// not the amount.
    ///
    /// # Errors
    /// It is refused, the run is over, or its worker does not answer.
    pub async fn record_spend(&self, spend: Spend) -> Result<Seq, ClientError> {
        let Spend { tokens, cost, turns } = spend;
        let request = v1::RecordSpendRequest { tokens, cost_micros: cost.0, turns };
        let ask = |channel| async move { RunServiceClient::new(channel).record_spend(request).await };
        Ok(Seq(self.client.call(Repeat::OnlyUnsent, ask).await?.seq))
    }

    /// Waits until an instant, or for other jobs until the instant at which the wait for them expires. Where an earlier run of
    /// the job announced the same wait and was woken, or the jobs have concluded, it is answered at once; otherwise the wait ends the run, and this returns only with the refusal that says so, where whoever asked outlives
    /// that. `key` tells the wait apart from others of the run; none: its place among those without a key.
    ///
    /// # Errors
    /// The wait is refused, the run is over or ends for the wait, or its worker does not answer.
    pub async fn wait(
        &self,
        key: Option<&str>,
        until: Option<Until>,
        jobs: &[JobId],
    ) -> Result<WaitOver, ClientError> {
        let key = key.unwrap_or_default().to_owned();
        let job_ids = jobs.iter().map(JobId::to_string).collect();
        let request = v1::WaitRequest { key, until: until.map(write_until), job_ids };
        let ask = |channel| {
            let request = request.clone();
            async move { RunServiceClient::new(channel).wait(request).await }
        };
        let answer = self.client.call(Repeat::OnlyUnsent, ask).await?;
        Ok(WaitOver::read(require("over", answer.over)?)?)
    }

    /// Leaves a line that the agent is to remember. When it returns, it is durable; twice is the same as once.
    ///
    /// # Errors
    /// The line is refused, the run is over, or its worker does not answer.
    pub async fn remember(&self, text: &str) -> Result<Seq, ClientError> {
        let request = v1::RememberRequest { text: text.to_owned() };
        let ask = |channel| {
            let request = request.clone();
            async move { RunServiceClient::new(channel).remember(request).await }
        };
        Ok(Seq(self.client.call(Repeat::Harmless, ask).await?.seq))
    }

    /// Gives work to an agent: as a job in the same session, or, with `spawn`, as a session of its own. When it returns, the job
    /// exists. Without a key it is sent again only where it was never sent: the same given twice is two jobs.
    ///
    /// # Errors
    /// It is refused, the run is over, or its worker does not answer.
    pub async fn give_work(
        &self,
        agent: &str,
        body: Bytes,
        spawn: bool,
        key: Option<&str>,
    ) -> Result<GivenJob, ClientError> {
        let key = key.unwrap_or_default().to_owned();
        let repeat = if key.is_empty() { Repeat::OnlyUnsent } else { Repeat::Harmless };
        let request = v1::GiveWorkRequest { agent: agent.to_owned(), body, spawn, key };
        let ask = |channel| {
            let request = request.clone();
            async move { RunServiceClient::new(channel).give_work(request).await }
        };
        let given = self.client.call(repeat, ask).await?;
        Ok(GivenJob {
            job_id: read_job_id("job_id", &given.job_id)?,
            session_id: read_session_id("session_id", &given.session_id)?,
            already_given: given.already_given,
        })
    }

    /// Sets the work down: where the run ends with success, a session of its own picks it up, no earlier than booked. Returns
    /// the instant once the booking is durable; the last one of a run counts.
    ///
    /// # Errors
    /// The booking is refused, the run is over, or its worker does not answer.
    pub async fn set_down(&self, until: Until, waiting_for: &str) -> Result<Timestamp, ClientError> {
        let waiting_for = waiting_for.to_owned();
        let request = v1::SetDownRequest { until: Some(write_until(until)), waiting_for };
        let ask = |channel| {
            let request = request.clone();
            async move { RunServiceClient::new(channel).set_down(request).await }
        };
        let answer = self.client.call(Repeat::OnlyUnsent, ask).await?;
        Ok(require("until", read_optional_timestamp("until", answer.until.as_ref())?)?)
    }

    /// Asks where the run stands.
    ///
    /// # Errors
    /// Its worker does not answer.
    pub async fn get_status(&self) -> Result<RunStatus, ClientError> {
        let ask = |channel| async move {
            RunServiceClient::new(channel).get_run_status(v1::GetRunStatusRequest {}).await
        };
        Ok(RunStatus::read(self.client.call(Repeat::Reads, ask).await?)?)
    }
}

impl RunStatus {
    fn read(given: v1::GetRunStatusResponse) -> Result<Self, InvalidField> {
        Ok(Self {
            job_id: read_job_id("job_id", &given.job_id)?,
            run: Run(given.run),
            epoch: Epoch(given.epoch),
            attempt: given.attempt,
            worker: read_worker_name("worker", &given.worker)?,
            deadline_at: read_optional_timestamp("deadline_at", given.deadline_at.as_ref())?,
            remaining_s: given.remaining_s,
            notes: given.notes,
            cancel_requested: given.cancel_requested,
        })
    }
}
