//! The private server on real PostgreSQL binaries: its life, its crashes, the death of its parent.
//!
//! Owns what the stages share: running `psql` and waiting for a condition. Neighbours: the crate.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod life;
mod parent_death;
mod refusals;
mod with_postgres;

use std::process::Command;
use std::time::{Duration, Instant};

use tenure_postgres::Server;

/// Runs one statement and returns what it printed.
fn query(server: &Server, url: &str, sql: &str) -> String {
    let output = Command::new(server.binaries().program("psql"))
        .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql, url])
        .output()
        .unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Waits until `look` says that it is so; otherwise reports what it last saw.
fn wait_for(what: &str, mut look: impl FnMut() -> Result<(), String>) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match look() {
            Ok(()) => return,
            Err(seen) if Instant::now() > end => panic!("waited for {what}, last saw {seen}"),
            Err(_) => std::thread::yield_now(),
        }
    }
}
