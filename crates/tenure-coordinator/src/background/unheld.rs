//! Jobs whose handler nobody holds any more: they were admitted under one version, and the workers that are there hold
//! another one. They would wait for ever, and nobody would notice. A version that is missing for long enough, while another
//! one of the same agent is held, has been replaced: its waiting jobs are set aside, and name both declarations. Where no
//! worker with that agent is there at all, everybody is away, and the jobs wait. Each coordinator watches by itself.
//! Neighbours: `denial` sets aside, the store lists, `tenure_core::handler` has the labels.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use tenure_core::{
    handler::read_handler_label,
    id::{JobId, Tenant},
    plan::JobFacts,
};
use tenure_store::HeldLabels;

use super::{pass::PassError, pause};
use crate::{coordinator::Parts, denial::set_aside_changed, patience::within, refusals::chain};

/// A pass begins so often, or as often as the wait itself where that is shorter.
const EVERY: Duration = Duration::from_secs(10);
/// A pause is at least so many times as long as the pass before it.
const PAUSE_FACTOR: u32 = 3;

/// Since when a label is missing for a tenant.
type Missing = HashMap<(Tenant, String), Instant>;

/// Sets such jobs aside until the coordinator stops; `wait` is how long a version may be missing.
pub(super) async fn set_unheld_aside(parts: Parts, wait: Duration) {
    let mut missing = Missing::new();
    let mut next = Duration::ZERO;
    while pause(&parts, next).await {
        let begun = Instant::now();
        match run_pass(&parts, &mut missing, wait).await {
            Ok(0) => {}
            Ok(set_aside) => tracing::info!(set_aside, "jobs whose handler nobody holds were set aside"),
            Err(error) => {
                // What was not seen is not known to have been missing.
                missing.clear();
                tracing::debug!(error = chain(&error), "handlers that nobody holds could not be looked for");
            }
        }
        let took = begun.elapsed();
        next = EVERY.min(wait).saturating_sub(took).max(took * PAUSE_FACTOR);
    }
}

async fn run_pass(parts: &Parts, missing: &mut Missing, wait: Duration) -> Result<usize, PassError> {
    let held = within(parts.store.list_labels()).await??;
    let (mut seen, mut set_aside) = (Missing::new(), 0);
    let mut after: Option<(Tenant, JobId)> = None;
    // Where nobody holds a handler, everybody is away.
    while !parts.stopping.is_cancelled() && held.iter().any(holds_any) {
        let page = within(parts.store.list_needs(after.as_ref())).await??;
        let mut overdue = Vec::new();
        for ((tenant, job), requires) in page.jobs {
            let Some(label) = find_replaced(&held, &tenant, &requires) else { continue };
            let key = (tenant.clone(), label);
            let since = missing.get(&key).copied().unwrap_or_else(Instant::now);
            if since.elapsed() >= wait {
                overdue.push((tenant, job));
            }
            seen.insert(key, since);
        }
        set_aside += set_all_aside(parts, &overdue).await?;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    *missing = seen;
    Ok(set_aside)
}

async fn set_all_aside(parts: &Parts, wanted: &[(Tenant, JobId)]) -> Result<usize, PassError> {
    let mut count = 0;
    for found in within(parts.store.read_facts(wanted)).await?? {
        // One that cannot be read is named by whoever wants to claim it.
        let Some(Ok(facts)) = found else { continue };
        let facts: JobFacts = facts;
        let why = "whose handler no worker holds any more in that version";
        count += usize::from(set_aside_changed(parts, &facts, why).await);
    }
    Ok(count)
}

fn holds_any(worker: &HeldLabels) -> bool {
    worker.labels.iter().any(|label| read_handler_label(label).is_some())
}

/// The label of the handler that the job needs, where workers that serve its tenant hold other versions of it, and none
/// that one.
fn find_replaced(held: &[HeldLabels], tenant: &Tenant, requires: &[String]) -> Option<String> {
    let (label, agent) = requires.iter().find_map(|label| Some((label, read_handler_label(label)?.0)))?;
    let serving =
        || held.iter().filter(|worker| worker.tenants.names(tenant)).flat_map(|worker| &worker.labels);
    let of_agent = |other: &String| read_handler_label(other).is_some_and(|(name, _)| name == agent);
    let replaced = serving().any(of_agent) && !serving().any(|other| other == label);
    replaced.then(|| label.clone())
}

#[cfg(test)]
mod tests {
    use tenure_core::credential::Tenants;

    use super::*;

    fn worker(tenant: &str, labels: &[&str]) -> HeldLabels {
        let tenants = Tenants::from_texts(&[tenant.to_owned()]).unwrap();
        HeldLabels { tenants, labels: labels.iter().map(|label| (*label).to_owned()).collect() }
    }

    #[test]
    fn a_version_is_replaced_where_another_one_of_its_agent_is_held_for_the_tenant_and_it_is_not() {
        let (one, two) = ("tenure.handler/mailer=1", "tenure.handler/mailer=2");
        let needs = vec!["zone=eu".to_owned(), one.to_owned()];
        let find = |held: &[HeldLabels]| find_replaced(held, &Tenant::default_tenant(), &needs);
        assert_eq!(find(&[worker("default", &[two])]).as_deref(), Some(one));
        assert_eq!(find(&[worker("*", &[two])]).as_deref(), Some(one));
        for held in [
            vec![],
            vec![worker("default", &["tenure.handler/biller=2"])],
            vec![worker("other", &[two])],
            vec![worker("default", &[two]), worker("*", &[one])],
        ] {
            assert_eq!(find(&held), None, "{held:?}");
        }
        assert_eq!(find_replaced(&[worker("*", &[two])], &Tenant::default_tenant(), &[]), None);
    }
}
