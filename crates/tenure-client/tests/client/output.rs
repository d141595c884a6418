//! Followed output goes on where it broke, and from run to run.

use tenure_client::output::{OutputRequest, OutputStream};
use tenure_core::id::Run;
use tenure_proto::v1;

use crate::{
    journal::JOB,
    server::{Script, Server, sealed},
};

fn chunk(run: u32, chunk: u64) -> v1::ReadOutputResponse {
    let stream = v1::OutputStream::Stdout as i32;
    v1::ReadOutputResponse { run, chunk, stream, bytes: format!("{run}.{chunk} ").into_bytes().into() }
}

async fn read_all(server: &Server, request: OutputRequest) -> String {
    let mut reader = server.client().read_output(JOB, request).await.unwrap();
    let mut text = String::new();
    while let Some(chunk) = reader.next().await.unwrap() {
        assert_eq!(chunk.stream, OutputStream::Stdout);
        text.push_str(std::str::from_utf8(&chunk.bytes).unwrap());
    }
    text
}

fn two_runs(breaks_after: usize) -> Script {
    let outputs = (0..5).map(|n| chunk(1, n)).chain((0..3).map(|n| chunk(2, n))).collect();
    Script { outputs, run: 2, breaks_after, ..sealed(1) }
}

#[tokio::test]
async fn a_follower_reads_every_run_once_over_breaking_streams() {
    let server = Server::start(two_runs(2)).await;
    let text = read_all(&server, OutputRequest { follow: true, ..OutputRequest::default() }).await;
    assert_eq!(text, "1.0 1.1 1.2 1.3 1.4 2.0 2.1 2.2 ");
    let asked: Vec<(u32, u64)> =
        server.script().output_requests.iter().map(|request| (request.run, request.skip_chunks)).collect();
    assert_eq!(asked, [(0, 0), (1, 2), (1, 4), (2, 0), (2, 2)]);
}

#[tokio::test]
async fn a_reader_of_one_run_reads_that_run_alone() {
    let server = Server::start(two_runs(0)).await;
    let request = OutputRequest { run: Some(Run(2)), follow: true, stream: None };
    assert_eq!(read_all(&server, request).await, "2.0 2.1 2.2 ");
}

#[tokio::test]
async fn chunks_that_come_again_are_left_out() {
    let server = Server::start(two_runs(0)).await;
    server.script().outputs.insert(2, chunk(1, 1));
    let request = OutputRequest { run: Some(Run(1)), ..OutputRequest::default() };
    assert_eq!(read_all(&server, request).await, "1.0 1.1 1.2 1.3 1.4 ");
}
