//! What a run asks of any coordinator until one answers. One connection serves a run's calls, until it fails.

use tenure_core::{
    limits,
    reason::{Class, Reason},
    refusal::Refusal,
};
use tenure_proto::{status::status_to_refusal, v1::worker_service_client::WorkerServiceClient};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};
use tonic::{Code, Status};
use tracing::info;

use crate::{
    endpoints::{Way, reconnect_pauses},
    run_socket::RunStanding,
};

/// The calls of one run.
#[derive(Debug, Default)]
pub(crate) struct RunCalls {
    channel: Mutex<Option<Way>>,
}

impl RunCalls {
    /// Calls; waits for a coordinator that can say. `asked` names what is asked, for the log.
    pub(crate) async fn ask<T, Fut>(
        &self,
        standing: &RunStanding,
        asked: &str,
        call: impl Fn(WorkerServiceClient<Way>) -> Fut,
    ) -> Result<T, Refusal>
    where
        Fut: Future<Output = Result<T, Status>>,
    {
        let mut pauses = reconnect_pauses();
        loop {
            match self.try_ask(standing, &call).await {
                Ok(answer) => return Ok(answer),
                Err(status) => {
                    if let Some(refusal) = find_refusal(&status, asked) {
                        return Err(refusal);
                    }
                    info!(error = status.message(), asked, "no coordinator could say; it is asked again");
                }
            }
            sleep(pauses.next().unwrap_or(limits::RECONNECT_MAX)).await;
        }
    }

    async fn try_ask<T, Fut>(
        &self,
        standing: &RunStanding,
        call: impl Fn(WorkerServiceClient<Way>) -> Fut,
    ) -> Result<T, Status>
    where
        Fut: Future<Output = Result<T, Status>>,
    {
        let known = self.channel.lock().await.clone();
        let channel = match known {
            Some(channel) => channel,
            None => standing.context.endpoints.connect_next().await?,
        };
        let answered = timeout(limits::ATTACH_TIMEOUT, call(WorkerServiceClient::new(channel.clone()))).await;
        let answer = answered.unwrap_or_else(|_| Err(Status::unavailable("the coordinator does not answer")));
        *self.channel.lock().await = answer.is_ok().then_some(channel);
        answer
    }
}

/// A refusal that asking again cannot change.
fn find_refusal(status: &Status, asked: &str) -> Option<Refusal> {
    if status.code() == Code::Unimplemented {
        return Some(Refusal::new(
            Reason::NotSupported,
            format!("the coordinator's release knows no {asked}"),
        ));
    }
    let refusal = status_to_refusal(status)?;
    match refusal.reason.class() {
        Class::Rejected | Class::Fenced => Some(refusal),
        Class::Unavailable | Class::Bug => None,
    }
}
