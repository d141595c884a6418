//! Work that a run gives to agents: sent to a coordinator, which makes the job, and asked again until one has answered. It counts what
//! this run has given, so that the same given twice is two jobs, and given again by a later run the same two. One is given
//! after the other. Neighbours: `run_socket` and handlers give, `run_calls` finds a coordinator.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use tenure_core::{
    id::{AgentName, Digest, JobId, SessionId},
    limits::VALUE_MAX_BYTES,
    reason::Reason,
    refusal::Refusal,
    sending::{GiftKey, Way, check_body, check_gift_key},
};
use tenure_proto::{
    convert::{
        id::{read_agent_name, read_job_id, read_session_id},
        run::write_run_ref,
    },
    v1::{self, worker_service_client::WorkerServiceClient},
};
use tokio::sync::Mutex;

use crate::{
    effect::ensure_beginning, endpoints::Way as Route, run_calls::RunCalls, run_socket::RunStanding,
};

/// What a run gave.
#[derive(Debug)]
pub(crate) struct RunGifts {
    standing: Arc<RunStanding>,
    calls: RunCalls,
    /// How often each was given without a key.
    given: Mutex<HashMap<Digest, u32>>,
}

/// Work for an agent, as a program gives it.
#[derive(Debug, Clone)]
pub(crate) struct Gift {
    pub(crate) agent: String,
    pub(crate) body: Bytes,
    pub(crate) way: Way,
    pub(crate) key: Option<String>,
}

/// The job that came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenJob {
    /// The job.
    pub job: JobId,
    /// Its session.
    pub session: SessionId,
    /// True where the same was given before, by an earlier run or under the same key.
    pub already_given: bool,
}

impl RunGifts {
    /// Those of a run that gave nothing yet.
    pub(crate) fn new(standing: Arc<RunStanding>) -> Self {
        Self { standing, calls: RunCalls::default(), given: Mutex::default() }
    }

    /// Gives work; returns once the job exists.
    pub(crate) async fn give(&self, gift: Gift) -> Result<GivenJob, Refusal> {
        let agent = read_agent_name("agent", &gift.agent)?;
        gift.key.as_deref().map_or(Ok(()), check_gift_key)?;
        let body = self.read_body(&gift.body)?;
        ensure_beginning(&self.standing)?;
        let mut given = self.given.lock().await;
        let kind = GiftKey::of(gift.way, &agent, &body, None, 0).hash;
        let ordinal = given.get(&kind).copied().unwrap_or_default().saturating_add(1);
        ensure_beginning(&self.standing)?;
        self.standing.touch();
        let request = self.compose(&gift, agent, body, ordinal);
        let job = tokio::select! {
            biased;
            () = self.standing.over.cancelled() => return Err(self.standing.over_refusal()),
            answer = self.ask(request) => answer?,
        };
        if gift.key.is_none() {
            given.insert(kind, ordinal);
        }
        Ok(job)
    }

    /// What a program gives is not to contain its secrets.
    fn read_body(&self, body: &Bytes) -> Result<Bytes, Refusal> {
        check_body(body)?;
        let body = std::str::from_utf8(body).map_or_else(
            |_| body.clone(),
            |text| self.standing.redactor.redact_text(text).into_bytes().into(),
        );
        let (size, limit) = (body.len() as u64, VALUE_MAX_BYTES);
        if size <= limit {
            return Ok(body);
        }
        Err(Refusal::new(Reason::InputTooLarge, format!("the body has {size} bytes, and {limit} are taken"))
            .with_detail("field", "body")
            .with_detail("bytes", size)
            .with_detail("limit_bytes", limit))
    }

    fn compose(&self, gift: &Gift, agent: AgentName, body: Bytes, ordinal: u32) -> v1::SendJobRequest {
        let grant = &self.standing.grant;
        v1::SendJobRequest {
            run: Some(write_run_ref(&grant.run)),
            secret: Bytes::copy_from_slice(grant.secret.as_bytes()),
            agent: agent.into(),
            body,
            spawn: gift.way == Way::Spawn,
            key: gift.key.clone().unwrap_or_default(),
            ordinal,
            traceparent: grant.run_trace().map(|trace| trace.to_string()).unwrap_or_default(),
        }
    }

    async fn ask(&self, request: v1::SendJobRequest) -> Result<GivenJob, Refusal> {
        let call = |mut client: WorkerServiceClient<Route>| {
            let request = request.clone();
            async move { client.send_job(request).await }
        };
        let answer = self.calls.ask(&self.standing, "work that runs give", call).await?.into_inner();
        Ok(GivenJob {
            job: read_job_id("job_id", &answer.job_id)?,
            session: read_session_id("session_id", &answer.session_id)?,
            already_given: answer.already_sent,
        })
    }
}
