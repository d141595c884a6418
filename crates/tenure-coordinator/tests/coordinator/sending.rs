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

async fn apply_team(fleet: &Fleet, bundle: &str) {
    let agent = |name: &str| v1::AgentDeclaration {
        name: name.to_owned(),
        document: br#"{"command":["true"]}"#.to_vec().into(),
    };
    let request = v1::ApplyAgentsRequest {
        agents: ["analyst", "developer", "reviewer", "release"].map(agent).to_vec(),
        bundle: bundle.to_owned().into_bytes().into(),
        dry_run: false,
    };
    fleet.agents().apply_agents(request).await.unwrap();
}

/// The runs of what an analyst sends to these agents, in one session.
async fn team(fleet: &Fleet, worker: &mut Worker, agents: &[&str]) -> Vec<v1::Grant> {
    let analyst = run(fleet, worker, "analyst").await;
    let mut grants = Vec::new();
    for (no, agent) in agents.iter().enumerate() {
        send(fleet, work(&analyst, agent, &format!("work {no}"))).await.unwrap();
        worker.want(1).await;
        grants.push(worker.hear_grant().await);
    }
    applied(worker.end(&analyst, 1, How::ExitCode(0)).await);
    grants
}

async fn session_of(fleet: &Fleet, grant: &v1::Grant) -> v1::Session {
    let request = v1::GetSessionRequest { session: job_of(grant) };
    fleet.jobs().get_session(request).await.unwrap().into_inner().session.unwrap()
}

