//! Workers and jobs of several tenants.

use tenure_core::{credential::Scope, reason::Reason};
use tenure_proto::{
    caller::CallerMetadata,
    v1::{self, job_service_client::JobServiceClient, worker_service_client::WorkerServiceClient},
};

use super::scene::{Scene, apply, issue, submit};
use crate::{
    fleet::{open_way, reason},
    worker::{Worker, introduction, register},
};

#[tokio::test]
async fn a_worker_is_offered_only_jobs_of_the_tenants_that_its_token_names() {
    let (mut scene, every) = Scene::start().await;
    let tokens =
        scene.give_out(vec![issue("acme", &[Scope::Work]), issue("acme,other", &[Scope::Work])]).await;
    for tenant in ["acme", "other", "third"] {
        apply(scene.way_for(&every, tenant)).await;
    }
    let mut one = Worker::start_at(&scene.way(&tokens[0]), "one", 8).await;
    let third = submit(scene.way_for(&every, "third")).await;
    let other = submit(scene.way_for(&every, "other")).await;
    let acme = submit(scene.way_for(&every, "acme")).await;
    let granted = one.hear_grant().await.run.unwrap();
    assert_eq!((granted.tenant.as_str(), granted.job_id.as_str()), ("acme", acme.as_str()));
    let mut two = Worker::start_at(&scene.way(&tokens[1]), "two", 8).await;
    let granted = two.hear_grant().await.run.unwrap();
    assert_eq!((granted.tenant.as_str(), granted.job_id.as_str()), ("other", other.as_str()));
    // Whatever was offered to them, nothing is left but the third tenant's job, which goes to whoever works for all.
    let mut all = Worker::start_at(&scene.way(&every), "all", 8).await;
    let granted = all.hear_grant().await.run.unwrap();
    assert_eq!((granted.tenant.as_str(), granted.job_id.as_str()), ("third", third.as_str()));
    assert_eq!((one.grants_so_far().await, two.grants_so_far().await), (0, 0));
}

#[tokio::test]
async fn a_worker_of_every_tenant_takes_jobs_of_one_that_comes_later_and_one_that_means_a_tenant_does_not() {
    let (scene, every) = Scene::start().await;
    let mut narrow = Worker::start_at(&scene.way_for(&every, "acme"), "narrow", 8).await;
    apply(scene.way_for(&every, "later")).await;
    let job = submit(scene.way_for(&every, "later")).await;
    let mut all = Worker::start_at(&scene.way(&every), "all", 8).await;
    assert_eq!(all.hear_grant().await.run.unwrap().job_id, job);
    assert_eq!(narrow.grants_so_far().await, 0);
}

/// Provokes `ATTACH_REFUSED`.
#[tokio::test]
async fn a_registration_is_of_no_use_to_a_token_that_does_not_name_its_tenants() {
    let (mut scene, every) = Scene::start().await;
    let tokens = scene.give_out(vec![issue("acme", &[Scope::Work])]).await;
    let registration = register(&scene.way(&every), introduction("w1")).await;
    let mut worker = Worker::attach(&scene.way(&every), &registration).await.unwrap();
    let refused = Worker::attach(&scene.way(&tokens[0]), &registration).await.map(|_| ());
    assert_eq!(reason(refused), Reason::AttachRefused);
    let renewed = worker.renew(None).await;
    assert!(
        matches!(renewed.outcome, Some(v1::renewed::Outcome::Renewed(_))),
        "it displaced nobody: {renewed:?}"
    );
}

#[tokio::test]
async fn a_listing_of_workers_has_those_of_ones_own_tenants_and_counts_their_leases_alone() {
    let (mut scene, every) = Scene::start().await;
    let tokens = scene.give_out(vec![issue("acme", &Scope::ALL), issue("other", &Scope::ALL)]).await;
    let (acme, other) = (scene.way(&tokens[0]), scene.way(&tokens[1]));
    let mut shared = Worker::start_at(&scene.way(&every), "shared", 8).await;
    register(&acme, introduction("of-acme")).await;
    apply(acme.clone()).await;
    submit(acme.clone()).await;
    shared.hear_grant().await;
    let list = async |way| {
        let listed = WorkerServiceClient::new(way).list_workers(v1::ListWorkersRequest::default()).await;
        let workers = listed.unwrap().into_inner().workers;
        workers.into_iter().map(|worker| (worker.name, worker.leases)).collect::<Vec<_>>()
    };
    assert_eq!(list(acme).await, [("of-acme".to_owned(), 0), ("shared".to_owned(), 1)]);
    assert_eq!(list(other).await, [("shared".to_owned(), 0)]);
}

#[tokio::test]
async fn what_somebody_did_bears_their_tokens_actor_and_that_they_were_authenticated() {
    let (scene, every) = Scene::start().await;
    let way = scene.way_for(&every, "acme");
    apply(way.clone()).await;
    let job = submit(way.clone()).await;
    let mut jobs = JobServiceClient::new(way);
    jobs.cancel_job(v1::CancelJobRequest { job: job.clone(), why: "no longer wanted".into() }).await.unwrap();
    let request = v1::ListRecordsRequest { job, ..Default::default() };
    let page = jobs.list_records(request).await.unwrap().into_inner();
    assert_eq!(page.tenant, "acme");
    let by: Vec<serde_json::Value> = page
        .records
        .iter()
        .map(|record| serde_json::from_slice::<serde_json::Value>(&record.bytes).unwrap()["by"].clone())
        .filter(|by| !by.is_null())
        .collect();
    assert!(by.len() >= 2, "{by:?}");
    assert!(by.iter().all(|by| by["actor"] == "ada" && by["basis"] == "authenticated"), "{by:?}");
}

/// Provokes `TENANT_REQUIRED` and `TENANT_NOT_GRANTED`.
#[tokio::test]
async fn a_token_of_several_tenants_says_which_and_only_one_of_its_own() {
    let (mut scene, _) = Scene::start().await;
    let tokens = scene.give_out(vec![issue("acme,other", &[Scope::Read])]).await;
    let list = async |way| {
        let listed = JobServiceClient::new(way).list_jobs(v1::ListJobsRequest::default()).await;
        listed.map(|page| page.into_inner().jobs.len())
    };
    assert_eq!(reason(list(scene.way(&tokens[0])).await), Reason::TenantRequired);
    assert_eq!(reason(list(scene.way_for(&tokens[0], "third")).await), Reason::TenantNotGranted);
    assert_eq!(list(scene.way_for(&tokens[0], "other")).await.unwrap(), 0);
}

#[tokio::test]
async fn without_credentials_whoever_is_on_loopback_may_name_a_tenant_and_sees_that_one_alone() {
    let fleet = crate::fleet::Fleet::start().await;
    let job = fleet.submit("plain").await;
    let acme = "acme".parse().unwrap();
    let way = open_way(&fleet.coordinator, CallerMetadata::new(None, Some(&acme)));
    let mut jobs = JobServiceClient::new(way);
    let refused = jobs.get_job(v1::GetJobRequest { job: job.clone() }).await;
    assert_eq!(reason(refused), Reason::JobNotFound);
    assert_eq!(fleet.job(&job).await.id, job);
}
