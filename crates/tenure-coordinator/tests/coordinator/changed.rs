//! Jobs whose declaration nothing carries out any more, or whose policy bundle is gone: set aside with both digests, and going on
//! under the old one once it is back, or under the present one where a person accepts it.

use std::time::Duration;

use tenure_core::{id::Digest, reason::Reason};
use tenure_proto::v1::{self, JobState, run_end::How};

use crate::{
    fleet::{Fleet, reason},
    worker::{Worker, applied, introduction},
};

fn mailer(version: &str) -> String {
    format!(r#"{{"handler":"{version}","recovery":{{"backoff":{{"first":"10ms","max":"10ms"}}}}}}"#)
}

/// A fleet that does not wait long for a handler that is missing.
async fn start() -> Fleet {
    Fleet::start_with(|options| options.handler_absent_wait = Duration::from_millis(200)).await
}

async fn start_holder(fleet: &Fleet, name: &str, version: &str) -> Worker {
    let labels = vec![format!("tenure.handler/mailer={version}")];
    // One run, and no more.
    Worker::start_as(fleet, v1::RegisterWorkerRequest { labels, ..introduction(name) }, 1).await
}

/// The worker has left, and its term is closed.
async fn leave(fleet: &Fleet, worker: Worker) {
    sqlx::query("UPDATE terms SET expires_at = now(), closed_at = now() WHERE worker = $1")
        .bind(&worker.registration.name)
        .execute(&fleet.pool().await)
        .await
        .unwrap();
}

async fn present_digest(fleet: &Fleet) -> Vec<u8> {
    let agents =
        fleet.agents().list_agents(v1::ListAgentsRequest::default()).await.unwrap().into_inner().agents;
    agents.into_iter().find(|agent| agent.name == "mailer").unwrap().digest.to_vec()
}

async fn reopen(fleet: &Fleet, job: &str, accepted: Option<Vec<u8>>) -> Result<v1::Job, tonic::Status> {
    let accept_declaration = accepted.map(Into::into);
    let request = v1::ReopenJobRequest { job: job.into(), why: "looked".into(), accept_declaration };
    Ok(fleet.jobs().reopen_job(request).await?.into_inner().job.unwrap())
}

fn hex(digest: &[u8]) -> String {
    Digest(digest.try_into().unwrap()).to_string()
}

/// A job of version 1 whose first run failed, its worker gone and version 2 declared and held.
async fn replace(fleet: &Fleet) -> (String, Worker) {
    fleet.apply("mailer", &mailer("1")).await;
    let mut old = start_holder(fleet, "old", "1").await;
    let job = fleet.submit("mailer").await;
    let grant = old.hear_grant().await;
    let failed = v1::HandlerFailed { error: "no route".into(), is_final: false };
    applied(old.end(&grant, 1, How::HandlerFailed(failed)).await);
    leave(fleet, old).await;
    fleet.apply("mailer", &mailer("2")).await;
    (job, start_holder(fleet, "new", "2").await)
}

#[tokio::test]
async fn a_job_whose_handler_was_replaced_is_set_aside_and_goes_on_once_the_old_one_is_back() {
    let fleet = start().await;
    let (job, _new) = replace(&fleet).await;
    let aside = fleet.job_in(&job, JobState::Quarantined).await;
    let (admitted, present) = (hex(&aside.declaration_digest), hex(&present_digest(&fleet).await));
    assert_ne!(admitted, present);
    assert_eq!(aside.reason, "declaration_changed");
    for digest in [&admitted, &present] {
        assert!(aside.detail.contains(digest.as_str()), "{}", aside.detail);
    }
    let records = fleet.records(&job).await;
    let decided = records.iter().find(|record| record.kind == "quarantine_decided").unwrap();
    let text = String::from_utf8(decided.bytes.to_vec()).unwrap();
    assert!(
        text.contains(&format!(r#""changed":{{"admitted":"{admitted}","present":"{present}"}}"#)),
        "{text}"
    );

    assert_eq!(reopen(&fleet, &job, None).await.unwrap().state(), JobState::Ready);
    fleet.job_in(&job, JobState::Quarantined).await;
    let mut back = start_holder(&fleet, "back", "1").await;
    reopen(&fleet, &job, None).await.unwrap();
    let grant = back.hear_grant().await;
    assert_eq!(grant.run.unwrap().job_id, job);
}

/// Provokes `DECLARATION_MISMATCH`.
#[tokio::test]
async fn a_job_goes_on_under_the_present_declaration_where_a_person_accepts_it_and_under_no_other() {
    let fleet = start().await;
    let (job, mut new) = replace(&fleet).await;
    let aside = fleet.job_in(&job, JobState::Quarantined).await;
    let present = present_digest(&fleet).await;
    for wrong in [aside.declaration_digest.to_vec(), vec![7; 32]] {
        assert_eq!(reason(reopen(&fleet, &job, Some(wrong)).await), Reason::DeclarationMismatch);
    }
    assert_eq!(reason(reopen(&fleet, &job, Some(vec![7; 3])).await), Reason::InvalidArgument);
    reopen(&fleet, &job, Some(present.clone())).await.unwrap();
    let grant = new.hear_grant().await;
    assert_eq!(grant.run.clone().unwrap().job_id, job);
    assert_eq!(Digest::of(&grant.declaration), Digest(present.clone().try_into().unwrap()));
    assert_eq!(fleet.job(&job).await.declaration_digest, present);
    applied(new.end(&grant, 1, How::ExitCode(0)).await);
    let reopened = fleet.records(&job).await.into_iter().find(|record| record.kind == "reopened").unwrap();
    let text = String::from_utf8(reopened.bytes.to_vec()).unwrap();
    assert!(text.contains(&format!(r#""declaration":"{}""#, hex(&present))), "{text}");
}

#[tokio::test]
async fn a_job_whose_declaration_is_not_held_any_more_is_set_aside_when_a_worker_wants_it() {
    let fleet = start().await;
    let job = fleet.submit("plain").await;
    let admitted = fleet.job(&job).await.declaration_digest;
    fleet.apply("plain", r#"{"command":["false"]}"#).await;
    let pool = fleet.pool().await;
    let (digest, document, by): (Vec<u8>, Vec<u8>, String) =
        sqlx::query_as("DELETE FROM declarations WHERE digest = $1 RETURNING digest, document, applied_by")
            .bind(&admitted[..])
            .fetch_one(&pool)
            .await
            .unwrap();
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let aside = fleet.job_in(&job, JobState::Quarantined).await;
    assert_eq!(aside.reason, "declaration_changed");
    assert!(aside.detail.contains(&hex(&admitted)), "{}", aside.detail);
    sqlx::query(
        "INSERT INTO declarations (tenant, digest, document, applied_by) VALUES ('default', $1, $2, $3)",
    )
    .bind(digest)
    .bind(document)
    .bind(by)
    .execute(&pool)
    .await
    .unwrap();
    reopen(&fleet, &job, None).await.unwrap();
    assert_eq!(worker.hear_grant().await.run.unwrap().job_id, job);
}

/// Declares the agent with a tenant's bundle beside it; returns the bundle's digest.
async fn apply_with_bundle(fleet: &Fleet, bundle: &'static str) -> String {
    let document = r#"{"command":["true"]}"#.into();
    let agents = vec![v1::AgentDeclaration { name: "mailer".into(), document }];
    let request = v1::ApplyAgentsRequest { agents, bundle: bundle.into(), ..Default::default() };
    fleet.agents().apply_agents(request).await.unwrap();
    Digest::of(bundle.as_bytes()).to_string()
}

async fn held_bundle(fleet: &Fleet, job: &str) -> Option<String> {
    let held: Option<Vec<u8>> = sqlx::query_scalar("SELECT bundle FROM jobs WHERE job = $1::uuid")
        .bind(job)
        .fetch_one(&fleet.pool().await)
        .await
        .unwrap();
    held.map(|digest| hex(&digest))
}

/// A job of a bundle that was replaced, and then removed from the database.
async fn lose_bundle(fleet: &Fleet) -> (String, [String; 2]) {
    let admitted = apply_with_bundle(fleet, r#"{"limits":{"hops":5}}"#).await;
    let job = fleet.submit("mailer").await;
    let present = apply_with_bundle(fleet, r#"{"limits":{"hops":6}}"#).await;
    let lost = sqlx::query("DELETE FROM bundles WHERE encode(digest, 'hex') = $1")
        .bind(&admitted)
        .execute(&fleet.pool().await)
        .await
        .unwrap();
    assert_eq!(lost.rows_affected(), 1);
    (job, [admitted, present])
}

#[tokio::test]
async fn a_job_under_a_bundle_that_was_only_replaced_runs_as_it_was_admitted() {
    let fleet = Fleet::start().await;
    let admitted = apply_with_bundle(&fleet, r#"{"limits":{"hops":5}}"#).await;
    let job = fleet.submit("mailer").await;
    apply_with_bundle(&fleet, r#"{"limits":{"hops":6}}"#).await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    assert_eq!(worker.hear_grant().await.run.unwrap().job_id, job);
    assert_eq!(held_bundle(&fleet, &job).await, Some(admitted));
}

#[tokio::test]
async fn a_job_whose_policy_bundle_is_gone_is_set_aside_and_goes_on_once_it_is_back() {
    let fleet = Fleet::start().await;
    let (job, [admitted, present]) = lose_bundle(&fleet).await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let aside = fleet.job_in(&job, JobState::Quarantined).await;
    assert_eq!(aside.reason, "bundle_changed");
    for digest in [&admitted, &present] {
        assert!(aside.detail.contains(digest.as_str()), "{}", aside.detail);
    }
    let records = fleet.records(&job).await;
    let decided = records.iter().find(|record| record.kind == "quarantine_decided").unwrap();
    let text = String::from_utf8(decided.bytes.to_vec()).unwrap();
    let changed = format!(r#""changed":{{"what":"bundle","admitted":"{admitted}","present":"{present}"}}"#);
    assert!(text.contains(&changed), "{text}");

    reopen(&fleet, &job, None).await.unwrap();
    fleet.job_in(&job, JobState::Quarantined).await;
    assert_eq!(apply_with_bundle(&fleet, r#"{"limits":{"hops":5}}"#).await, admitted);
    reopen(&fleet, &job, None).await.unwrap();
    assert_eq!(worker.hear_grant().await.run.unwrap().job_id, job);
}

#[tokio::test]
async fn a_job_whose_policy_bundle_is_gone_goes_on_under_the_present_one_where_a_person_accepts_its_agents_declaration()
 {
    let fleet = Fleet::start().await;
    let (job, [_, present]) = lose_bundle(&fleet).await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    fleet.job_in(&job, JobState::Quarantined).await;
    let declaration = present_digest(&fleet).await;
    reopen(&fleet, &job, Some(declaration.clone())).await.unwrap();
    assert_eq!(worker.hear_grant().await.run.unwrap().job_id, job);
    assert_eq!(held_bundle(&fleet, &job).await, Some(present.clone()));
    let record = fleet.records(&job).await.into_iter().find(|record| record.kind == "reopened").unwrap();
    let text = String::from_utf8(record.bytes.to_vec()).unwrap();
    let names = format!(r#""declaration":"{}","bundle":"{present}""#, hex(&declaration));
    assert!(text.contains(&names), "{text}");
}
