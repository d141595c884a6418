//! Where large values are, whose they are, and what of them goes.

use std::time::Duration;

use tenure_core::{
    id::{Digest, JobId},
    record::ValueRef,
};
use tenure_store::{BlobPlace, JudgedBlobs, StoredBlob};
use uuid::Uuid;

use crate::fleet::Fleet;

const LARGE_BYTES: u64 = 8 << 20;

fn stored(name: &str) -> StoredBlob {
    let reference = ValueRef { sha256: Digest::of(name.as_bytes()), bytes: LARGE_BYTES };
    StoredBlob { reference, salt: [7; 16], content: Digest::of(b"content") }
}

fn place(fleet: &Fleet) -> BlobPlace {
    BlobPlace { tenant: fleet.tenant.clone(), blob: Uuid::now_v7() }
}

async fn store_blob(fleet: &Fleet, name: &str, job: Option<JobId>) -> BlobPlace {
    let place = place(fleet);
    fleet.store.begin_blob(&place).await.unwrap();
    assert!(fleet.store.finish_blob(&place, &stored(name), job).await.unwrap());
    place
}

async fn judge(fleet: &Fleet) -> JudgedBlobs {
    fleet.store.judge_blobs(Duration::ZERO, 100).await.unwrap()
}

#[tokio::test]
async fn of_two_jobs_that_name_one_blob_one_has_it() {
    let fleet = Fleet::start().await;
    store_blob(&fleet, "a", None).await;
    let name = stored("a").reference.sha256;
    let jobs = [JobId(Uuid::now_v7()), JobId(Uuid::now_v7())];
    let bind = |job| fleet.store.bind_blob(&fleet.tenant, name, job);
    let (first, second) = tokio::join!(bind(jobs[0]), bind(jobs[1]));
    let won = [first.unwrap(), second.unwrap()];
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
    let found = fleet.store.find_blob(&fleet.tenant, name).await.unwrap().unwrap();
    assert_eq!(found.job, Some(if won[0] { jobs[0] } else { jobs[1] }));
    let other = "other".parse().unwrap();
    assert_eq!(fleet.store.find_blob(&other, name).await.unwrap(), None);
    assert!(!fleet.store.bind_blob(&other, name, jobs[0]).await.unwrap());
}

#[tokio::test]
async fn what_nothing_names_goes_and_what_a_live_run_may_yet_name_stays() {
    let fleet = Fleet::start().await;
    let holder = fleet.run_job(&fleet.attach("w1").await).await;
    let half = place(&fleet);
    fleet.store.begin_blob(&half).await.unwrap();
    let unbound = store_blob(&fleet, "unbound", None).await;
    let of_nobody = store_blob(&fleet, "of nobody", Some(JobId(Uuid::now_v7()))).await;
    store_blob(&fleet, "of a live run", Some(holder.job)).await;
    assert_eq!(judge(&fleet).await, JudgedBlobs { gone: 3, kept: 0 });
    let mut gone = fleet.store.list_gone_blobs(None, 100).await.unwrap();
    gone.sort_by_key(|place| place.blob);
    let mut expected = vec![half.clone(), unbound.clone(), of_nobody];
    expected.sort_by_key(|place| place.blob);
    assert_eq!(gone, expected);
    // An upload that was given up meanwhile is not finished, and what is gone is bound to nothing.
    assert!(!fleet.store.finish_blob(&half, &stored("half"), None).await.unwrap());
    let name = stored("unbound").reference.sha256;
    assert!(!fleet.store.bind_blob(&fleet.tenant, name, holder.job).await.unwrap());
    assert!(fleet.store.find_blob(&fleet.tenant, name).await.unwrap().unwrap().live.is_none());
    fleet.store.delete_blob(&unbound).await.unwrap();
    assert_eq!(fleet.store.find_blob(&fleet.tenant, name).await.unwrap(), None);
}

#[tokio::test]
async fn what_was_touched_a_moment_ago_is_not_judged() {
    let fleet = Fleet::start().await;
    store_blob(&fleet, "a", None).await;
    let judged = fleet.store.judge_blobs(Duration::from_secs(3_600), 100).await.unwrap();
    assert_eq!(judged, JudgedBlobs::default());
}
