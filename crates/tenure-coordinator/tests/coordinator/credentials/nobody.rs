//! What whoever has no credential may ask, and that it takes nothing from those who have one.

use std::time::Duration;

use tenure_core::{
    limits::{CALLS_PER_CONNECTION_MAX, HEALTH_WATCHES_MAX, MESSAGE_WITHOUT_CALLER_MAX_BYTES},
    reason::Reason,
};
use tenure_proto::v1::{
    self, job_service_client::JobServiceClient, worker_service_client::WorkerServiceClient,
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};

use super::scene::Scene;
use crate::fleet::{PATIENCE, reason};

#[tokio::test]
async fn a_coordinator_that_stops_ends_watches_of_its_health_and_reflection() {
    let (scene, token) = Scene::start().await;
    let mut health = HealthClient::new(scene.anonymous());
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().is_some());
    // The caller's side stays open.
    let (sender, questions) = tokio::sync::mpsc::channel(1);
    let question = ServerReflectionRequest {
        message_request: Some(MessageRequest::ListServices(String::new())),
        ..Default::default()
    };
    sender.send(question).await.unwrap();
    let questions = tokio_stream::wrappers::ReceiverStream::new(questions);
    let mut reflection = ServerReflectionClient::new(scene.way(&token));
    let mut answers = reflection.server_reflection_info(questions).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some());
    // Whatever does not end by itself is waited for longer than this test is.
    let stopped = scene.coordinator.shutdown(Duration::from_secs(24 * 60 * 60));
    tokio::time::timeout(PATIENCE, stopped).await.expect("every stream ends with the coordinator");
    let end = loop {
        match watch.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the watch ended without a reason"),
            Err(status) => break status,
        }
    };
    assert_eq!(reason::<()>(Err(end)), Reason::CoordinatorUnavailable);
    drop(sender);
}

#[tokio::test]
async fn watches_of_nobody_take_no_place_from_anybody_else() {
    assert!(u32::try_from(HEALTH_WATCHES_MAX).unwrap() < CALLS_PER_CONNECTION_MAX);
    let (scene, token) = Scene::start().await;
    let mut health = HealthClient::new(scene.anonymous());
    let mut watches = Vec::new();
    for _ in 0..HEALTH_WATCHES_MAX {
        watches.push(health.watch(HealthCheckRequest::default()).await.unwrap());
    }
    let one_more = health.watch(HealthCheckRequest::default()).await;
    assert_eq!(reason(one_more), Reason::Overloaded);
    health.check(HealthCheckRequest::default()).await.unwrap();
    let mut jobs = JobServiceClient::new(scene.way_for(&token, "acme"));
    jobs.list_jobs(v1::ListJobsRequest::default()).await.unwrap();
    watches.clear();
    tenure_testkit::wait_for("a place for a watch", PATIENCE, async || {
        health.watch(HealthCheckRequest::default()).await
    })
    .await;
}

#[tokio::test]
async fn whoever_reports_without_a_token_may_say_little() {
    let (scene, _) = Scene::start().await;
    let report = |bytes| v1::ReportGoneRequest { secret: vec![0; bytes].into(), ..Default::default() };
    let mut workers = WorkerServiceClient::new(scene.anonymous());
    let long = workers.report_gone(report(MESSAGE_WITHOUT_CALLER_MAX_BYTES)).await;
    assert_eq!(reason(long), Reason::MessageTooLarge);
    let short = workers.report_gone(report(32)).await;
    assert_eq!(reason(short), Reason::InvalidArgument);
}
