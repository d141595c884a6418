//! Calls whose answer is lost: repeated where that is harmless, and only there.

use tenure_client::{Client, ClientError, ClientOptions, submission::Submission};
use tenure_core::reason::Reason;

use crate::{
    journal::{JOB, is_the_job},
    server::{Script, Server, connect, sealed},
};

fn greet() -> Submission {
    Submission { agent: "greet".into(), ..Submission::default() }
}

#[tokio::test]
async fn a_submission_without_a_key_is_sent_again_under_one_key() {
    let server = Server::start(Script { answers_lost: 2, ..sealed(1) }).await;
    let admitted = server.client().submit_job(greet()).await.unwrap();
    assert!(admitted.already_submitted, "the first attempt had been carried out");
    let script = server.script();
    assert_eq!(script.keys.len(), 3);
    assert!(!script.keys[0].is_empty() && script.keys.iter().all(|key| *key == script.keys[0]));
    assert_eq!(script.acts, 1);
}

#[tokio::test]
async fn an_act_that_is_not_the_same_twice_is_not_sent_again() {
    let server = Server::start(Script { answers_lost: 1, ..sealed(1) }).await;
    let error = server.client().recover_job(JOB, "because").await.unwrap_err();
    assert!(matches!(error, ClientError::OutcomeUnknown { .. }), "{error}");
    assert_eq!(error.reason(), Reason::CoordinatorUnavailable);
    assert_eq!(server.script().acts, 1);
}

#[tokio::test]
async fn an_act_that_was_never_sent_is_sent_to_the_next_coordinator() {
    let server = Server::start(sealed(1)).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = connect(&[nobody.to_string(), server.address.to_string()]);
    assert!(is_the_job(&client.recover_job(JOB, "because").await.unwrap()));
    assert_eq!(server.script().acts, 1);
}

#[tokio::test]
async fn a_coordinator_that_is_cut_off_from_its_database_is_left_for_one_that_is_not() {
    let cut_off = Server::start(Script { database_away: u32::MAX, ..sealed(1) }).await;
    let server = Server::start(sealed(1)).await;
    let client = connect(&[cut_off.address.to_string(), server.address.to_string()]);
    assert!(is_the_job(&client.get_job(JOB).await.unwrap()));
    client.submit_job(greet()).await.unwrap();
    client.submit_job(greet()).await.unwrap();
    assert_eq!(cut_off.script().database_away, u32::MAX - 1, "it was asked once");
    assert_eq!(server.script().acts, 2);
}

#[tokio::test]
async fn what_reads_or_is_harmless_twice_is_repeated_where_the_database_was_away_and_other_acts_are_not() {
    let server = Server::start(Script { database_away: 1, ..sealed(1) }).await;
    let client = server.client();
    assert!(is_the_job(&client.get_job(JOB).await.unwrap()));
    server.script().database_away = 1;
    client.submit_job(greet()).await.unwrap();
    assert_eq!(server.script().keys.len(), 2);
    server.script().database_away = 2;
    let error = client.recover_job(JOB, "because").await.unwrap_err();
    assert_eq!(error.reason(), Reason::DatabaseUnavailable);
    assert_eq!(server.script().database_away, 1);
}

#[tokio::test]
async fn a_refusal_of_a_database_that_stays_away_is_handed_on_when_patience_runs_out() {
    let server = Server::start(Script { database_away: u32::MAX, ..sealed(1) }).await;
    let options =
        ClientOptions { patience: std::time::Duration::from_millis(200), ..ClientOptions::default() };
    let client = Client::connect_with(&[server.address.to_string()], options).unwrap();
    let error = client.get_job(JOB).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused(_)), "{error}");
    assert_eq!(error.reason(), Reason::DatabaseUnavailable);
    assert!(server.script().database_away < u32::MAX - 1);
}

#[tokio::test]
async fn late_answers_of_coordinators_that_cannot_use_patience_up_but_each_is_asked() {
    let (patience, answers_after) =
        (std::time::Duration::from_millis(300), std::time::Duration::from_millis(400));
    let away = || Script { database_away: u32::MAX, answers_after, ..sealed(1) };
    let (first, second) = (Server::start(away()).await, Server::start(away()).await);
    let addresses = [first.address.to_string(), second.address.to_string()];
    let options = ClientOptions { patience, ..ClientOptions::default() };
    let client = Client::connect_with(&addresses, options).unwrap();
    let error = client.get_job(JOB).await.unwrap_err();
    assert_eq!(error.reason(), Reason::DatabaseUnavailable);
    let asked = [&first, &second].map(|server| u32::MAX - server.script().database_away);
    assert_eq!(asked, [1, 1]);
}

#[tokio::test]
async fn a_fleet_that_does_not_answer_is_said_to_be_unavailable_with_every_endpoint() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options =
        ClientOptions { patience: std::time::Duration::from_millis(10), ..ClientOptions::default() };
    let client = Client::connect_with(&[nobody.to_string(), "127.0.0.1:9".into()], options).unwrap();
    let error = client.get_job(JOB).await.unwrap_err();
    assert!(matches!(error, ClientError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains(&format!("{nobody}, 127.0.0.1:9")), "{error}");
}
