//! What a program gives to agents through its run's socket, and what a handler gives.

use serde_json::json;
use tenure_core::{limits::VALUE_MAX_BYTES, reason::Reason};
use tenure_proto::{
    status::status_to_refusal,
    v1::{GiveWorkRequest, GiveWorkResponse, SendJobRequest, run_service_client::RunServiceClient},
};
use tenure_worker::{
    Worker,
    handler::{Gift, HandlerError, RunContext},
};
use tonic::{Status, transport::Channel};

use crate::{
    agent::run_ref,
    coordinator::{Book, Got},
    fixture::{Fixture, connect_socket, start_sleeper, wait_for_end},
    handlers::{failure, grant_run, start},
};

fn work(body: &str) -> GiveWorkRequest {
    let agent = "developer".to_owned();
    GiveWorkRequest { agent, body: body.to_owned().into(), spawn: false, key: String::new() }
}

fn gifts(book: &Book) -> Vec<SendJobRequest> {
    let gift = |got| match got {
        Got::Gift(gift) => Some(gift),
        _ => None,
    };
    book.got().into_iter().filter_map(gift).collect()
}

async fn give(
    inside: &mut RunServiceClient<Channel>,
    request: GiveWorkRequest,
) -> Result<GiveWorkResponse, Status> {
    Ok(inside.give_work(request).await?.into_inner())
}

#[tokio::test]
async fn the_same_given_twice_is_two_jobs_and_under_a_key_it_is_one() {
    let fixture = Fixture::start().await;
    let mut inside = connect_socket(&start_sleeper(&fixture, json!({})).await).await;
    let first = give(&mut inside, work("fix it")).await.unwrap();
    let second = give(&mut inside, work("fix it")).await.unwrap();
    let other = give(&mut inside, work("fix that")).await.unwrap();
    let spawned = give(&mut inside, GiveWorkRequest { spawn: true, ..work("fix it") }).await.unwrap();
    let keyed = GiveWorkRequest { key: "k".to_owned(), ..work("fix it") };
    let named = give(&mut inside, keyed.clone()).await.unwrap();
    let again = give(&mut inside, GiveWorkRequest { ..keyed }).await.unwrap();
    assert_ne!(first.job_id, second.job_id);
    assert_eq!((&named.job_id, again.already_given), (&again.job_id, true));
    let seen: Vec<_> = gifts(&fixture.book)
        .into_iter()
        .map(|gift| (gift.body, gift.ordinal, gift.spawn, gift.key))
        .collect();
    let expected = [
        ("fix it", 1, false, ""),
        ("fix it", 2, false, ""),
        ("fix that", 1, false, ""),
        ("fix it", 1, true, ""),
        ("fix it", 3, false, "k"),
    ];
    assert_eq!(seen, expected.map(|(body, no, spawn, key)| (body.into(), no, spawn, key.to_owned())));
    assert!(other.job_id != spawned.job_id);
}

#[tokio::test]
async fn a_gift_is_asked_again_until_a_coordinator_answers_and_counts_once() {
    let fixture = Fixture::start().await;
    let mut inside = connect_socket(&start_sleeper(&fixture, json!({})).await).await;
    fixture.book.set_failing_look_ups(2);
    give(&mut inside, work("fix it")).await.unwrap();
    let given = gifts(&fixture.book);
    assert_eq!((given.len(), given[0].ordinal, given[0].run.clone()), (1, 1, Some(run_ref(1))));
    assert!(!given[0].secret.is_empty());
}

#[tokio::test]
async fn what_is_no_work_is_refused_at_the_door_and_secrets_do_not_get_out() {
    let fixture = Fixture::start().await;
    let secret = std::env::var("PATH").unwrap();
    let mut inside = connect_socket(&start_sleeper(&fixture, json!({"secrets": ["PATH"]})).await).await;
    let large = "x".repeat(usize::try_from(VALUE_MAX_BYTES).unwrap() + 1);
    for (request, expected) in [
        (work(" \n"), Reason::InvalidArgument),
        (work(&large), Reason::InputTooLarge),
        (GiveWorkRequest { agent: "No Name".to_owned(), ..work("x") }, Reason::InvalidArgument),
        (GiveWorkRequest { key: "k".repeat(513), ..work("x") }, Reason::InvalidArgument),
    ] {
        let refused = give(&mut inside, request).await.unwrap_err();
        assert_eq!(status_to_refusal(&refused).unwrap().reason, expected);
    }
    assert_eq!(gifts(&fixture.book).len(), 0);
    give(&mut inside, work(&format!("use {secret}"))).await.unwrap();
    assert_eq!(gifts(&fixture.book)[0].body, "use [redacted:PATH]");
}

#[tokio::test]
async fn a_handler_gives_work_and_gets_the_jobs() {
    async fn plan(run: RunContext, _: String) -> Result<(bool, bool), HandlerError> {
        let sent = run.send("developer", "fix it").await?;
        let spawned = run.spawn("auditor", "look").await?;
        let keyed = run.give(Gift::send("developer", "x").key("k")).await?;
        Ok((sent.job != spawned.job, run.give(Gift::send("developer", "x").key("k")).await?.job == keyed.job))
    }
    let fixture = start(Worker::agent("greeter", "1", plan)).await;
    grant_run(&fixture, "\"go\"", json!({})).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.result.as_deref(), Some(&b"[true,true]"[..]), "{end:?}");
    assert_eq!(gifts(&fixture.book).len(), 3);
}

#[tokio::test]
async fn a_handler_hears_why_its_work_was_not_given() {
    async fn plan(run: RunContext, _: String) -> Result<(), HandlerError> {
        run.send("developer", " ").await?;
        Ok(())
    }
    let fixture = start(Worker::agent("greeter", "1", plan)).await;
    grant_run(&fixture, "\"go\"", json!({})).await;
    let (error, _) = failure(wait_for_end(&fixture.book, &run_ref(1), 1).await);
    assert!(error.contains("blank"), "{error}");
}
