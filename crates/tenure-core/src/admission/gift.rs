//! Whether work that a run gives to an agent becomes a job, and with which settings. It is a submission under the agent's present
//! declaration; what is sent shares the giver's session, so its deadline is that of the session and its hops are one less, and
//! what is spawned has limits of its own.

use jiff::Timestamp;

use super::{Admitted, Submission, admit_submission};
use crate::{
    declaration::{Declaration, PolicyBundle},
    id::AgentName,
    plan::JobFacts,
    record::DeadlineSetting,
    refusal::Refusal,
    sending::{Sender, Way},
};

/// What a run gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gift {
    /// To whom.
    pub agent: AgentName,
    /// The work.
    pub body: Vec<u8>,
    /// How.
    pub way: Way,
    /// Who gives it.
    pub sender: Sender,
    /// The giver's own.
    pub priority: u8,
    /// W3C trace context of the giver's run.
    pub traceparent: Option<String>,
}

/// Admits what a run gives; `facts` are the giver's.
///
/// # Errors
/// As [`admit_submission`].
pub fn admit_gift(
    gift: Gift,
    facts: &JobFacts,
    declaration: &Declaration,
    bundle: Option<&PolicyBundle>,
    now: Timestamp,
) -> Result<Admitted, Refusal> {
    let deadline = match gift.way {
        Way::Send => Some(facts.deadline_at.map_or(DeadlineSetting::None, DeadlineSetting::At)),
        Way::Spawn => None,
    };
    let submission = Submission {
        agent: gift.agent,
        input: gift.body.into(),
        key: None,
        deadline,
        labels: std::collections::BTreeMap::new(),
        priority: Some(gift.priority.into()),
        not_before: None,
        traceparent: gift.traceparent,
        layover: None,
    };
    let admitted = admit_submission(submission, declaration, bundle, now)?;
    let hops = match gift.way {
        Way::Send => facts.hops_left.saturating_sub(1),
        Way::Spawn => admitted.hops,
    };
    Ok(Admitted { hops, sender: Some(gift.sender), ..admitted })
}
