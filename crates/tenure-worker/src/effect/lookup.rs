//! What is recorded under a key, asked of any coordinator until one answers.

use bytes::Bytes;
use tenure_core::{
    effect::{Disposition, EffectKey, LastAttempt, Outcome},
    id::{Run, Seq},
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
    v1::{self, worker_service_client::WorkerServiceClient},
};

use crate::{endpoints::Way, run_calls::RunCalls, run_socket::RunStanding};

/// The last attempt under a key, with what it left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordedAttempt {
    pub(super) last: LastAttempt,
    /// Its output or its error. None: it has none, or it was erased.
    pub(super) value: Option<Bytes>,
    pub(super) exit_code: Option<i32>,
    /// True where the output was cut off before it was recorded.
    pub(super) truncated: bool,
    /// True where it had a value, and that was erased.
    pub(super) erased: bool,
}

/// Reads the last attempt under a key; waits for a coordinator that can say.
pub(super) async fn read_last(
    calls: &RunCalls,
    standing: &RunStanding,
    key: &EffectKey,
) -> Result<Option<RecordedAttempt>, Refusal> {
    let request = v1::ReadEffectRequest {
        run: Some(write_run_ref(&standing.grant.run)),
        secret: Bytes::copy_from_slice(standing.grant.secret.as_bytes()),
        key: key.to_string(),
    };
    let call = |mut client: WorkerServiceClient<Way>| {
        let request = request.clone();
        async move { client.read_effect(request).await }
    };
    let answer = calls.ask(standing, "effects", call).await?;
    Ok(answer.into_inner().effect.as_ref().map(read_attempt).transpose()?)
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
    // What is done always has one, also where a coordinator of an earlier release does not say so.
    let erased = given.erased || value.is_none() && last.outcome == Outcome::Done;
    Ok(RecordedAttempt { last, value, exit_code, truncated, erased })
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
