//! What is let in, and what is refused with nothing left behind.

use std::time::Duration;

use tenure_core::reason::Reason;
use tenure_proto::{
    convert::time::write_timestamp,
    v1::{self, submit_jobs_item::Outcome},
};

use crate::fleet::{Fleet, reason, submission};

fn keyed(key: &str, input: &'static str) -> v1::Submission {
    v1::Submission { key: Some(key.into()), input: input.into(), ..submission("plain") }
}

#[tokio::test]
async fn the_same_key_answers_with_the_same_job_and_another_payload_is_refused() {
    let fleet = Fleet::start().await;
    let first = fleet.submit_with(keyed("k", "one")).await.unwrap();
    let again = fleet.submit_with(keyed("k", "one")).await.unwrap();
    assert_eq!((&again.job_id, &again.session_id), (&first.job_id, &first.session_id));
    assert_eq!((first.already_submitted, again.already_submitted), (false, true));
    assert_eq!(reason(fleet.submit_with(keyed("k", "two")).await), Reason::KeyReused);
    let listed = fleet.jobs().list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner().jobs;
    assert_eq!(listed.len(), 1);
}

#[tokio::test]
async fn a_refused_submission_leaves_its_key_free() {
    let fleet = Fleet::start().await;
    let refused = v1::Submission { agent: "unknown".into(), ..keyed("k", "one") };
    assert_eq!(reason(fleet.submit_with(refused).await), Reason::UnknownAgent);
    assert!(!fleet.submit_with(keyed("k", "one")).await.unwrap().already_submitted);
}

/// What was admitted stays admitted, whatever would be refused by now.
#[tokio::test]
async fn a_submission_that_is_sent_again_is_answered_with_its_job_where_it_would_be_refused_by_now() {
    let fleet = Fleet::start().await;
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_millis(1_500);
    let deadline = v1::submission::Deadline::DeadlineAt(write_timestamp(soon));
    let dated = v1::Submission { deadline: Some(deadline), ..keyed("dated", "one") };
    let (one, two) = (
        fleet.submit_with(dated.clone()).await.unwrap(),
        fleet.submit_with(keyed("sized", "nine byte")).await.unwrap(),
    );
    fleet.apply("plain", r#"{"command":["true"],"input-limit":"4 B"}"#).await;
    let unkeyed = v1::Submission { key: None, ..dated.clone() };
    tenure_testkit::wait_for("the deadline", Duration::from_secs(30), async || {
        match fleet.submit_with(unkeyed.clone()).await {
            Err(refused) => Ok(refused),
            Ok(admitted) => Err(admitted),
        }
    })
    .await;
    let requests =
        vec![dated.clone(), submission("unknown"), keyed("sized", "nine byte"), keyed("new", "nine byte")];
    let request = v1::SubmitJobsRequest { submissions: requests };
    let items = fleet.jobs().submit_jobs(request).await.unwrap().into_inner().items;
    let told: Vec<String> = items
        .into_iter()
        .map(|item| match item.outcome.unwrap() {
            Outcome::Admitted(admitted) => format!("{} {}", admitted.job_id, admitted.already_submitted),
            Outcome::Refused(refusal) => refusal.code,
        })
        .collect();
    let known = |admitted: &v1::Admitted| format!("{} true", admitted.job_id);
    assert_eq!(told, [known(&one), "UNKNOWN_AGENT".into(), known(&two), "INPUT_TOO_LARGE".into()]);
    let other = fleet.submit_with(keyed("sized", "other payload")).await;
    assert_eq!(reason(other), Reason::KeyReused);
}

#[tokio::test]
async fn an_input_over_the_limit_of_its_agent_is_refused_with_both_sizes() {
    let fleet = Fleet::start().await;
    fleet.apply("small", r#"{"command":["true"],"input-limit":"4 B"}"#).await;
    let status = fleet.submit_with(submission("small")).await.unwrap_err();
    assert!(status.message().contains('9') && status.message().contains('4'), "{}", status.message());
    assert_eq!(reason::<()>(Err(status)), Reason::InputTooLarge);
}

#[tokio::test]
async fn each_of_a_batch_is_admitted_or_refused_by_itself() {
    let fleet = Fleet::start().await;
    let submissions = vec![keyed("a", "one"), submission("unknown"), keyed("a", "one"), keyed("a", "two")];
    let request = v1::SubmitJobsRequest { submissions };
    let items = fleet.jobs().submit_jobs(request).await.unwrap().into_inner().items;
    let told: Vec<String> = items
        .into_iter()
        .map(|item| match item.outcome.unwrap() {
            Outcome::Admitted(admitted) => format!("admitted {}", admitted.already_submitted),
            Outcome::Refused(refusal) => refusal.code,
        })
        .collect();
    assert_eq!(told, ["admitted false", "UNKNOWN_AGENT", "admitted true", "KEY_REUSED"]);
}

/// Provokes `BATCH_TOO_LARGE`.
#[tokio::test]
async fn a_batch_over_its_limit_is_refused_whole() {
    let fleet = Fleet::start().await;
    let request = v1::SubmitJobsRequest { submissions: vec![submission("plain"); 1_001] };
    assert_eq!(reason(fleet.jobs().submit_jobs(request).await), Reason::BatchTooLarge);
}

#[tokio::test]
async fn a_job_is_held_to_the_declaration_that_it_was_admitted_under() {
    let fleet = Fleet::start().await;
    let job = fleet.submit("plain").await;
    let before = fleet.job(&job).await.declaration_digest;
    fleet.apply("plain", r#"{"command":["false"]}"#).await;
    let other = fleet.submit("plain").await;
    assert_eq!(fleet.job(&job).await.declaration_digest, before);
    assert_ne!(fleet.job(&other).await.declaration_digest, before);
}

/// Provokes `INVALID_DECLARATION`.
#[tokio::test]
async fn a_declaration_that_is_none_is_refused_and_nothing_of_its_apply_is_stored() {
    let fleet = Fleet::start().await;
    let agents = vec![
        v1::AgentDeclaration { name: "good".into(), document: r#"{"command":["true"]}"#.into() },
        v1::AgentDeclaration { name: "bad".into(), document: r#"{"comand":["true"]}"#.into() },
    ];
    let request = v1::ApplyAgentsRequest { agents, ..Default::default() };
    assert_eq!(reason(fleet.agents().apply_agents(request).await), Reason::InvalidDeclaration);
    let listed =
        fleet.agents().list_agents(v1::ListAgentsRequest::default()).await.unwrap().into_inner().agents;
    let names: Vec<&str> = listed.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["plain"]);
}
