//! Starts that are refused, each with its stable reason.

use std::time::Duration;

use tenure_coordinator::{Coordinator, CoordinatorOptions, TlsFiles};
use tenure_core::reason::Reason;
use tenure_testkit::TestDatabase;

use crate::fleet::Fleet;

async fn refused(options: CoordinatorOptions) -> Reason {
    match Coordinator::start(options).await {
        Ok(_) => panic!("the start was not refused"),
        Err(error) => error.reason(),
    }
}

fn options(url: &str, listen: &str) -> CoordinatorOptions {
    CoordinatorOptions::new(url, listen.parse().unwrap())
}

#[tokio::test]
async fn an_address_that_is_not_loopback_is_refused() {
    let database = TestDatabase::create().await.unwrap();
    assert_eq!(refused(options(database.url(), "0.0.0.0:0")).await, Reason::LoopbackOnly);
    let plain = CoordinatorOptions { allow_plaintext: true, ..options(database.url(), "0.0.0.0:0") };
    assert_eq!(refused(plain).await, Reason::LoopbackOnly, "credentials are wanted whatever encrypts");
}

/// Provokes `TLS_REQUIRED`.
#[tokio::test]
async fn an_address_that_is_not_loopback_wants_tls_or_the_word_of_whoever_encrypts() {
    let database = TestDatabase::create().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let tokens = Some(directory.path().join("tokens"));
    std::fs::write(directory.path().join("tokens"), "").unwrap();
    let open = CoordinatorOptions { tokens, ..options(database.url(), "0.0.0.0:0") };
    assert_eq!(refused(open.clone()).await, Reason::TlsRequired);
    let plain = CoordinatorOptions { allow_plaintext: true, ..open };
    let running = Coordinator::start(plain).await.unwrap();
    assert!(!running.local_addr().ip().is_loopback());
}

/// Provokes `TOKENS_UNREADABLE`.
#[tokio::test]
async fn a_file_of_tokens_that_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokens");
    let nowhere = || CoordinatorOptions {
        tokens: Some(path.clone()),
        ..options("postgres://127.0.0.1:1/none", "127.0.0.1:0")
    };
    assert_eq!(refused(nowhere()).await, Reason::TokensUnreadable);
    std::fs::write(&path, "no tokens").unwrap();
    assert_eq!(refused(nowhere()).await, Reason::TokensUnreadable);
}

/// Provokes `TLS_UNUSABLE`.
#[tokio::test]
async fn certificates_that_are_none_are_refused() {
    let database = TestDatabase::create().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("cert"), directory.path().join("key"));
    let files = TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca: None };
    let secured =
        || CoordinatorOptions { tls: Some(files.clone()), ..options(database.url(), "127.0.0.1:0") };
    assert_eq!(refused(secured()).await, Reason::TlsUnusable);
    std::fs::write(&certificate, "no certificate").unwrap();
    std::fs::write(&key, "no key").unwrap();
    assert_eq!(refused(secured()).await, Reason::TlsUnusable);
}

#[tokio::test]
async fn a_port_in_use_is_said() {
    let fleet = Fleet::start().await;
    let taken = fleet.coordinator.local_addr().to_string();
    assert_eq!(refused(options("postgres://127.0.0.1:1/none", &taken)).await, Reason::PortInUse);
}

#[tokio::test]
async fn a_database_that_is_not_migrated_is_said() {
    let database = TestDatabase::create_empty().await.unwrap();
    assert_eq!(refused(options(database.url(), "127.0.0.1:0")).await, Reason::NotMigrated);
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_said_after_a_bounded_wait() {
    let mut nowhere = options("postgres://127.0.0.1:1/none", "127.0.0.1:0");
    nowhere.wait_for_database = Duration::from_millis(100);
    assert_eq!(refused(nowhere).await, Reason::DatabaseUnavailable);
}
