//! Values in the blob store, as those meet them who send messages of their own: what they may name, in which order, and what
//! an upload that breaks off leaves behind.

use std::path::Path;

use tenure_coordinator::{BlobLocation, CoordinatorOptions};
use tenure_core::{id::Tenant, reason::Reason};
use tenure_proto::{
    caller::CallerMetadata,
    v1::{
        self, appended::Outcome, attach_request::Message, job_service_client::JobServiceClient,
        put_blob_request::Part, put_result_request, run_end::How,
    },
};
use tenure_testkit::wait_for;
use tokio_stream::iter;

use crate::{
    fleet::{Fleet, PATIENCE, open_way, reason, submission},
    worker::{Worker, applied, end},
};

/// More than a row takes.
const LARGE_BYTES: usize = 300_000;
const LARGE_AGENT: &str = r#"{"command":["true"],"input-limit":"64 MiB"}"#;

/// A fleet whose coordinator has a directory, and that directory.
async fn start() -> (Fleet, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let change = move |options: &mut CoordinatorOptions| {
        options.blobs = Some(BlobLocation::Directory(path.clone()));
    };
    let fleet = Fleet::start_with(change).await;
    fleet.apply("large", LARGE_AGENT).await;
    (fleet, directory)
}

fn pieces(bytes: usize) -> Vec<v1::PutBlobRequest> {
    let message = |part| v1::PutBlobRequest { part: Some(part) };
    let whole = vec![b'x'; bytes];
    let chunks = whole.chunks(64 * 1024).map(|chunk| message(Part::Chunk(chunk.to_vec().into())));
    std::iter::once(message(Part::Bytes(bytes as u64))).chain(chunks).collect()
}

async fn put(fleet: &Fleet) -> v1::BlobRef {
    fleet.jobs().put_blob(iter(pieces(LARGE_BYTES))).await.unwrap().into_inner().blob.unwrap()
}

fn naming(blob: &v1::BlobRef) -> v1::Submission {
    v1::Submission { input: Default::default(), input_blob: Some(blob.clone()), ..submission("large") }
}

fn count_files(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count_files(&path) } else { 1 }).sum()
}

#[tokio::test]
async fn a_blob_belongs_to_one_job_of_its_own_tenant() {
    let (fleet, _directory) = start().await;
    let blob = put(&fleet).await;
    let job = fleet.submit_with(naming(&blob)).await.unwrap().job_id;
    assert_eq!(reason(fleet.submit_with(naming(&blob)).await), Reason::BlobNotFound);
    let unknown = v1::BlobRef { sha256: vec![7; 32].into(), bytes: blob.bytes };
    assert_eq!(reason(fleet.submit_with(naming(&unknown)).await), Reason::BlobNotFound);
    let longer = v1::BlobRef { bytes: blob.bytes + 1, ..put(&fleet).await };
    assert_eq!(reason(fleet.submit_with(naming(&longer)).await), Reason::BlobNotFound);
    let both = v1::Submission { input: "beside".into(), ..naming(&unknown) };
    assert_eq!(reason(fleet.submit_with(both).await), Reason::InvalidArgument);
    // Another tenant does not find it, neither to submit nor to read.
    let tenant: Tenant = "other".parse().unwrap();
    let other = CallerMetadata::new(None, Some(&tenant));
    let mut others = JobServiceClient::new(open_way(&fleet.coordinator, other));
    let theirs = put(&fleet).await;
    let request = v1::SubmitJobRequest { submission: Some(naming(&theirs)) };
    assert_eq!(reason(others.submit_job(request).await), Reason::BlobNotFound);
    let request = v1::GetBlobRequest { job, sha256: blob.sha256 };
    assert_eq!(reason(others.get_blob(request).await), Reason::JobNotFound);
}

#[tokio::test]
async fn an_end_that_names_a_blob_that_is_not_its_jobs_is_refused_and_the_run_goes_on() {
    let (fleet, _directory) = start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let foreign = put(&fleet).await;
    let unknown = v1::BlobRef { sha256: vec![7; 32].into(), bytes: foreign.bytes };
    for (n, blob) in [foreign, unknown].into_iter().enumerate() {
        let n = n as u64 + 1;
        let report = v1::EndRun { result_blob: Some(blob), ..end(&grant, n, How::ExitCode(0)) };
        worker.say(Message::EndRun(report)).await;
        let Outcome::Refused(refused) = worker.hear_appended(n).await else { panic!("it was taken") };
        assert_eq!(refused.code, Reason::BlobNotFound.code());
    }
    // Its own is taken.
    let head =
        v1::ResultHead { run: grant.run.clone(), secret: grant.secret.clone(), bytes: LARGE_BYTES as u64 };
    let message = |part| v1::PutResultRequest { part: Some(part) };
    let whole = vec![b'y'; LARGE_BYTES];
    let chunks = whole.chunks(64 * 1024).map(|chunk| chunk.to_vec().into());
    let chunks = chunks.map(|chunk| message(put_result_request::Part::Chunk(chunk)));
    let sent: Vec<_> = std::iter::once(message(put_result_request::Part::Head(head))).chain(chunks).collect();
    let own = fleet.workers().put_result(iter(sent)).await.unwrap().into_inner().blob;
    let report = v1::EndRun { result_blob: own.clone(), ..end(&grant, 3, How::ExitCode(0)) };
    worker.say(Message::EndRun(report)).await;
    applied(worker.hear_appended(3).await);
    let job = grant.run.unwrap().job_id;
    let old = v1::GetResultRequest { job: job.clone(), accept_blob: false };
    assert_eq!(reason(fleet.jobs().get_result(old).await), Reason::NotSupported);
    let new = v1::GetResultRequest { job, accept_blob: true };
    assert_eq!(fleet.jobs().get_result(new).await.unwrap().into_inner().blob, own);
}

#[tokio::test]
async fn an_upload_that_is_no_value_is_refused_and_leaves_no_piece_behind() {
    let (fleet, directory) = start().await;
    let message = |part| v1::PutBlobRequest { part: Some(part) };
    let chunk = |bytes: usize| message(Part::Chunk(vec![b'x'; bytes].into()));
    let shorter: Vec<_> = pieces(5_000_000).into_iter().take(70).collect();
    for (what, sent, expected) in [
        ("nothing", vec![], Reason::InvalidArgument),
        ("less than was said", shorter, Reason::InvalidArgument),
        ("what a message takes", pieces(262_144), Reason::InvalidArgument),
        ("a piece without a byte", vec![chunk(0)], Reason::InvalidArgument),
        ("a piece beyond its limit", vec![chunk(64 * 1024 + 1)], Reason::InvalidArgument),
        (
            "a length after the first piece",
            vec![chunk(10), message(Part::Bytes(10))],
            Reason::InvalidArgument,
        ),
        ("more than a blob takes", vec![message(Part::Bytes(64 * 1024 * 1024 + 1))], Reason::InputTooLarge),
    ] {
        assert_eq!(reason(fleet.jobs().put_blob(iter(sent)).await), expected, "{what}");
    }
    wait_for("the pieces to be deleted", PATIENCE, async || match count_files(directory.path()) {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
}
