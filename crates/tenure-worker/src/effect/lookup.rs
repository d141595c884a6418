//! What is recorded under a key, asked of any coordinator until one answers. One connection serves a run's look-ups, until
//! it fails.

use bytes::Bytes;
use tenure_core::{
    effect::{Disposition, EffectKey, LastAttempt, Outcome},
    id::{Run, Seq},
    limits,
    reason::{Class, Reason},
    refusal::Refusal,
};
use tenure_proto::{
    convert::{
        InvalidField,
        effect::{read_disposition, read_recovery, read_request_digest},
        require,
        run::write_run_ref,
        time::read_timestamp,
    },
    status::status_to_refusal,
    v1::{self, worker_service_client::WorkerServiceClient},
};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};
use tonic::{Code, Status, transport::Channel};
use tracing::info;

use crate::{endpoints::reconnect_pauses, run_socket::RunStanding};

/// The last attempt under a key, with what it left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordedAttempt {
    pub(super) last: LastAttempt,
    /// Its output or its error. None: it has none, or it was erased.
    pub(super) value: Option<Bytes>,
    pub(super) exit_code: Option<i32>,
    /// True where the output was cut off before it was recorded.
    pub(super) truncated: bool,
}

/// The look-ups of one run.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    channel: Mutex<Option<Channel>>,
}

impl Lookups {
    /// Reads the last attempt under a key; waits for a coordinator that can say.
    pub(super) async fn read_last(
        &self,
        standing: &RunStanding,
        key: &EffectKey,
    ) -> Result<Option<RecordedAttempt>, Refusal> {
        let mut pauses = reconnect_pauses();
        loop {
            match self.try_read(standing, key).await {
                Ok(found) => return Ok(found.map(|effect| read_attempt(&effect)).transpose()?),
                Err(status) => {
                    if let Some(refusal) = find_refusal(&status) {
                        return Err(refusal);
                    }
                    info!(error = status.message(), %key, "an effect could not be looked up; it is tried again");
                }
            }
            sleep(pauses.next().unwrap_or(limits::RECONNECT_MAX)).await;
        }
    }

    async fn try_read(&self, standing: &RunStanding, key: &EffectKey) -> Result<Option<v1::Effect>, Status> {
        let known = self.channel.lock().await.clone();
        let channel = match known {
            Some(channel) => channel,
            None => connect_next(standing).await?,
        };
        let request = v1::ReadEffectRequest {
            run: Some(write_run_ref(&standing.grant.run)),
            secret: Bytes::copy_from_slice(standing.grant.secret.as_bytes()),
            key: key.to_string(),
        };
        let mut client = WorkerServiceClient::new(channel.clone());
        let answered = timeout(limits::ATTACH_TIMEOUT, client.read_effect(request)).await;
        let answer = answered.unwrap_or_else(|_| Err(Status::unavailable("the coordinator does not answer")));
        *self.channel.lock().await = answer.is_ok().then_some(channel);
        Ok(answer?.into_inner().effect)
    }
}

/// A refusal that asking again cannot change.
fn find_refusal(status: &Status) -> Option<Refusal> {
    if status.code() == Code::Unimplemented {
        return Some(Refusal::new(Reason::NotSupported, "the coordinator's release knows no effects"));
    }
    let refusal = status_to_refusal(status)?;
    match refusal.reason.class() {
        Class::Rejected | Class::Fenced => Some(refusal),
        Class::Unavailable | Class::Bug => None,
    }
}

fn read_attempt(given: &v1::Effect) -> Result<RecordedAttempt, InvalidField> {
    let recovery = read_recovery("recovery", given.recovery)?;
    let last = LastAttempt {
        attempt: given.attempt,
        run: Run(given.run),
        announced: Seq(given.announced_seq),
        since: read_timestamp("announced_at", require("announced_at", given.announced_at.as_ref())?)?,
        recovery: require("recovery", recovery)?,
        mutates: given.mutates,
        request: read_request_digest("request_digest", &given.request_digest)?,
        outcome: read_outcome(given)?,
    };
    let (value, exit_code, truncated) = (given.value.clone(), given.exit_code, given.truncated);
    Ok(RecordedAttempt { last, value, exit_code, truncated })
}

fn read_outcome(given: &v1::Effect) -> Result<Outcome, InvalidField> {
    let disposition = || -> Result<Disposition, InvalidField> {
        require("disposition", read_disposition("disposition", given.disposition)?)
    };
    Ok(match v1::EffectState::try_from(given.state) {
        Ok(v1::EffectState::Started) => Outcome::Open,
        Ok(v1::EffectState::Done) => Outcome::Done,
        Ok(v1::EffectState::Failed) => Outcome::Failed(disposition()?),
        Ok(v1::EffectState::Reconciled) => Outcome::Reconciled(disposition()?),
        Ok(v1::EffectState::Unspecified) => return Err(InvalidField::Missing { field: "state" }),
        Err(_) => return Err(InvalidField::Unknown { field: "state", value: given.state }),
    })
}

async fn connect_next(standing: &RunStanding) -> Result<Channel, Status> {
    let connected = standing.context.endpoints.connect_next().await;
    connected.map_err(|error| Status::unavailable(error.to_string()))
}
