//! The database goes away while a coordinator serves, and comes back; a coordinator stops.

use std::time::Duration;

use tenure_core::reason::Reason;
use tenure_postgres::{Options, Server, Stop};
use tenure_proto::v1::{self, run_end::How};
use tenure_testkit::{TestDatabase, wait_for};

use crate::{
    fleet::{Fleet, PATIENCE, PLAIN_AGENT, reason, start_coordinator, submission},
    worker::{Worker, applied, introduction, register},
};

#[tokio::test]
async fn a_database_that_went_away_is_said_and_everything_goes_on_when_it_is_back() {
    let mut server =
        tokio::task::spawn_blocking(|| Server::start(Options::default()).unwrap()).await.unwrap();
    let database = TestDatabase::create_on(&server.url("postgres")).await.unwrap();
    let (coordinator, channel) = start_coordinator(database.url()).await;
    let mut jobs = v1::job_service_client::JobServiceClient::new(channel.clone());
    let agents = vec![v1::AgentDeclaration { name: "plain".into(), document: PLAIN_AGENT.into() }];
    let apply = v1::ApplyAgentsRequest { agents, ..Default::default() };
    v1::agent_service_client::AgentServiceClient::new(channel.clone()).apply_agents(apply).await.unwrap();
    let registration = register(&channel, introduction("w1")).await;
    let mut worker = Worker::attach(&channel, &registration).await.unwrap();
    worker.want(1).await;
    let request = v1::SubmitJobRequest { submission: Some(submission("plain")) };
    let job = jobs.submit_job(request.clone()).await.unwrap().into_inner().admitted.unwrap().job_id;
    let grant = worker.hear_grant().await;

    server.kill9();
    let refused = jobs.submit_job(request.clone()).await;
    let retry = tenure_proto::status::status_to_refusal(refused.as_ref().unwrap_err()).unwrap().retry_after;
    assert!(retry.is_some());
    assert_eq!(reason(refused), Reason::DatabaseUnavailable);
    assert_eq!(
        reason(jobs.get_job(v1::GetJobRequest { job: job.clone() }).await),
        Reason::DatabaseUnavailable
    );
    // What the worker reports now may or may not be durable, so its stream ends, and it sends it again.
    worker.say(v1::attach_request::Message::Append(crate::worker::note(&grant, 1, "in the dark"))).await;
    assert_eq!(reason::<()>(Err(worker.hear_end().await)), Reason::DatabaseUnavailable);
    wait_for("the coordinator to say that it is not ready", PATIENCE, async || {
        if coordinator.is_ready() { Err("ready") } else { Ok(()) }
    })
    .await;

    server.start_again().unwrap();
    wait_for("the coordinator to be ready", PATIENCE, async || {
        if coordinator.is_ready() { Ok(()) } else { Err("not ready") }
    })
    .await;
    let mut again = Worker::attach(&channel, &registration).await.unwrap();
    applied(again.note(&grant, 1, "in the dark").await);
    applied(again.end(&grant, 2, How::ExitCode(0)).await);
    let job = jobs.get_job(v1::GetJobRequest { job }).await.unwrap().into_inner().job.unwrap();
    assert_eq!(job.state(), v1::JobState::Succeeded);
    coordinator.shutdown(Duration::from_secs(5)).await;
    drop(database);
    server.stop(Stop::Fast);
}

#[tokio::test]
async fn a_frozen_database_is_said_within_a_bound_and_everything_goes_on_when_it_thaws() {
    let server = tokio::task::spawn_blocking(|| Server::start(Options::default()).unwrap()).await.unwrap();
    let database = TestDatabase::create_on(&server.url("postgres")).await.unwrap();
    let (coordinator, channel) = start_coordinator(database.url()).await;
    let mut jobs = v1::job_service_client::JobServiceClient::new(channel);
    let listed = v1::ListJobsRequest::default();
    jobs.list_jobs(listed.clone()).await.unwrap();

    signal_server(&server, "STOP");
    assert_eq!(reason(jobs.list_jobs(listed.clone()).await), Reason::DatabaseUnavailable);
    assert!(!coordinator.is_ready());
    signal_server(&server, "CONT");
    wait_for("the database to answer", PATIENCE, async || jobs.list_jobs(listed.clone()).await).await;
    coordinator.shutdown(PATIENCE).await;
}

