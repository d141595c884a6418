//! What a run sends to a join: placed among what was delivered in the session before, and written with its giver's record under the
//! number after the last of those. Where another delivery took that number meanwhile, it is placed again. Neighbours: the core
//! places, `sending` takes the call and stores.

use tenure_core::{
    admission::Gift,
    joining::{Delivery, Join},
    limits::{JOIN_PLACINGS_MAX, VALUE_MAX_BYTES},
    plan::JobFacts,
    reason::Reason,
    refusal::Refusal,
    sending::Denied,
};
use tenure_proto::v1;
use tenure_store::{Giver, NewDelivery, NewJob};

use super::sending::{Ask, journal_denial, store_gift};
use crate::{coordinator::Parts, refusals::refuse_store};

/// Delivers, or answers with what stood against it.
pub(super) async fn deliver(
    parts: &Parts,
    ask: Ask,
    facts: &JobFacts,
    giver: &Giver,
    join: &Join,
) -> Result<v1::SendJobResponse, Refusal> {
    let mut earlier = list_deliveries(parts, facts, join).await?;
    for _ in 1..JOIN_PLACINGS_MAX {
        let (new, delivery) = place(parts, &ask, facts, giver, (join, &earlier)).await?;
        let halt = parts.store.find_halt(&new).await.map_err(|error| refuse_store(&error))?;
        if let Some(halt) = halt {
            return Err(journal_denial(parts, ask, facts, Denied::Halted(halt)).await);
        }
        let refusal = match store_gift(parts, &ask, giver.standing, new, Some(delivery)).await {
            Ok(answer) => return Ok(answer),
            Err(refusal) => refusal,
        };
        let now = list_deliveries(parts, facts, join).await?;
        if now.len() == earlier.len() {
            return Err(refusal);
        }
        earlier = now;
    }
    let words = format!("others delivered to {} at the same time, again and again", join.agent);
    Err(Refusal::new(Reason::Overloaded, words))
}

async fn list_deliveries(parts: &Parts, facts: &JobFacts, join: &Join) -> Result<Vec<Delivery>, Refusal> {
    let listed = parts.store.list_deliveries(&facts.tenant, facts.session, &join.agent).await;
    listed.map_err(|error| refuse_store(&error))
}

/// The wave's job as it would be with this delivery, and the delivery. Also one that starts nothing is admitted, so that its giver hears
/// what stands against it while it runs.
async fn place(
    parts: &Parts,
    ask: &Ask,
    facts: &JobFacts,
    giver: &Giver,
    (join, earlier): (&Join, &[Delivery]),
) -> Result<(NewJob, NewDelivery), Refusal> {
    let placed = join.place(&facts.agent, earlier).map_err(|error| {
        Refusal::new(Reason::LimitReached, error.to_string()).with_detail("agent", &error.agent)
    })?;
    let body = join.compose(placed.wave, earlier, (&facts.agent, ask.run.job, &ask.body));
    if body.len() as u64 > VALUE_MAX_BYTES {
        let words = format!(
            "with what was delivered before, {} would get {} bytes, and {VALUE_MAX_BYTES} are taken",
            join.agent,
            body.len()
        );
        return Err(Refusal::new(Reason::InputTooLarge, words).with_detail("limit_bytes", VALUE_MAX_BYTES));
    }
    let gift = Gift { body, ..ask.gift(facts, giver.priority) };
    let new = parts.submissions.seal_gift(gift, facts, giver.submitted_by.clone(), placed.child).await?;
    let records = if placed.starts { new.records } else { Vec::new() };
    let delivery = NewDelivery { upstream: facts.agent.clone(), placed, body: ask.body.clone() };
    Ok((NewJob { records, ..new }, delivery))
}
