//! What fuzzing began from, and what it found, is thrown again: nothing panics, nothing hangs, and a client that behaves is
//! served afterwards. `make fuzz` adds to it.

use std::{fs, path::PathBuf, time::Duration};

use bytes::Bytes;
use tenure_core::{declaration::Declaration, fleet::read_fleet};
use tenure_testkit::{Peer, frame_message, throw_bytes};
use tokio::time::timeout;

use crate::fixture::Fleet;

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

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_thrown_at_the_port_once_panics_or_ends_a_coordinator() {
    let fleet = Fleet::start("[agents.plain]\ncommand = [\"true\"]\n", &[]).await;
    let address = fleet.cluster.coordinator_address("c1").unwrap();
    for (path, case) in cases("bytes") {
        let thrown = throw_bytes(address, &case, CASE_WAIT).await;
        assert!(thrown.is_ok(), "after {}: {thrown:?}", path.display());
    }
    for (path, case) in cases("calls") {
        let end = case.iter().position(|byte| *byte == b'\n').unwrap();
        let (called, body) =
            (std::str::from_utf8(&case[..end]).unwrap(), Bytes::copy_from_slice(&case[end + 1..]));
        let peer = Peer::connect(address, WINDOW_BYTES).await;
        let mut peer = peer.unwrap_or_else(|error| panic!("after {}: {error:#}", path.display()));
        let answered = timeout(CASE_WAIT, peer.call(called, body)).await;
        let found = path.file_name().unwrap().to_string_lossy().starts_with("found");
        let accepted = !found && matches!(&answered, Ok(Ok(answered)) if answered.grpc_code() == Some(0));
        assert!(
            !accepted || called.ends_with("/ListJobs"),
            "{} was carried out: {answered:?}",
            path.display()
        );
    }
    let mut peer = Peer::connect(address, WINDOW_BYTES).await.unwrap();
    let served = peer.call("/tenure.v1.JobService/ListJobs", frame_message(&[])).await.unwrap();
    assert_eq!(served.grpc_code(), Some(0));
    let log = fs::read_to_string(fleet.cluster.log_path("c1")).unwrap();
    assert!(!log.contains("panicked at"), "{log}");
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
