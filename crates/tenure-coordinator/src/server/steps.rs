//! What the run of a handler asks about the steps that earlier runs finished and the groups that they decided. Nothing is written here. Neighbours:
//! `worker_service` takes the call, lanes write steps.

use tenure_core::{
    id::Seq,
    record::{GroupOutcome, RecordKind},
    refusal::Refusal,
};
use tenure_proto::{convert::run::read_run_ref, v1};

use super::{
    caller::FleetCaller,
    effects::{check_holder, read_secret},
};
use crate::coordinator::Parts;

/// Steps on a page; what is beside them bounds it further.
const STEPS_PAGE: u32 = 1_000;

/// A page of a job's finished steps and decided groups, for the run that holds it. The lease is looked at after the journal: where it still
/// stands then, it stood when the journal was read.
pub(super) async fn read_steps(
    parts: &Parts,
    caller: &FleetCaller,
    request: v1::ReadStepsRequest,
) -> Result<v1::ReadStepsResponse, Refusal> {
    let run = read_run_ref(request.run.as_ref())?;
    let secret = read_secret(parts, caller, &run, &request.secret)?;
    let kinds = ["step_finished", "group_settled"].map(str::to_owned);
    let page =
        parts.store.read_history(&run.tenant, run.job, Seq(request.from_seq.max(1)), &kinds, STEPS_PAGE);
    let page = parts.bulk.ask(page).await?;
    check_holder(parts, &run, &secret).await?;
    let mut answer =
        v1::ReadStepsResponse { next_seq: page.next.map_or(0, |next| next.0), ..Default::default() };
    for stored in page.records {
        // Nothing is read back from a record that this release does not know.
        match stored.parse().map(|record| record.kind) {
            Ok(RecordKind::StepFinished { name, .. }) => {
                let output = stored.value.map(Into::into);
                answer.steps.push(v1::FinishedStep { name: name.to_string(), output });
            }
            Ok(RecordKind::GroupSettled { name, outcome, members, invariant }) => {
                answer.groups.push(v1::SettledGroup {
                    name: name.to_string(),
                    reversed: outcome == GroupOutcome::Reversed,
                    members: members.iter().map(ToString::to_string).collect(),
                    invariant: invariant.unwrap_or_default(),
                });
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(answer)
}
