//! The program `tenure-ledger`, as a script uses it: a service that is started, posted to and asked, and killed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

struct Service {
    process: Child,
    url: String,
}

impl Service {
    fn start(file: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tenure-ledger"))
            .args(["serve", "--file"])
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }

    fn call(&self, verb: &str, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tenure-ledger"))
            .args([verb, "--url", &self.url])
            .args(arguments)
            .output()
            .unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // One that is gone already is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn printed(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn what_was_posted_is_found_also_by_a_service_that_was_killed_and_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ledger.jsonl");
    let service = Service::start(&file);
    assert_eq!(printed(&service.call("find", &["--key", "k"])), (Some(10), String::new()));
    assert_eq!(printed(&service.call("post", &["--key", "k", "--text", "a b"])), (Some(0), "1".to_owned()));
    drop(service);

    let service = Service::start(&file);
    assert_eq!(printed(&service.call("post", &["--key", "k", "--text", "a b"])), (Some(0), "1".to_owned()));
    assert_eq!(printed(&service.call("post", &["--text", "c"])), (Some(0), "2".to_owned()));
    assert_eq!(printed(&service.call("find", &["--key", "k"])), (Some(0), "a b".to_owned()));
    assert_eq!(printed(&service.call("find", &["--text", "c"])), (Some(0), "c".to_owned()));
    assert_eq!(printed(&service.call("find", &["--text", "a"])), (Some(10), String::new()));
    assert_eq!(service.call("entries", &[]).stdout, std::fs::read(&file).unwrap());
}

#[test]
fn swallowed_answer_is_a_failure_that_says_so_and_the_entry_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(&directory.path().join("ledger.jsonl"));
    assert_eq!(printed(&service.call("behave", &["--swallow", "1"])).0, Some(0));
    let swallowed = service.call("post", &["--text", "a"]);
    assert_eq!(printed(&swallowed), (Some(1), String::new()));
    assert!(String::from_utf8_lossy(&swallowed.stderr).contains("posting at the ledger"), "{swallowed:?}");
    assert_eq!(printed(&service.call("find", &["--text", "a"])).0, Some(0));
}

#[test]
fn ledger_that_is_not_there_cannot_say_whether_it_happened() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Service::start(&directory.path().join("ledger.jsonl"));
    service.process.kill().unwrap();
    service.process.wait().unwrap();
    assert_eq!(printed(&service.call("find", &["--text", "a"])).0, Some(1));
}
