//! Work that runs give to agents: once over all runs of the giver, and refused where a limit stands against it.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use tenure_core::{limits::VALUE_MAX_BYTES, reason::Reason};
use tenure_proto::v1::{self, JobState, run_end::How, worker_service_client::WorkerServiceClient};
use tonic::Status;

use crate::{
    fleet::{Fleet, Way, reason},
    halts::halt,
    worker::{Worker, applied, gone},
};

fn work(grant: &v1::Grant, agent: &str, body: &str) -> v1::SendJobRequest {
    v1::SendJobRequest {
        run: grant.run.clone(),
        secret: grant.secret.clone(),
        agent: agent.into(),
        body: body.to_owned().into(),
        ordinal: 1,
        ..Default::default()
    }
}

async fn send_by(way: &Way, request: v1::SendJobRequest) -> Result<v1::SendJobResponse, Status> {
    Ok(WorkerServiceClient::new(way.clone()).send_job(request).await?.into_inner())
}

async fn send(fleet: &Fleet, request: v1::SendJobRequest) -> Result<v1::SendJobResponse, Status> {
    send_by(&fleet.channel, request).await
}

fn job_of(grant: &v1::Grant) -> String {
    grant.run.clone().unwrap().job_id
}

/// A run of a new job, granted to a worker.
async fn run(fleet: &Fleet, worker: &mut Worker, agent: &str) -> v1::Grant {
    fleet.submit(agent).await;
    worker.want(1).await;
    worker.hear_grant().await
}

/// What is beside the first record of its journal, and who gave it.
async fn admission(fleet: &Fleet, job: &str) -> (Vec<u8>, serde_json::Value) {
    let first = fleet.records(job).await.remove(0);
    (first.value.unwrap().to_vec(), serde_json::from_slice(&first.bytes).unwrap())
}

async fn count(fleet: &Fleet, job: &str, kind: &str) -> usize {
    fleet.kinds(job).await.iter().filter(|found| *found == kind).count()
}

#[tokio::test]
async fn what_a_run_sends_is_one_job_whichever_run_repeats_it() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let first = run(&fleet, &mut worker, "plain").await;
    let giver = job_of(&first);
    let sent = send(&fleet, work(&first, "plain", "fix it")).await.unwrap();
    assert!(!sent.already_sent);
    let again = send(&fleet, work(&first, "plain", "fix it")).await.unwrap();
    assert_eq!((&again.job_id, again.already_sent), (&sent.job_id, true));
    let second = send(&fleet, v1::SendJobRequest { ordinal: 2, ..work(&first, "plain", "fix it") }).await;
    assert_ne!(second.unwrap().job_id, sent.job_id);
    let (input, admitted) = admission(&fleet, &sent.job_id).await;
    assert_eq!(input, b"fix it");
    assert_eq!(admitted["sender"]["job"], giver.as_str());
    assert_eq!((&admitted["by"]["actor"], &admitted["by"]["basis"]), (&"plain".into(), &"connected".into()));
    assert_eq!(
        (admitted["session"].as_str(), &*sent.session_id),
        (Some(&*fleet.job(&giver).await.session_id), &*sent.session_id)
    );

    // The next run of the giver is answered with the same.
    assert!(matches!(worker.end(&first, 1, How::ExitCode(1)).await, v1::appended::Outcome::Applied(_)));
    let mut other = Worker::start(&fleet, "w2", 3).await;
    let next = loop {
        let grant = other.hear_grant().await;
        if job_of(&grant) == giver {
            break grant;
        }
    };
    let repeated = send(&fleet, work(&next, "plain", "fix it")).await.unwrap();
    assert_eq!((&repeated.job_id, repeated.already_sent), (&sent.job_id, true));
    assert_eq!(count(&fleet, &giver, "sent").await, 2);
    // The earlier run is over.
    assert_eq!(reason(send(&fleet, work(&first, "plain", "fix it")).await), Reason::Fenced);
}