/// Signals the postmaster and every process that it forked.
fn signal_server(server: &Server, signal: &str) {
    let postmaster = server.pid().unwrap().to_string();
    let mut pids = vec![postmaster.clone()];
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        // The parent is the second word after the program's name, which ends with the last bracket.
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        if parent == Some(&postmaster) {
            pids.push(entry.file_name().into_string().unwrap());
        }
    }
    let sent = std::process::Command::new("kill").arg(format!("-{signal}")).args(pids).status().unwrap();
    assert!(sent.success());
}

#[tokio::test]
async fn a_coordinator_that_stops_says_so_to_its_workers_and_ends_its_watches() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let request = v1::WatchJobRequest { job, from_seq: 0 };
    let mut watch = fleet.jobs().watch_job(request).await.unwrap().into_inner();
    let (second, channel) = fleet.start_another().await;
    fleet.coordinator.shutdown(PATIENCE).await;
    assert_eq!(reason::<()>(Err(worker.hear_end().await)), Reason::CoordinatorUnavailable);
    let end = loop {
        match watch.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the watch of a job that goes on ended without a reason"),
            Err(status) => break status,
        }
    };
    assert_eq!(reason::<()>(Err(end)), Reason::CoordinatorUnavailable);
    let mut moved = Worker::attach(&channel, &worker.registration).await.unwrap();
    applied(moved.end(&grant, 1, How::ExitCode(0)).await);
    second.shutdown(PATIENCE).await;
}

#[tokio::test]
async fn a_watch_goes_on_at_another_coordinator_without_gap_and_repeat() {
    let fleet = Fleet::start().await;
    let (_second, channel) = fleet.start_another().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    applied(worker.note(&grant, 1, "before").await);
    let mut seqs = Vec::new();
    let mut watch = fleet
        .jobs()
        .watch_job(v1::WatchJobRequest { job: job.clone(), from_seq: 1 })
        .await
        .unwrap()
        .into_inner();
    while seqs.len() < 4 {
        seqs.push(watch.message().await.unwrap().unwrap().record.unwrap().seq);
    }
    fleet.coordinator.shutdown(PATIENCE).await;
    let mut moved = Worker::attach(&channel, &worker.registration).await.unwrap();
    applied(moved.note(&grant, 2, "after").await);
    let mut jobs = v1::job_service_client::JobServiceClient::new(channel);
    let from_seq = seqs[3] + 1;
    let mut watch = jobs.watch_job(v1::WatchJobRequest { job, from_seq }).await.unwrap().into_inner();
    applied(moved.end(&grant, 3, How::ExitCode(0)).await);
    while let Some(response) = watch.message().await.unwrap() {
        seqs.push(response.record.unwrap().seq);
    }
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
}

/// Provokes `TIMELINE_CHANGED`.
#[tokio::test]
async fn a_database_on_another_timeline_takes_nothing_more_and_says_why() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    sqlx::query("UPDATE installation SET timeline = 'FFFFFFFF'").execute(&pool).await.unwrap();
    assert_eq!(reason(fleet.submit_with(submission("plain")).await), Reason::TimelineChanged);
    worker.say(v1::attach_request::Message::Append(crate::worker::note(&grant, 1, "a note"))).await;
    assert_eq!(reason::<()>(Err(worker.hear_end().await)), Reason::TimelineChanged);
    let refused = fleet.workers().register_worker(introduction("w2")).await;
    assert_eq!(reason(refused), Reason::TimelineChanged);
}
