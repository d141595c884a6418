//! Notifications between coordinators: heard by every listener, and a lost connection is said.

use std::time::Duration;

use tenure_store::Listener;
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
            assert_eq!(listener.hear().await.unwrap(), payload.clone());
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
    assert_eq!(listener.hear().await.unwrap(), "one");
}

/// Ends the connections of listeners; they hear of it when they next look.
async fn end_connections(fleet: &Fleet) {
    let ended = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'a listener'";
    assert_eq!(fleet.count(ended).await, 1);
}

#[tokio::test]
async fn a_connection_that_was_ended_is_said_to_be_lost() {
    let fleet = Fleet::start().await;
    let mut listener = Listener::connect(fleet.db.url(), "a listener").await.unwrap();
    end_connections(&fleet).await;
    let lost = listener.hear().await.unwrap_err();
    assert!(lost.is_retryable(), "{lost:?}");
    let mut again = Listener::connect(fleet.db.url(), "a listener").await.unwrap();
    fleet.store.send_notifications(&["after".to_owned()]).await.unwrap();
    assert_eq!(again.hear().await.unwrap(), "after");
}

#[tokio::test]
async fn a_loss_is_said_however_often_hearing_is_broken_off() {
    let fleet = Fleet::start().await;
    let mut listener = Listener::connect(fleet.db.url(), "a listener").await.unwrap();
    end_connections(&fleet).await;
    let broken_off_at_each_wait = async {
        loop {
            tokio::select! {
                biased;
                heard = listener.hear() => return heard,
                () = tokio::task::yield_now() => {}
            }
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(60), broken_off_at_each_wait).await;
    assert!(told.expect("the loss is said").is_err());
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