#[tokio::test]
async fn a_gift_that_is_made_through_two_coordinators_at_once_is_one_job() {
    let fleet = Fleet::start().await;
    let (_other, way) = fleet.start_another().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker, "plain").await;
    let ways = [&fleet.channel, &way];
    let racers = (0..16).map(|no| send_by(ways[no % 2], work(&grant, "plain", "fix it")));
    let jobs: BTreeSet<String> =
        join_all(racers).await.into_iter().map(|sent| sent.unwrap().job_id).collect();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(count(&fleet, &job_of(&grant), "sent").await, 1);
    // Sixteen different ones are sixteen jobs.
    let racers = (0..16).map(|no| send_by(ways[no % 2], work(&grant, "plain", &format!("fix {no}"))));
    let jobs: BTreeSet<String> =
        join_all(racers).await.into_iter().map(|sent| sent.unwrap().job_id).collect();
    assert_eq!((jobs.len(), count(&fleet, &job_of(&grant), "sent").await), (16, 17));
    // The numbers of the worker's own reports are not disturbed.
    applied(worker.note(&grant, 1, "sent all").await);
}

#[tokio::test]
async fn what_is_sent_while_the_run_is_taken_over_stands_with_its_record_or_not_at_all() {
    for _ in 0..4 {
        // Of its own, so that nothing else is ready.
        let fleet = Fleet::start().await;
        let mut worker = Worker::start(&fleet, "w1", 0).await;
        let grant = run(&fleet, &mut worker, "plain").await;
        let sends = join_all((0..4).map(|no| send(&fleet, work(&grant, "plain", &no.to_string()))));
        let (sent, gone) = tokio::join!(sends, async { fleet.workers().report_gone(gone(&grant)).await });
        gone.unwrap();
        for sent in &sent {
            if let Err(status) = sent {
                assert_eq!(reason::<()>(Err(status.clone())), Reason::Fenced);
            }
        }
        let given = sent.iter().filter(|sent| sent.is_ok()).count();
        let giver = job_of(&grant);
        assert_eq!(count(&fleet, &giver, "sent").await, given);
        let session = fleet.job(&giver).await.session_id;
        let jobs: i64 = sqlx::query_scalar("SELECT count(*) FROM jobs WHERE session = $1::uuid")
            .bind(&session)
            .fetch_one(&fleet.pool().await)
            .await
            .unwrap();
        assert_eq!(usize::try_from(jobs).unwrap(), given + 1);
    }
}

