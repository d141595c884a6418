//! Starts that are refused, each with its stable reason.

use std::time::Duration;

use tenure_coordinator::{Coordinator, CoordinatorOptions};
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
    let nowhere = options("postgres://127.0.0.1:1/none", "0.0.0.0:0");
    assert_eq!(refused(nowhere).await, Reason::LoopbackOnly);
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
