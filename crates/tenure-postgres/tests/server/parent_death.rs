//! The death of the process that started the server.
//!
//! The parent is this test binary, run a second time with only the ignored test below.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use tenure_postgres::{Options, Server};

use crate::{query, wait_for};

const DIRECTORY: &str = "TENURE_TEST_PARENT_DIRECTORY";

#[test]
fn server_ends_with_its_killed_parent_and_its_rows_are_there_for_the_next() {
    let root = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let directory = root.path().join("pg");
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "parent_death::hold_a_server", "--ignored", "--nocapture"])
        .env(DIRECTORY, &directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = BufReader::new(parent.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("postmaster=")?.1.trim().parse::<u32>().ok())
        .unwrap();

    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_for("the orphaned postmaster to end", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let state = status.lines().find(|line| line.starts_with("State:"));
        match state {
            Some(state) if !state.contains('Z') => Err(state.to_owned()),
            _ => Ok(()),
        }
    });

    let server = Server::start(Options::in_directory(&directory)).unwrap();
    assert_eq!(query(&server, &server.url("postgres"), "SELECT how FROM kept"), "by the dead");
}

#[test]
#[ignore = "the parent of the test above, not a test"]
fn hold_a_server() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    // From a thread that ends: the server must outlive the thread, and only the thread.
    let server =
        std::thread::spawn(move || Server::start(Options::in_directory(directory)).unwrap()).join().unwrap();
    let sql = "CREATE TABLE kept AS SELECT 'by the dead' AS how";
    query(&server, &server.url("postgres"), sql);
    println!("postmaster={}", server.pid().unwrap());
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}
