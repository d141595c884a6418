//! Values whose way into the blob store breaks off between two of their pieces: the coordinator is killed, or the store fails.
//! Whoever sends sends again, nothing is lost, and what is left of the first attempt is found by the sweep. And a value that
//! nothing but a quarantine names.

use std::process::{Child, Stdio};

use super::*;

const LARGEST: usize = 40 * 1024 * 1024;
/// Pieces of a value of that size.
const PIECES: usize = 10;

impl Scene {
    /// Begins to submit a job of `copier`, and waits until a piece of its input is stored.
    async fn begin_to_submit(&self, input: &str) -> Child {
        let mut command = self.fleet.cluster.tenure(&["submit", "copier", "--input", input]);
        let submitting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        self.wait_for_pieces(1).await;
        submitting
    }

    async fn wait_for_pieces(&self, count: usize) {
        wait_for(&format!("{count} pieces"), PATIENCE, async || {
            let pieces = self.place.list().await.len();
            if pieces >= count { Ok(()) } else { Err(pieces) }
        })
        .await;
    }

    /// Has everything that nothing names be a day old, and waits until the sweep has left so many values with so many pieces.
    async fn wait_until_swept(&self, values: i64, pieces: usize) {
        sqlx::query("UPDATE blobs SET touched_at = touched_at - interval '25 hours'")
            .execute(&self.fleet.cluster.database)
            .await
            .unwrap();
        wait_for("the sweep", PATIENCE * 2, async || {
            let count = self.count().await;
            if count == (values, pieces) { Ok(()) } else { Err(count) }
        })
        .await;
    }

    async fn count_unfinished(&self) -> i64 {
        let (count,): (i64,) = sqlx::query_as("SELECT count(*) FROM blobs WHERE sha256 IS NULL")
            .fetch_one(&self.fleet.cluster.database)
            .await
            .unwrap();
        count
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_coordinator_is_killed_in_its_middle_is_sent_again_and_leaves_nothing_behind() {
    let mut scene = Scene::start(&[("w1", &["--ttl", "5s"])]).await;
    let (path, input) = scene.file("large", LARGEST);
    let submitting = scene.begin_to_submit(&input).await;
    scene.fleet.cluster.kill_coordinator("c1").unwrap();
    let stored = scene.place.list().await.len();
    assert!(stored < PIECES, "it was killed too late: {stored} pieces were stored");
    assert_eq!(scene.count_unfinished().await, 1);
    scene.fleet.cluster.restart_coordinator("c1").await.unwrap();
    let submitted =
        tokio::task::spawn_blocking(move || submitting.wait_with_output().unwrap()).await.unwrap();
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
    let job: Uuid = String::from_utf8(submitted.stdout).unwrap().trim().parse().unwrap();
    scene.fleet.wait_for_state(job, "succeeded").await;
    let sent: [u8; 32] = Sha256::digest(fs::read(path).unwrap()).into();
    assert_eq!(scene.result_digest(job).await, sent);
    scene.wait_until_swept(2, 2 * PIECES).await;
    scene.run(&["verify", &job.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_whose_coordinator_is_killed_in_its_middle_is_sent_again_and_leaves_nothing_behind() {
    let mut scene = Scene::start(&[("w1", &["--ttl", "60s"])]).await;
    let (path, input) = scene.file("large", LARGEST);
    let job = scene.submit("copier", &input);
    scene.wait_for_pieces(PIECES + 1).await;
    scene.fleet.cluster.kill_coordinator("c1").unwrap();
    let stored = scene.place.list().await.len();
    assert!(stored < 2 * PIECES, "it was killed too late: {stored} pieces were stored");
    assert_eq!(scene.count_unfinished().await, 1);
    scene.fleet.cluster.restart_coordinator("c1").await.unwrap();
    scene.fleet.wait_for_state(job, "succeeded").await;
    let runs = scene.fleet.kinds(job).await.iter().filter(|kind| *kind == "run_started").count();
    assert_eq!(runs, 1, "the worker holds the result, and nobody makes it again");
    let sent: [u8; 32] = Sha256::digest(fs::read(path).unwrap()).into();
    assert_eq!(scene.result_digest(job).await, sent);
    scene.wait_until_swept(2, 2 * PIECES).await;
    scene.run(&["verify", &job.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_breaks_between_two_pieces_admits_nothing_and_what_was_stored_is_swept() {
    let scene = Scene::start(&[("w1", &[])]).await;
    let (_, input) = scene.file("large", LARGEST);
    let submitting = scene.begin_to_submit(&input).await;
    scene.place.break_off().await;
    let refused = tokio::task::spawn_blocking(move || submitting.wait_with_output().unwrap()).await.unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("BLOB_STORE_UNAVAILABLE"), "{said}");
    let jobs: (i64,) =
        sqlx::query_as("SELECT count(*) FROM jobs").fetch_one(&scene.fleet.cluster.database).await.unwrap();
    assert_eq!(jobs, (0,));
    scene.place.mend().await;
    let (values, pieces) = scene.count().await;
    assert!(values >= 1 && (1..PIECES).contains(&pieces), "{values} values, {pieces} pieces");
    scene.wait_until_swept(0, 0).await;
    let job = scene.submit("copier", &input);
    scene.fleet.wait_for_state(job, "succeeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_that_a_doubt_stands_in_the_way_of_is_kept_until_the_job_is_reopened() {
    let scene = Scene::start(&[("w1", &[])]).await;
    let (path, input) = scene.file("large", EIGHT_MIB);
    let job = scene.submit("doubtful", &input);
    let id = job.to_string();
    scene.fleet.wait_for_state(job, "quarantined").await;
    // What nothing names goes, and what the quarantine names stays.
    assert_eq!(scene.refused(&["submit", "nobody", "--input", &input]).0, "UNKNOWN_AGENT");
    scene.wait_until_swept(2, 4).await;
    scene.run(&["reconcile", &id, "push", "--done", "abc123", "--why", "asked the remote"]);
    scene.run(&["reopen", &id, "--why", "it is answered"]);
    scene.fleet.wait_for_state(job, "succeeded").await;
    let runs = scene.fleet.kinds(job).await.iter().filter(|kind| *kind == "run_started").count();
    assert_eq!(runs, 1, "what was kept is the result");
    let sent: [u8; 32] = Sha256::digest(fs::read(path).unwrap()).into();
    assert_eq!(scene.result_digest(job).await, sent);
    scene.wait_until_swept(2, 4).await;
    scene.run(&["verify", &id]);
}
