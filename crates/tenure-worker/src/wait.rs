//! The waits of one run: each is asked of a coordinator, which knows whether an earlier run waited for the same and was woken.
//! One that is not over is announced, once, and ends the run: whoever supervises it hears of it here, and what is asked for
//! afterwards is refused. It reports nothing itself: the end of the run is the wait. Neighbours: `run_socket` and handlers
//! ask, `executor` ends and reports.

use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use tenure_core::{id::JobId, reason::Reason, record::Phase, refusal::Refusal, step::StepName, wait::Until};
use tenure_proto::{
    convert::{
        require,
        run::write_run_ref,
        wait::{read_wait, write_until},
    },
    v1::{self, ask_wait_response::Answer, worker_service_client::WorkerServiceClient},
};

use crate::{endpoints::Way, run_calls::RunCalls, run_socket::RunStanding};

/// How names begin that nobody chose.
const ORDINAL: char = '#';

/// What a program asks to wait for.
#[derive(Debug, Clone)]
pub(crate) struct WaitAsk {
    /// What tells it apart. Empty: its place among those of the run that have no key.
    pub(crate) key: String,
    /// Until when; with jobs, when the wait for them expires.
    pub(crate) until: Option<Until>,
    /// The jobs; empty: it is for the instant.
    pub(crate) jobs: Vec<JobId>,
}

/// The waits of one run.
#[derive(Debug, Default)]
pub(crate) struct RunWaits {
    calls: RunCalls,
    /// Waits without a key that were asked for.
    unnamed: AtomicU32,
}

impl RunWaits {
    /// Returns once the wait is over, in this run at once or not at all: then the run is asked to end, and this returns when
    /// it has.
    pub(crate) async fn wait(&self, standing: &RunStanding, ask: WaitAsk) -> Result<v1::WaitOver, Refusal> {
        standing.ensure_beginning()?;
        if standing.grant.phase == Phase::Compensating {
            return Err(Refusal::new(Reason::NotSupported, "a run that undoes waits for nothing"));
        }
        let request = v1::AskWaitRequest {
            run: Some(write_run_ref(&standing.grant.run)),
            secret: Bytes::copy_from_slice(standing.grant.secret.as_bytes()),
            name: self.settle_name(&ask.key)?.as_str().to_owned(),
            until: ask.until.map(write_until),
            job_ids: ask.jobs.iter().map(JobId::to_string).collect(),
        };
        standing.touch();
        let over = standing.over.clone();
        let asking = over.run_until_cancelled(self.ask(standing, request));
        match asking.await.unwrap_or_else(|| Err(standing.over_refusal()))? {
            Answer::Over(over) => Ok(over),
            Answer::Pending(wait) => {
                let wait = read_wait("pending", &wait)?;
                standing.ensure_beginning()?;
                standing.announce_wait(wait);
                over.cancelled().await;
                Err(standing.over_refusal())
            }
        }
    }

    fn settle_name(&self, key: &str) -> Result<StepName, Refusal> {
        let malformed = |error: tenure_core::step::InvalidStepName| {
            Refusal::new(Reason::InvalidArgument, format!("the key of the wait: {error}"))
                .with_detail("field", "key")
        };
        if key.starts_with(ORDINAL) {
            let words =
                format!("the key {key:?} of the wait begins with {ORDINAL:?}, as those that nobody chose");
            return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "key"));
        }
        if key.is_empty() {
            let place = self.unnamed.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            return format!("{ORDINAL}{place}").parse().map_err(malformed);
        }
        key.parse().map_err(malformed)
    }

    async fn ask(&self, standing: &RunStanding, request: v1::AskWaitRequest) -> Result<Answer, Refusal> {
        let call = |mut client: WorkerServiceClient<Way>| {
            let request = request.clone();
            async move { client.ask_wait(request).await }
        };
        let answer = self.calls.ask(standing, "waits", call).await?.into_inner();
        Ok(require("answer", answer.answer)?)
    }
}
