//! Notifications between coordinators: heard by every listener, and a lost connection is said.

use std::time::Duration;

use tenure_store::{Heard, Listener};
use tenure_testkit::wait_for;

use crate::fleet::Fleet;

#[tokio::test]
async fn what_is_sent_is_heard_by_every_listener_in_order() {
    let fleet = Fleet::start().await;
    let mut first = Listener::connect(fleet.db.url(), "a listener").await.unwrap();
    let mut second = Listener::connect(fleet.db.url(), "a listener").await.unwrap();
    let sent = ["one".to_owned(), "two".to_owned()];
    fleet.store.send_notifications(&sent).await.unwrap();
    for listener in [&mut first, &mut second] {
        for payload in &sent {
            assert_eq!(listener.hear().await.unwrap(), Heard::Payload(payload.clone()));
        }
        listener.check().await.unwrap();
    }
}

#[tokio::test]
async fn what_comes_while_the_connection_is_asked_whether_it_lives_is_kept() {
    let fleet = Fleet::start().await;
    let mut listener = Listener::connect(fleet.db.url(), "a listener").await.unwrap();
    fleet.store.send_notifications(&["one".to_owned()]).await.unwrap();
    listener.check().await.unwrap();
    assert_eq!(listener.hear().await.unwrap(), Heard::Payload("one".to_owned()));
}

#[tokio::test]
async fn a_connection_that_was_ended_is_said_and_made_again() {
    let fleet = Fleet::start().await;
    let mut listener = Listener::connect(fleet.db.url(), "a listener").await.unwrap();
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'a listener'";
    assert_eq!(fleet.count(ended).await, 1);
    assert_eq!(listener.hear().await.unwrap(), Heard::Gap);
    fleet.store.send_notifications(&["after".to_owned()]).await.unwrap();
    assert_eq!(listener.hear().await.unwrap(), Heard::Payload("after".to_owned()));
}

#[tokio::test]
async fn a_listener_that_was_dropped_leaves_no_connection() {
    let fleet = Fleet::start().await;
    let listener = Listener::connect(fleet.db.url(), "a listener").await.unwrap();
    drop(listener);
    wait_for("the listener's connection to go", Duration::from_secs(60), async || {
        let left = fleet
            .count(
                "SELECT count(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'a listener'",
            )
            .await;
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
}
