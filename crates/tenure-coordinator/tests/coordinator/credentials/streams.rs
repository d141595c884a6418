//! Credentials that end, or are given out, while somebody is there.

use tenure_core::{credential::Scope, reason::Reason};
use tenure_proto::v1::{self, job_service_client::JobServiceClient};
use tenure_store::{Store, StoreOptions};
use tonic::Streaming;

use super::scene::{Scene, apply, issue, submit};
use crate::{
    fleet::{Fleet, PATIENCE, Way, reason},
    worker::Worker,
};

async fn watch(way: Way, job: &str) -> Streaming<v1::WatchJobResponse> {
    let request = v1::WatchJobRequest { job: job.into(), from_seq: 0 };
    JobServiceClient::new(way).watch_job(request).await.unwrap().into_inner()
}

async fn follow(way: Way, job: &str) -> Streaming<v1::ReadOutputResponse> {
    let request = v1::ReadOutputRequest { job: job.into(), follow: true, ..Default::default() };
    JobServiceClient::new(way).read_output(request).await.unwrap().into_inner()
}

/// Why a stream ended.
async fn end_of<M>(mut stream: Streaming<M>) -> Reason {
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended without a reason"),
                Err(status) => return reason::<()>(Err(status)),
            }
        }
    });
    ended.await.expect("the stream ends")
}

/// Provokes `CREDENTIAL_INVALID`.
#[tokio::test]
async fn a_token_that_is_taken_back_ends_the_streams_that_were_opened_with_it_and_no_others() {
    let (mut scene, every) = Scene::start().await;
    let gone = scene.give_out(vec![issue("acme", &[Scope::Read, Scope::Work])]).await.remove(0);
    let kept = scene.way_for(&every, "acme");
    apply(kept.clone()).await;
    let job = submit(kept.clone()).await;
    let mut other = watch(kept.clone(), &job).await;
    let (watched, output) = (watch(scene.way(&gone), &job).await, follow(scene.way(&gone), &job).await);
    let mut worker = Worker::start_at(&scene.way(&gone), "w1", 0).await;
    scene.take_back(&gone);
    assert_eq!(end_of(watched).await, Reason::CredentialInvalid);
    assert_eq!(end_of(output).await, Reason::CredentialInvalid);
    assert_eq!(reason::<()>(Err(worker.hear_end().await)), Reason::CredentialInvalid);
    let refused = Worker::attach(&scene.way(&gone), &worker.registration).await.map(|_| ());
    assert_eq!(reason(refused), Reason::CredentialInvalid);
    // The other watch goes on: it hears of what happens now.
    let cancel = v1::CancelJobRequest { job, why: "no longer wanted".into() };
    JobServiceClient::new(kept).cancel_job(cancel).await.unwrap();
    let mut records = 0;
    while other.message().await.unwrap().is_some() {
        records += 1;
    }
    assert!(records > 1, "{records}");
}

/// Provokes `CREDENTIAL_EXPIRED`.
#[tokio::test]
async fn a_token_whose_time_is_over_ends_its_stream_and_lets_nobody_in() {
    let (mut scene, every) = Scene::start().await;
    let way = scene.way_for(&every, "acme");
    apply(way.clone()).await;
    let job = submit(way).await;
    let short = scene.give_out(vec![issue("acme", &[Scope::Read])]).await.remove(0);
    let watched = watch(scene.way(&short), &job).await;
    // The database's clock is this machine's.
    scene.end_at(&short, jiff::Timestamp::now());
    assert_eq!(end_of(watched).await, Reason::CredentialExpired);
    let again = JobServiceClient::new(scene.way(&short)).get_job(v1::GetJobRequest { job }).await;
    assert_eq!(reason(again), Reason::CredentialExpired);
}

/// Provokes `CREDENTIAL_MISSING`.
#[tokio::test]
async fn the_first_token_of_the_database_closes_a_fleet_that_was_open_and_revoking_it_does_not_open_it() {
    let fleet = Fleet::start().await;
    let job = fleet.submit("plain").await;
    let watched = watch(fleet.channel.clone(), &job).await;
    let store = Store::connect(fleet.database_url(), StoreOptions::default()).await.unwrap();
    let (token, issued) = issue("default", &[Scope::Read]);
    store.store_token(&issued, None).await.unwrap();
    store.send_notifications(&[tenure_coordinator::announce_tokens()]).await.unwrap();
    assert_eq!(end_of(watched).await, Reason::CredentialMissing);
    let caller = tenure_proto::caller::CallerMetadata::new(Some(&token), None);
    let mut jobs = JobServiceClient::new(crate::fleet::open_way(&fleet.coordinator, caller));
    let get = || v1::GetJobRequest { job: job.clone() };
    assert_eq!(jobs.get_job(get()).await.unwrap().into_inner().job.unwrap().id, job);
    assert_eq!(reason(fleet.jobs().get_job(get()).await), Reason::CredentialMissing);
    assert!(store.revoke_token(token.id()).await.unwrap());
    store.send_notifications(&[tenure_coordinator::announce_tokens()]).await.unwrap();
    let refused = tenure_testkit::wait_for("the token to be worth nothing", PATIENCE, async || {
        match jobs.clone().get_job(get()).await {
            Ok(_) => Err("it is let in"),
            Err(status) => Ok(reason::<()>(Err(status))),
        }
    })
    .await;
    assert_eq!(refused, Reason::CredentialInvalid);
    assert_eq!(reason(fleet.jobs().get_job(get()).await), Reason::CredentialMissing);
}