/// Provokes `HOPS_EXHAUSTED`.
#[tokio::test]
async fn each_job_that_is_sent_has_a_hop_less_and_the_last_sends_nothing() {
    let fleet = Fleet::start().await;
    fleet.apply("chain", r#"{"command":["true"],"limits":{"hops":3}}"#).await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let mut grant = run(&fleet, &mut worker, "chain").await;
    for _ in 0..2 {
        let sent = send(&fleet, work(&grant, "chain", "on")).await.unwrap();
        worker.want(1).await;
        grant = worker.hear_grant().await;
        assert_eq!(job_of(&grant), sent.job_id);
    }
    let last = job_of(&grant);
    assert_eq!(reason(send(&fleet, work(&grant, "chain", "on")).await), Reason::HopsExhausted);
    assert_eq!(count(&fleet, &last, "send_refused").await, 1);
    // The run goes on.
    applied(worker.end(&grant, 1, How::ExitCode(0)).await);
    fleet.job_in(&last, JobState::Succeeded).await;
}

/// Provokes `SPAWN_TOO_DEEP`.
#[tokio::test]
async fn a_session_that_is_spawned_is_its_own_and_spawns_no_other() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker, "plain").await;
    let spawn = |grant: &v1::Grant| v1::SendJobRequest { spawn: true, ..work(grant, "plain", "look") };
    let spawned = send(&fleet, spawn(&grant)).await.unwrap();
    assert_ne!(spawned.session_id, fleet.job(&job_of(&grant)).await.session_id);
    assert_eq!(count(&fleet, &job_of(&grant), "spawned").await, 1);
    assert_eq!(send(&fleet, spawn(&grant)).await.unwrap().job_id, spawned.job_id);
    worker.want(1).await;
    let deep = worker.hear_grant().await;
    assert_eq!(job_of(&deep), spawned.job_id);
    assert_eq!(reason(send(&fleet, spawn(&deep)).await), Reason::SpawnTooDeep);
    assert_eq!(fleet.kinds(&spawned.job_id).await.last().unwrap(), "send_refused");
    send(&fleet, work(&deep, "plain", "in the same session")).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_work_is_refused_and_the_run_goes_on() {
    let fleet = Fleet::start().await;
    fleet.apply("small", r#"{"command":["true"],"input-limit":"1 KiB"}"#).await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker, "plain").await;
    let named = |body: &str| v1::SendJobRequest { key: "k".into(), ..work(&grant, "plain", body) };
    send(&fleet, named("one")).await.unwrap();
    let large = "x".repeat(usize::try_from(VALUE_MAX_BYTES).unwrap() + 1);
    for (request, expected) in [
        (work(&grant, "nobody", "fix it"), Reason::UnknownAgent),
        (work(&grant, "No Name", "fix it"), Reason::InvalidArgument),
        (work(&grant, "plain", " \n"), Reason::InvalidArgument),
        (work(&grant, "small", &"x".repeat(1_025)), Reason::InputTooLarge),
        (work(&grant, "plain", &large), Reason::InputTooLarge),
        (named("two"), Reason::KeyReused),
        (v1::SendJobRequest { key: "a\u{7}".into(), ..work(&grant, "plain", "x") }, Reason::InvalidArgument),
        (v1::SendJobRequest { secret: vec![7; 32].into(), ..work(&grant, "plain", "x") }, Reason::Fenced),
    ] {
        assert_eq!(reason(send(&fleet, request.clone()).await), expected, "{}", request.agent);
    }
    assert_eq!(count(&fleet, &job_of(&grant), "sent").await, 1);
    fleet.cancel(&job_of(&grant)).await.unwrap();
    assert_eq!(reason(send(&fleet, work(&grant, "plain", "late")).await), Reason::CancelRequested);
}

#[tokio::test]
async fn nothing_is_sent_once_the_deadline_of_the_session_is_reached() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker, "plain").await;
    sqlx::query("UPDATE sessions SET started_at = started_at - interval '2 hours', deadline_at = statement_timestamp()")
        .execute(&fleet.pool().await)
        .await
        .unwrap();
    assert_eq!(reason(send(&fleet, work(&grant, "plain", "late")).await), Reason::DeadlineReached);
    assert_eq!(fleet.kinds(&job_of(&grant)).await.last().unwrap(), "send_refused");
}

#[tokio::test]
async fn a_halt_of_an_agent_refuses_what_is_sent_to_it_and_its_submitters_halt_what_they_set_in_motion() {
    let fleet = Fleet::start().await;
    fleet.apply("other", crate::fleet::PLAIN_AGENT).await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker, "plain").await;
    let sent = send(&fleet, work(&grant, "other", "first")).await.unwrap();
    halt(&fleet.channel, "agent other", "it spams").await.unwrap();
    assert_eq!(reason(send(&fleet, work(&grant, "other", "second")).await), Reason::Halted);
    assert_eq!(fleet.kinds(&job_of(&grant)).await.last().unwrap(), "send_refused");
    // What was given before is answered all the same, and others are given work.
    assert_eq!(send(&fleet, work(&grant, "other", "first")).await.unwrap().job_id, sent.job_id);
    send(&fleet, work(&grant, "plain", "third")).await.unwrap();
    let by: String = sqlx::query_scalar("SELECT submitted_by FROM jobs WHERE job = $1::uuid")
        .bind(&sent.job_id)
        .fetch_one(&fleet.pool().await)
        .await
        .unwrap();
    halt(&fleet.channel, &format!("principal {by}"), "it spams").await.unwrap();
    assert_eq!(reason(send(&fleet, work(&grant, "plain", "fourth")).await), Reason::Halted);
}
