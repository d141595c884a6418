//! Values that no row takes, and erasing: a real fleet, with a directory as its blob store, or with a bucket where the
//! environment names a peer that speaks S3 (`make test-s3`). The same tests hold for both.

mod broken;
mod place;

use std::{fs, path::PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tenure_testkit::{Cluster, wait_for};
use uuid::Uuid;

use self::place::Place;
use crate::fixture::{Fleet, PATIENCE, program, wait_for_line};

const EIGHT_MIB: usize = 8 * 1024 * 1024;

const AGENTS: &str = r#"
[defaults]
input-limit = "64 MiB"
[agents.copier]
script = '''cat "$TENURE_INPUT" > "$TENURE_RESULT"; echo copied'''
[agents.slow]
script = '''
tenure note "began"
echo "run $TENURE_RUN" >> SHARED/slow
while [ ! -e SHARED/go ]; do sleep 0.05; done
cat "$TENURE_INPUT" > "$TENURE_RESULT"
'''
recovery = { max-attempts = 5, backoff = { first = "10ms", max = "10ms" } }
[agents.doubtful]
script = '''
cat "$TENURE_INPUT" > "$TENURE_RESULT"
tenure effect push --ask --no-undo -- sh -c 'exit 9' || true
'''
[agents.measure]
script = '''
wc -c < "$TENURE_INPUT" > "$TENURE_RESULT"
tenure effect once --ask -- sh -c 'echo secret output'
tenure note "a secret note"
echo "a secret line"
'''
recovery = { max-attempts = 2, backoff = { first = "10ms", max = "10ms" } }
[agents.giant]
script = '''head -c 70000000 /dev/zero > "$TENURE_RESULT"'''
recovery = { max-attempts = 1, backoff = { first = "10ms", max = "10ms" } }
[agents.modest]
input-limit = "1 MiB"
command = ["true"]
[agents.stubborn]
script = '''
tenure effect once --ask -- echo the-output
exit 3
'''
recovery = { policy = "manual" }
"#;

struct Scene {
    fleet: Fleet,
    place: Place,
}

impl Scene {
    async fn start(workers: &[(&str, &[&str])]) -> Self {
        let mut cluster = Cluster::start_database(program(), Default::default()).await.unwrap();
        let place = Place::choose(cluster.directory()).await;
        for (name, value) in place.environment() {
            cluster.set_environment(name, *value);
        }
        let url = cluster.postgres.url("postgres");
        let blobs = place.argument();
        cluster.start_coordinator_with("c1", &url, &["--blobs", &blobs]).await.unwrap();
        let mut fleet = Fleet::with_cluster(cluster, AGENTS);
        for (name, arguments) in workers {
            fleet.cluster.start_worker(name, arguments).unwrap();
        }
        Self { fleet, place }
    }

    /// A file of so many bytes that repeat nothing, as an argument.
    fn file(&self, name: &str, bytes: usize) -> (PathBuf, String) {
        let path = self.fleet.cluster.directory().join(name);
        fs::write(&path, make_bytes(bytes)).unwrap();
        let argument = format!("@{}", path.display());
        (path, argument)
    }

    fn run(&self, arguments: &[&str]) -> String {
        self.fleet.cluster.run(arguments).unwrap()
    }

    fn submit(&self, agent: &str, input: &str) -> Uuid {
        self.run(&["submit", agent, "--input", input]).trim().parse().unwrap()
    }

    /// What a verb is refused with: the code and the words.
    fn refused(&self, arguments: &[&str]) -> (String, String) {
        let mut with_json = vec!["--json"];
        with_json.extend(arguments);
        let output = self.fleet.try_run(&with_json);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        let error: Value = text.lines().find_map(|line| serde_json::from_str(line).ok()).expect(&text);
        (error["code"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
    }

    async fn result_digest(&self, job: Uuid) -> [u8; 32] {
        let output = self.fleet.try_run(&["result", &job.to_string()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Sha256::digest(&output.stdout).into()
    }

    /// How many blobs the database knows, and how many objects the store holds.
    async fn count(&self) -> (i64, usize) {
        let (rows,): (i64,) = sqlx::query_as("SELECT count(*) FROM blobs")
            .fetch_one(&self.fleet.cluster.database)
            .await
            .unwrap();
        (rows, self.place.list().await.len())
    }

    /// The place of the blob that a record of the job names.
    async fn folder_of(&self, job: Uuid, bytes: usize) -> String {
        let (blob,): (Uuid,) = sqlx::query_as("SELECT blob FROM blobs WHERE job = $1 AND bytes = $2 LIMIT 1")
            .bind(job)
            .bind(i64::try_from(bytes).unwrap())
            .fetch_one(&self.fleet.cluster.database)
            .await
            .unwrap();
        format!("default/{blob}")
    }
}

/// Bytes that are neither text nor all alike.
fn make_bytes(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(|| next(&mut state)).flatten().take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_and_a_result_of_eight_mib_go_through_a_fleet_and_verify() {
    let scene = Scene::start(&[("w1", &[])]).await;
    let (path, input) = scene.file("large", EIGHT_MIB);
    let job: Uuid = scene.run(&["submit", "copier", "--input", &input, "--wait"]).trim().parse().unwrap();
    let sent: [u8; 32] = Sha256::digest(fs::read(path).unwrap()).into();
    assert_eq!(scene.result_digest(job).await, sent);
    let verified: Value = serde_json::from_str(&scene.run(&["--json", "verify", &job.to_string()])).unwrap();
    assert_eq!((&verified["values_checked"], &verified["values_erased"]), (&2.into(), &0.into()));
    let inside: Vec<(Option<Vec<u8>>,)> = sqlx::query_as(
        "SELECT value FROM journal WHERE job = $1 AND kind IN ('job_admitted', 'job_concluded')",
    )
    .bind(job)
    .fetch_all(&scene.fleet.cluster.database)
    .await
    .unwrap();
    assert_eq!(inside, [(None,), (None,)]);
    assert_eq!(scene.count().await, (2, 4), "two values of two pieces each");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_over_from_a_killed_worker_has_the_whole_input() {
    let mut scene = Scene::start(&[("w1", &["--ttl", "5s"]), ("w2", &["--ttl", "5s"])]).await;
    let (path, input) = scene.file("large", EIGHT_MIB);
    let job = scene.submit("slow", &input);
    let seen = scene.fleet.shared().join("slow");
    wait_for_line(&seen).await;
    let holder = scene.fleet.wait_for_holder(job).await;
    scene.fleet.cluster.kill_worker(&holder, &[]).unwrap();
    wait_for("a second run", PATIENCE, async || {
        let text = fs::read_to_string(&seen).unwrap();
        if text.lines().count() >= 2 { Ok(()) } else { Err(text) }
    })
    .await;
    fs::write(scene.fleet.shared().join("go"), "").unwrap();
    scene.fleet.wait_for_state(job, "succeeded").await;
    let sent: [u8; 32] = Sha256::digest(fs::read(path).unwrap()).into();
    assert_eq!(scene.result_digest(job).await, sent);
    scene.run(&["verify", &job.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_is_sent_again_is_the_same_job_though_its_salt_is_another() {
    let scene = Scene::start(&[("w1", &[])]).await;
    let (_, input) = scene.file("large", 1_000_000);
    let submit = |input: &str| scene.run(&["submit", "copier", "--key", "k1", "--input", input]);
    let first = submit(&input);
    assert_eq!(submit(&input), first);
    let (_, other) = scene.file("other", 1_000_001);
    let (code, _) = scene.refused(&["submit", "copier", "--key", "k1", "--input", &other]);
    assert_eq!(code, "KEY_REUSED");
    let jobs: (i64,) =
        sqlx::query_as("SELECT count(*) FROM jobs").fetch_one(&scene.fleet.cluster.database).await.unwrap();
    assert_eq!(jobs, (1,));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_a_limit_is_refused_naming_both_sizes_and_nothing_changes() {
    let scene = Scene::start(&[("w1", &[])]).await;
    let (_, input) = scene.file("large", 64 * 1024 * 1024 + 1);
    let (code, words) = scene.refused(&["submit", "copier", "--input", &input]);
    assert_eq!(code, "INPUT_TOO_LARGE");
    assert!(words.contains("67108865") && words.contains("67108864"), "{words}");
    let (_, input) = scene.file("two", 2 * 1024 * 1024);
    let (code, words) = scene.refused(&["submit", "modest", "--input", &input]);
    assert_eq!(code, "INPUT_TOO_LARGE");
    assert!(words.contains("2097152") && words.contains("1048576"), "{words}");
    let jobs: (i64,) =
        sqlx::query_as("SELECT count(*) FROM jobs").fetch_one(&scene.fleet.cluster.database).await.unwrap();
    assert_eq!(jobs, (0,));
    // A result is no success where it cannot be taken; the child's stderr says why.
    let job = scene.submit("giant", "");
    scene.fleet.wait_for_state(job, "failed").await;
    let said = scene.run(&["output", &job.to_string(), "--run", "1", "--stderr"]);
    assert!(said.contains("70000000") && said.contains("67108864"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_store_what_is_large_is_refused_naming_the_option() {
    let fleet = Fleet::start(AGENTS, &[]).await;
    let path = fleet.cluster.directory().join("large");
    fs::write(&path, make_bytes(300_000)).unwrap();
    let output = fleet.try_run(&["submit", "copier", "--input", &format!("@{}", path.display())]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("INPUT_TOO_LARGE") && said.contains("--blobs"), "{said}");
    assert!(said.contains("300000") && said.contains("262144"), "{said}");
}

/// Provokes `BLOB_NOT_FOUND`.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_input_starts_no_run_and_is_named_and_the_job_goes_on_once_it_is_back() {
    let mut scene = Scene::start(&[]).await;
    let (_, input) = scene.file("large", EIGHT_MIB);
    let job = scene.submit("slow", &input);
    let piece = format!("{}/0001", scene.folder_of(job, EIGHT_MIB).await);
    let bytes = scene.place.read(&piece).await;
    scene.place.delete(&piece).await;
    scene.fleet.cluster.start_worker("w1", &[]).unwrap();
    wait_for("a run that did not start", PATIENCE, async || {
        let kinds = scene.fleet.kinds(job).await;
        if kinds.iter().any(|kind| kind == "run_interrupted") { Ok(()) } else { Err(kinds) }
    })
    .await;
    let journal = scene.run(&["journal", &job.to_string()]);
    assert!(journal.contains("BLOB_NOT_FOUND"), "{journal}");
    assert!(!scene.fleet.shared().join("slow").exists(), "a run started");
    let output = scene.fleet.try_run(&["verify", &job.to_string()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("CHAIN_BROKEN") && said.contains("seq 1") && said.contains("missing"), "{said}");
    scene.place.write(&piece, bytes).await;
    fs::write(scene.fleet.shared().join("go"), "").unwrap();
    let recovered = scene.fleet.state(job).await;
    if recovered == "interrupted" {
        scene.run(&["recover", &job.to_string(), "--why", "the piece is back"]);
    }
    scene.fleet.wait_for_state(job, "succeeded").await;
}

/// Provokes `BLOB_DIFFERS`.
#[tokio::test(flavor = "multi_thread")]
async fn an_altered_value_is_refused_by_the_worker_the_reader_and_whoever_verifies() {
    let mut scene = Scene::start(&[("w1", &[])]).await;
    let (_, input) = scene.file("large", EIGHT_MIB);
    let job: Uuid = scene.run(&["submit", "copier", "--input", &input, "--wait"]).trim().parse().unwrap();
    for piece in scene.place.list().await {
        let mut bytes = scene.place.read(&piece).await;
        bytes[17] ^= 1;
        scene.place.write(&piece, bytes).await;
    }
    let (code, _) = scene.refused(&["result", &job.to_string()]);
    assert_eq!(code, "BLOB_DIFFERS");
    let output = scene.fleet.try_run(&["verify", &job.to_string()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("CHAIN_BROKEN") && said.contains("seq 1"), "{said}");
    scene.fleet.cluster.stop_worker("w1").await.unwrap();
    let next = scene.submit("copier", &input);
    let piece = format!("{}/0000", scene.folder_of(next, EIGHT_MIB).await);
    let mut bytes = scene.place.read(&piece).await;
    bytes[17] ^= 1;
    scene.place.write(&piece, bytes).await;
    scene.fleet.cluster.start_worker("w2", &[]).unwrap();
    wait_for("a run that did not start", PATIENCE, async || {
        let journal = scene.run(&["journal", &next.to_string()]);
        if journal.contains("BLOB_DIFFERS") { Ok(()) } else { Err(journal) }
    })
    .await;
}

/// Provokes `VALUE_ERASED`.
#[tokio::test(flavor = "multi_thread")]
async fn erased_values_are_gone_everywhere_and_the_chain_still_verifies() {
    let scene = Scene::start(&[("w1", &[])]).await;
    let (_, input) = scene.file("large", EIGHT_MIB);
    let job = scene.run(&["submit", "copier", "--input", &input, "--key", "k1", "--wait"]).trim().to_owned();
    assert_eq!(scene.refused(&["erase", &job, "--output", "--why", " "]).0, "REASON_MISSING");
    scene.run(&["erase", &job, "--output", "--why", "asked for"]);
    assert_eq!(scene.count().await, (1, 2), "the result is gone, the input is not");
    assert_eq!(scene.refused(&["result", &job]).0, "VALUE_ERASED");
    assert_eq!(scene.run(&["output", &job]), "");
    scene.run(&["erase", &job, "--input", "--why", "asked for"]);
    assert_eq!(scene.count().await, (0, 0));
    let verified: Value = serde_json::from_str(&scene.run(&["--json", "verify", &job])).unwrap();
    assert_eq!((&verified["values_checked"], &verified["values_erased"]), (&0.into(), &2.into()));
    let journal = scene.run(&["journal", &job]);
    assert!(journal.contains("erased=output") && journal.contains("erased=input"), "{journal}");
    // The key still stands for the job.
    assert_eq!(scene.run(&["submit", "copier", "--input", &input, "--key", "k1"]).trim(), job);
    // Again, and nothing is left to erase.
    assert!(scene.run(&["erase", &job, "--input", "--why", "again"]).contains("0 values"));
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_a_run_wrote_is_erased_and_no_word_of_it_is_left_in_the_database() {
    let scene = Scene::start(&[("w1", &[])]).await;
    let job = scene.run(&["submit", "measure", "--input", "a secret input", "--wait"]).trim().to_owned();
    let dump = async || {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT encode(coalesce(value, ''), 'escape') FROM journal
             UNION ALL SELECT encode(bytes, 'escape') FROM output
             UNION ALL SELECT encode(coalesce(value, ''), 'escape') FROM testimony",
        )
        .fetch_all(&scene.fleet.cluster.database)
        .await
        .unwrap();
        rows.into_iter().filter(|(text,)| text.contains("secret")).count()
    };
    assert!(dump().await >= 5);
    scene.run(&["erase", &job, "--output", "--why", "asked for"]);
    assert_eq!(dump().await, 1, "the input");
    scene.run(&["erase", &job, "--input", "--why", "asked for"]);
    assert_eq!(dump().await, 0);
    let verified = scene.run(&["verify", &job]);
    assert!(verified.contains("values were erased"), "{verified}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_may_still_need_is_not_erased_and_an_erased_effect_is_never_an_empty_output() {
    let scene = Scene::start(&[("w1", &[])]).await;
    let (_, input) = scene.file("large", EIGHT_MIB);
    let running = scene.submit("slow", &input);
    wait_for_line(&scene.fleet.shared().join("slow")).await;
    let (code, words) = scene.refused(&["erase", &running.to_string(), "--input", "--why", "asked for"]);
    assert_eq!(code, "VERB_NOT_ALLOWED");
    assert!(words.contains("running"), "{words}");
    let job = scene.submit("stubborn", "x");
    scene.fleet.wait_for_state(job, "interrupted").await;
    scene.run(&["erase", &job.to_string(), "--output", "--why", "asked for"]);
    scene.run(&["recover", &job.to_string(), "--why", "try again"]);
    wait_for("the second run to be over", PATIENCE, async || {
        let kinds = scene.fleet.kinds(job).await;
        let ended = kinds.iter().filter(|kind| *kind == "run_interrupted").count();
        if ended >= 2 { Ok(()) } else { Err(kinds) }
    })
    .await;
    let said = scene.run(&["output", &job.to_string(), "--run", "2", "--stderr"]);
    assert!(said.contains("VALUE_ERASED"), "{said}");
    scene.run(&["erase", &job.to_string(), "--input", "--why", "asked for"]);
    scene.run(&["recover", &job.to_string(), "--why", "once more"]);
    wait_for("a run that has no input", PATIENCE, async || {
        let journal = scene.run(&["journal", &job.to_string()]);
        if journal.contains("input was erased") { Ok(()) } else { Err(journal) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nothing_names_is_swept_after_a_day_and_what_is_named_stays() {
    let scene = Scene::start(&[("w1", &[])]).await;
    let (_, input) = scene.file("large", 1_000_000);
    let job = scene.run(&["submit", "copier", "--input", &input, "--wait"]).trim().to_owned();
    // Stored, and refused with its submission: nothing names it.
    let (code, _) = scene.refused(&["submit", "nobody", "--input", &input]);
    assert_eq!(code, "UNKNOWN_AGENT");
    assert_eq!(scene.count().await, (3, 3));
    sqlx::query("UPDATE blobs SET touched_at = touched_at - interval '25 hours'")
        .execute(&scene.fleet.cluster.database)
        .await
        .unwrap();
    wait_for("the sweep", PATIENCE * 2, async || {
        let count = scene.count().await;
        if count == (2, 2) { Ok(()) } else { Err(count) }
    })
    .await;
    scene.run(&["verify", &job]);
}

/// Provokes `BLOB_STORE_UNAVAILABLE`.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_in_the_middle_refuses_and_changes_nothing_and_a_result_waits_for_it() {
    let scene = Scene::start(&[("w1", &[])]).await;
    let (path, input) = scene.file("large", EIGHT_MIB);
    let job = scene.submit("slow", &input);
    wait_for_line(&scene.fleet.shared().join("slow")).await;
    scene.place.break_off().await;
    let output = scene.fleet.try_run(&["submit", "copier", "--input", &input]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("BLOB_STORE_UNAVAILABLE"), "{said}");
    assert_eq!(output.status.code(), Some(4));
    let jobs: (i64,) =
        sqlx::query_as("SELECT count(*) FROM jobs").fetch_one(&scene.fleet.cluster.database).await.unwrap();
    assert_eq!(jobs, (1,));
    // The run ends, and its result is kept by its worker until the store is back.
    fs::write(scene.fleet.shared().join("go"), "").unwrap();
    let log = scene.fleet.cluster.log_path("w1");
    wait_for("the worker to try", PATIENCE, async || {
        let text = fs::read_to_string(&log).unwrap();
        if text.contains("handed on again") { Ok(()) } else { Err(text.lines().last().map(str::to_owned)) }
    })
    .await;
    assert_eq!(scene.fleet.state(job).await, "running");
    scene.place.mend().await;
    scene.fleet.wait_for_state(job, "succeeded").await;
    let sent: [u8; 32] = Sha256::digest(fs::read(path).unwrap()).into();
    assert_eq!(scene.result_digest(job).await, sent);
}
