//! From seq N a watch goes on at N + 1, whatever breaks.

use tenure_client::ClientError;
use tenure_core::{id::Seq, job::State, reason::Reason};
use tenure_proto::v1;

use crate::{
    journal::{JOB, is_the_job, make_records},
    server::{Script, Server, connect, sealed},
};

async fn watch_all(server: &Server, from: u64) -> Vec<u64> {
    let mut watch = server.client().watch_job("abcd", Seq(from)).await.unwrap();
    let mut seen = Vec::new();
    while let Some(watched) = watch.next().await.unwrap() {
        seen.push(watched.record.seq.0);
    }
    seen
}

#[tokio::test]
async fn a_watch_over_breaking_streams_has_no_gap_and_no_repeat() {
    let server = Server::start(Script { breaks_after: 3, ..sealed(11) }).await;
    assert_eq!(watch_all(&server, 0).await, (1..=11).collect::<Vec<_>>());
    assert_eq!(server.script().streams, [1, 4, 7, 10], "each stream begins where the one before broke");
}

#[tokio::test]
async fn records_that_come_again_are_left_out() {
    let server = Server::start(Script { breaks_after: 4, begins_early: 2, ..sealed(9) }).await;
    assert_eq!(watch_all(&server, 3).await, (3..=9).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_gap_is_filled_from_another_stream() {
    let server = Server::start(Script { leaves_gaps: true, ..sealed(6) }).await;
    assert_eq!(watch_all(&server, 1).await, (1..=6).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_watch_from_behind_the_end_of_a_sealed_job_ends() {
    let server = Server::start(sealed(2)).await;
    assert_eq!(watch_all(&server, 3).await, Vec::<u64>::new());
}

#[tokio::test]
async fn a_watch_goes_on_while_the_job_does() {
    let records = make_records(3);
    let begun = Script { records: records[..2].to_vec(), state: v1::JobState::Running, ..sealed(0) };
    let server = Server::start(begun).await;
    let mut watch = server.client().watch_job(JOB, Seq(1)).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().state, State::Running);
    assert_eq!(watch.next().await.unwrap().unwrap().record.seq, Seq(2));
    let third = tokio::spawn(async move { (watch.next().await, watch.next().await) });
    {
        let mut script = server.script();
        script.records = records;
        script.state = v1::JobState::Cancelled;
    }
    let (third, end) = third.await.unwrap();
    assert_eq!(third.unwrap().unwrap().record.seq, Seq(3));
    assert_eq!(end.unwrap(), None);
}

#[tokio::test]
async fn a_wait_ends_when_the_job_is_at_rest() {
    let failed = Script { state: v1::JobState::Failed, ..sealed(4) };
    let server = Server::start(Script { state: v1::JobState::Running, ..sealed(2) }).await;
    let client = server.client();
    let waiting = tokio::spawn(async move { client.wait_for_conclusion(JOB, None).await });
    *server.script() = failed;
    let job = waiting.await.unwrap().unwrap();
    assert_eq!(job.state, State::Failed);
    assert!(is_the_job(&job));
}

#[tokio::test]
async fn a_wait_that_runs_out_says_where_the_job_stands() {
    let server = Server::start(Script { state: v1::JobState::Running, ..sealed(2) }).await;
    let limit = std::time::Duration::from_millis(50);
    let error = server.client().wait_for_conclusion(JOB, Some(limit)).await.unwrap_err();
    assert_eq!(error.reason(), Reason::WaitRanOut);
    assert!(error.to_string().contains("still running"), "{error}");
}

#[tokio::test]
async fn a_watch_moves_to_another_coordinator() {
    let (first, second) =
        (Server::start(Script { breaks_after: 2, ..sealed(5) }).await, Server::start(sealed(5)).await);
    let client = connect(&[first.address.to_string(), second.address.to_string()]);
    let mut watch = client.watch_job(JOB, Seq(1)).await.unwrap();
    let mut seen = Vec::new();
    while let Some(watched) = watch.next().await.unwrap() {
        seen.push(watched.record.seq.0);
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    assert_eq!((first.script().streams.clone(), second.script().streams.clone()), (vec![1], vec![3]));
}

#[tokio::test]
async fn a_stream_that_breaks_blames_the_coordinator_that_it_was_opened_at() {
    let first = Server::start(Script { breaks_after: 2, ..sealed(5) }).await;
    let second = Server::start(sealed(5)).await;
    let client = connect(&[first.address.to_string(), second.address.to_string()]);
    let mut watch = client.watch_job(JOB, Seq(1)).await.unwrap();
    watch.next().await.unwrap().unwrap();
    // Another call finds the first coordinator away, so the second is asked when the stream of the first breaks.
    first.script().database_away = 1;
    assert!(is_the_job(&client.get_job(JOB).await.unwrap()));
    let mut seen = vec![1];
    while let Some(watched) = watch.next().await.unwrap() {
        seen.push(watched.record.seq.0);
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    assert_eq!((first.script().streams.clone(), second.script().streams.clone()), (vec![1], vec![3]));
}

#[tokio::test]
async fn a_refusal_ends_a_watch() {
    let server = Server::start(sealed(1)).await;
    let error = server.client().get_result(JOB).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused(_)), "{error}");
    assert_eq!(error.reason(), Reason::NotSupported);
}
