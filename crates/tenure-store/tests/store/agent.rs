//! Declarations and which of them are the present ones.

use tenure_core::id::{Digest, Tenant};
use tenure_store::{ChangeKind, NewBundle, NewDeclaration};

use crate::fleet::{AGENT, DOCUMENT, Fleet, agent, by};

fn declare(name: &str, document: &[u8]) -> NewDeclaration {
    NewDeclaration { agent: agent(name), document: document.to_vec(), digest: Digest::of(document) }
}

fn bundle(document: &[u8]) -> NewBundle {
    NewBundle { document: document.to_vec(), digest: Digest::of(document) }
}

async fn apply(
    fleet: &Fleet,
    new: &[NewDeclaration],
    with: Option<&NewBundle>,
    dry: bool,
) -> Vec<ChangeKind> {
    let changes = fleet.store.apply_agents(&fleet.tenant, new, with, &by(), dry).await.unwrap();
    changes.into_iter().map(|change| change.kind).collect()
}

#[tokio::test]
async fn applying_says_what_changed_and_a_dry_run_changes_nothing() {
    let fleet = Fleet::start().await;
    let new = [declare(AGENT, b"{2}"), declare("b", DOCUMENT), declare("c", DOCUMENT)];
    let expected = [ChangeKind::Changed, ChangeKind::Added, ChangeKind::Added];
    assert_eq!(apply(&fleet, &new, None, true).await, expected);
    assert_eq!(fleet.store.list_agents(&fleet.tenant, None, 10).await.unwrap().len(), 1);
    assert_eq!(apply(&fleet, &new, None, false).await, expected);
    assert_eq!(apply(&fleet, &new, None, false).await, [ChangeKind::Unchanged; 3]);
    let read = fleet.store.read_agent(&fleet.tenant, &agent(AGENT)).await.unwrap().unwrap();
    assert_eq!((&read.document[..], read.applied_by.as_str()), (&b"{2}"[..], "somebody"));
}

#[tokio::test]
async fn bundle_becomes_that_of_the_agents_named_and_stays_with_them() {
    let fleet = Fleet::start().await;
    let policy = bundle(b"{\"policy\":1}");
    let new = [declare(AGENT, DOCUMENT)];
    assert_eq!(apply(&fleet, &new, Some(&policy), false).await, [ChangeKind::Changed]);
    assert_eq!(apply(&fleet, &new, None, false).await, [ChangeKind::Unchanged]);
    assert_eq!(apply(&fleet, &new, Some(&policy), false).await, [ChangeKind::Unchanged]);
    let read = fleet.store.read_agent(&fleet.tenant, &agent(AGENT)).await.unwrap().unwrap();
    assert_eq!((read.bundle, read.bundle_document), (Some(policy.digest), Some(policy.document)));
}

#[tokio::test]
async fn earlier_declarations_stay_readable_by_their_digests() {
    let fleet = Fleet::start().await;
    apply(&fleet, &[declare(AGENT, b"{2}")], None, false).await;
    let tenant = fleet.tenant.clone();
    let other: Tenant = "other".parse().unwrap();
    let wanted = [
        (tenant.clone(), Digest::of(b"{2}")),
        (tenant.clone(), Digest::of(b"never applied")),
        (other, Digest::of(DOCUMENT)),
        (tenant, Digest::of(DOCUMENT)),
    ];
    let found = fleet.store.read_declarations(&wanted).await.unwrap();
    assert_eq!(found, [Some(b"{2}".to_vec()), None, None, Some(DOCUMENT.to_vec())]);
}

#[tokio::test]
async fn agents_are_listed_by_name_in_pages_and_only_ones_own() {
    let fleet = Fleet::start().await;
    apply(&fleet, &[declare("b", DOCUMENT), declare("a", DOCUMENT)], None, false).await;
    let other = "other".parse().unwrap();
    fleet.store.apply_agents(&other, &[declare("x", DOCUMENT)], None, &by(), false).await.unwrap();
    let list = async |after: Option<&str>, limit| {
        let after = after.map(agent);
        let page = fleet.store.list_agents(&fleet.tenant, after.as_ref(), limit).await.unwrap();
        page.into_iter().map(|revision| revision.agent).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 2).await, [agent("a"), agent("b")]);
    assert_eq!(list(Some("b"), 2).await, [agent(AGENT)]);
    assert_eq!(fleet.store.read_agent(&fleet.tenant, &agent("x")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_who_apply_in_opposite_order_do_not_deadlock() {
    let fleet = Fleet::start().await;
    let names: Vec<_> = (0..30).map(|no| format!("agent-{no}")).collect();
    for round in 0..5 {
        let racers: Vec<_> = (0..4)
            .map(|no| {
                let document = format!("{{{round}.{no}}}");
                let mut new: Vec<_> = names.iter().map(|name| declare(name, document.as_bytes())).collect();
                if no % 2 == 1 {
                    new.reverse();
                }
                let (store, tenant) = (fleet.store.clone(), fleet.tenant.clone());
                tokio::spawn(async move { store.apply_agents(&tenant, &new, None, &by(), false).await })
            })
            .collect();
        for racer in racers {
            racer.await.unwrap().unwrap();
        }
        let agents = fleet.store.list_agents(&fleet.tenant, Some(&agent("agent-0")), 29).await.unwrap();
        assert!(
            agents.iter().all(|revision| revision.digest == agents[0].digest),
            "one of them stands, whole"
        );
    }
}