#[tokio::test]
async fn a_join_starts_once_when_each_upstream_has_delivered_however_they_race() {
    let fleet = Fleet::start().await;
    apply_team(&fleet, r#"{"joins":[{"agent":"release","from":["developer","reviewer"]}]}"#).await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grants = team(&fleet, &mut worker, &["developer", "reviewer", "developer", "reviewer"]).await;
    // Two waves, all at the same instant, and each twice.
    let sent = join_all(grants.iter().chain(&grants).map(|grant| {
        let (channel, request) = (fleet.channel.clone(), work(grant, "release", "done"));
        async move { send_by(&channel, request).await }
    }))
    .await;
    let ids: Vec<String> = sent.into_iter().map(|answer| answer.unwrap().job_id).collect();
    assert_eq!(ids[..4], ids[4..], "a giver that repeats itself is answered with the same job");
    let waves: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(waves.len(), 2, "{ids:?}");
    let releases: BTreeSet<String> = session_of(&fleet, &grants[0])
        .await
        .jobs
        .into_iter()
        .filter(|job| job.agent == "release")
        .map(|job| job.id)
        .collect();
    assert_eq!(releases.iter().collect::<BTreeSet<_>>(), waves);
    for id in &releases {
        let (input, record) = admission(&fleet, id).await;
        let input: serde_json::Value = serde_json::from_slice(&input).unwrap();
        let from: BTreeSet<&str> =
            input["deliveries"].as_array().unwrap().iter().map(|one| one["from"].as_str().unwrap()).collect();
        assert_eq!(
            (from, &record["sender"]["agent"].is_string()),
            (BTreeSet::from(["developer", "reviewer"]), &true)
        );
    }
    assert!(session_of(&fleet, &grants[0]).await.joins.is_empty());
}

#[tokio::test]
async fn a_join_that_nobody_is_left_to_complete_is_stalled_and_says_who_is_missing() {
    let fleet = Fleet::start().await;
    apply_team(&fleet, r#"{"joins":[{"agent":"release","from":["developer","reviewer"]}],"routes":{"analyst":["developer","reviewer"]}}"#).await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grants = team(&fleet, &mut worker, &["developer", "reviewer"]).await;
    let waiting = send(&fleet, work(&grants[0], "release", "done")).await.unwrap();
    let joins = session_of(&fleet, &grants[0]).await.joins;
    assert_eq!((joins[0].missing.as_slice(), joins[0].stalled), (["reviewer".to_owned()].as_slice(), false));
    assert_eq!((&joins[0].job_id, joins.len()), (&waiting.job_id, 1));
    for grant in &grants {
        applied(worker.end(grant, 1, How::ExitCode(0)).await);
        fleet.job_in(&job_of(grant), JobState::Succeeded).await;
    }
    let session = session_of(&fleet, &grants[0]).await;
    assert!(session.joins[0].stalled, "{session:?}");
    assert!(session.jobs.iter().all(|job| job.agent != "release"), "{session:?}");
}

#[tokio::test]
async fn a_join_of_any_starts_with_the_first_and_what_comes_later_starts_nothing() {
    let fleet = Fleet::start().await;
    apply_team(&fleet, r#"{"joins":[{"agent":"release","from":["developer","reviewer"],"mode":"any"}]}"#)
        .await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grants = team(&fleet, &mut worker, &["developer", "reviewer"]).await;
    let first = send(&fleet, work(&grants[1], "release", "done")).await.unwrap();
    let late = send(&fleet, work(&grants[0], "release", "done")).await.unwrap();
    assert_eq!(late.job_id, first.job_id);
    let session = session_of(&fleet, &grants[0]).await;
    let releases = session.jobs.iter().filter(|job| job.agent == "release").count();
    assert_eq!((releases, session.joins.len()), (1, 0));
    assert_eq!(count(&fleet, &job_of(&grants[0]), "sent").await, 1);
}

/// Provokes `NOT_ROUTED`.
#[tokio::test]
async fn work_is_given_along_the_routes_that_stood_when_the_giver_was_admitted() {
    let fleet = Fleet::start().await;
    let apply = async |routes: &str| {
        let agent = |name: &str| v1::AgentDeclaration {
            name: name.to_owned(),
            document: br#"{"command":["true"]}"#.to_vec().into(),
        };
        let request = v1::ApplyAgentsRequest {
            agents: ["analyst", "developer", "reviewer"].map(agent).to_vec(),
            bundle: format!(r#"{{"routes":{routes}}}"#).into_bytes().into(),
            dry_run: false,
        };
        fleet.agents().apply_agents(request).await
    };
    let routes = r#"{"analyst":["developer","plain"]}"#;
    apply(routes).await.unwrap();
    let unknown = apply(r#"{"analyst":["developer"],"plain":["nobody"]}"#).await;
    assert!(unknown.as_ref().unwrap_err().message().contains("no agent nobody"), "{unknown:?}");
    assert_eq!(reason(unknown), Reason::InvalidDeclaration);

    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker, "analyst").await;
    let spawn = v1::SendJobRequest { spawn: true, ..work(&grant, "reviewer", "look") };
    for request in [work(&grant, "reviewer", "look"), spawn, work(&grant, "analyst", "again")] {
        let refused = send(&fleet, request).await;
        assert!(refused.as_ref().unwrap_err().message().contains("developer, plain"), "{refused:?}");
        assert_eq!(reason(refused), Reason::NotRouted);
    }
    assert_eq!(count(&fleet, &job_of(&grant), "send_refused").await, 3);
    // Routes that are declared later hold for what is admitted later.
    apply(r#"{"analyst":["reviewer"],"developer":["reviewer"]}"#).await.unwrap();
    let sent = send(&fleet, work(&grant, "developer", "build")).await.unwrap();
    assert_eq!(reason(send(&fleet, work(&grant, "reviewer", "look")).await), Reason::NotRouted);
    worker.want(1).await;
    let developer = worker.hear_grant().await;
    assert_eq!(job_of(&developer), sent.job_id);
    send(&fleet, work(&developer, "reviewer", "look")).await.unwrap();
    // Who is in no route gives work to nobody.
    assert_eq!(reason(send(&fleet, work(&developer, "analyst", "back")).await), Reason::NotRouted);
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
