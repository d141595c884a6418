//! What fuzzing began from, and what it found, is thrown again, at a coordinator that wants no credentials and at one that
//! does: nothing panics, nothing hangs, and a client that behaves is served afterwards. `make fuzz` adds to it; that it can
//! find anything is shown by a fault that was planted.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use bytes::Bytes;
use tenure_core::{declaration::Declaration, fleet::read_fleet};
use tenure_testkit::{Cluster, Peer, frame_message, throw_bytes};
use tokio::time::timeout;

use crate::fixture::{Fleet, program};

/// A stream may go on, and so may a silent connection; a case is left then.
const CASE_WAIT: Duration = Duration::from_secs(2);
const WINDOW_BYTES: u32 = 65_535;

fn cases(kind: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(kind);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 10, "the corpus of {kind} is there");
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

const LIST_JOBS: &str = "/tenure.v1.JobService/ListJobs";

/// What a call bears, by the word that was kept with it.
fn metadata_of(word: &str, token: Option<&str>) -> Vec<(&'static str, String)> {
    let Some(token) = token else { return Vec::new() };
    let bearer = |token: &str| ("authorization", format!("Bearer {token}"));
    match word {
        "" => vec![bearer(token), ("tenure-tenant", "default".to_owned())],
        "elsewhere" => vec![bearer(token), ("tenure-tenant", "nowhere".to_owned())],
        "missing" => Vec::new(),
        "wrong" => vec![bearer(&format!("{}x", &token[..token.len() - 1]))],
        "garbled" => vec![bearer(&"tenure_~".repeat(300))],
        other => panic!("no credential is called {other}"),
    }
}

async fn call(peer: &mut Peer, path: &str, metadata: &[(&'static str, String)], body: Bytes) -> Option<i32> {
    let metadata: Vec<(&str, &str)> = metadata.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answering = async {
        let mut call = peer.begin(path, &metadata).await?;
        // An answer may come before everything is sent; then the rest is not wanted.
        let _ = call.sending.send_data(body, true);
        call.answer().await
    };
    // What is refused by the transport, or goes on, has no code.
    timeout(CASE_WAIT, answering).await.ok()?.ok()?.grpc_code()
}

async fn throw_corpus(fleet: Fleet) {
    let address = fleet.cluster.coordinator_address("c1").unwrap();
    let token = fleet.cluster.token().map(str::to_owned);
    for (path, case) in cases("bytes") {
        let thrown = throw_bytes(address, &case, CASE_WAIT).await;
        assert!(thrown.is_ok(), "after {}: {thrown:?}", path.display());
    }
    for (path, case) in cases("calls") {
        let end = case.iter().position(|byte| *byte == b'\n').unwrap();
        let line = std::str::from_utf8(&case[..end]).unwrap();
        let (called, word) = line.split_once(' ').unwrap_or((line, ""));
        let peer = Peer::connect(address, WINDOW_BYTES).await;
        let mut peer = peer.unwrap_or_else(|error| panic!("after {}: {error:#}", path.display()));
        let metadata = metadata_of(word, token.as_deref());
        let code = call(&mut peer, called, &metadata, Bytes::copy_from_slice(&case[end + 1..])).await;
        let found = path.file_name().unwrap().to_string_lossy().starts_with("found");
        let admitted = token.is_none() || word.is_empty();
        let accepted = code == Some(0) && !(found && admitted);
        assert!(!accepted || (called == LIST_JOBS && admitted), "{} was carried out", path.display());
    }
    let mut peer = Peer::connect(address, WINDOW_BYTES).await.unwrap();
    let metadata = metadata_of("", token.as_deref());
    assert_eq!(call(&mut peer, LIST_JOBS, &metadata, frame_message(&[])).await, Some(0));
    let log = fs::read_to_string(fleet.cluster.log_path("c1")).unwrap();
    assert!(!log.contains("panicked at"), "{log}");
}

const AGENTS: &str = "[agents.plain]\ncommand = [\"true\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_thrown_at_the_port_once_panics_or_ends_a_coordinator() {
    throw_corpus(Fleet::start(AGENTS, &[]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_thrown_at_the_port_once_gets_past_the_gate_or_breaks_it() {
    let cluster = Cluster::start_guarded(program()).await.unwrap();
    throw_corpus(Fleet::with_cluster(cluster, AGENTS)).await;
}

/// What the fuzzer ended with, the last line of what it said, and the cases that it kept.
fn fuzz(arguments: &[&str]) -> (Option<i32>, serde_json::Value, Vec<String>) {
    let corpus = tempfile::tempdir().unwrap();
    for kind in ["bytes", "calls", "fleet"] {
        fs::create_dir(corpus.path().join(kind)).unwrap();
        for (path, case) in cases(kind) {
            fs::write(corpus.path().join(kind).join(path.file_name().unwrap()), case).unwrap();
        }
    }
    let mut fuzzing = Command::new(env!("CARGO_BIN_EXE_fuzz"));
    let output = fuzzing.args(arguments).arg("--corpus").arg(corpus.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let last = said.lines().last().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let summary = serde_json::from_str(last).unwrap_or_else(|_| panic!("no summary: {said}"));
    let mut kept: Vec<String> = ["bytes", "calls"]
        .iter()
        .flat_map(|kind| fs::read_dir(corpus.path().join(kind)).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("found"))
        .collect();
    kept.sort();
    (output.status.code(), summary, kept)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fuzzer_finds_a_fault_that_was_planted_and_keeps_what_led_to_it() {
    let (code, summary, kept) = fuzz(&["--planted", "--seed", "1", "--seconds", "60"]);
    assert_eq!((code, &summary["fuzz"]), (Some(1), &"found".into()), "{summary}");
    assert!(summary["findings"].as_u64() > Some(0) && !kept.is_empty(), "{summary} {kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fuzzer_finds_nothing_where_nothing_is_planted_and_asks_with_and_without_the_token() {
    let (code, summary, kept) = fuzz(&["--seed", "1", "--seconds", "3"]);
    assert_eq!((code, &summary["fuzz"]), (Some(0), &"held".into()), "{summary}");
    assert!(kept.is_empty(), "{kept:?}");
    for counted in ["accepted", "unauthenticated"] {
        assert!(summary[counted].as_u64() > Some(0), "{counted}: {summary}");
    }
}

#[test]
fn nothing_that_was_read_as_a_fleet_file_once_panics() {
    for (path, case) in cases("fleet") {
        let text = String::from_utf8_lossy(&case);
        let _ = Declaration::parse(text.as_bytes());
        let Ok(file) = read_fleet(&text, |named| Err(format!("{named} is not there"))) else { continue };
        for agent in file.agents {
            let read = Declaration::parse(agent.declaration.document());
            assert!(read.is_ok(), "{}: {read:?}", path.display());
        }
    }
}
