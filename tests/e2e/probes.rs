//! What comes to the port for probes and is no probe: it is refused or given up at a named limit, and probes are answered.

use std::net::SocketAddr;

use tenure_core::limits::{PROBE_CONNECTIONS_MAX, PROBE_HEAD_MAX_BYTES};
use tenure_postgres::Options;
use tenure_testkit::{Cluster, PREFACE, read_to_close, throw_bytes, wait_for};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet};

use crate::fixture::{PATIENCE, program};

const LIVE: &str = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";

/// A coordinator, and its port for probes.
struct Probes {
    _cluster: Cluster,
    address: SocketAddr,
}

impl Probes {
    async fn open() -> Self {
        let mut cluster = Cluster::start_database(program(), Options::default()).await.unwrap();
        cluster.start_coordinator("c1").await.unwrap();
        let address = cluster.coordinator_probes("c1").unwrap();
        Self { _cluster: cluster, address }
    }

    /// What comes back until the connection is closed.
    async fn throw(&self, bytes: &[u8]) -> String {
        let answer = throw_bytes(self.address, bytes, PATIENCE).await.unwrap();
        String::from_utf8(answer.expect("the connection to be closed")).unwrap()
    }

    async fn expect_answers(&self) {
        for (path, words) in
            [("livez", "\r\n\r\nlive\n"), ("readyz", "\r\n\r\nready\n"), ("metrics", "# TYPE ")]
        {
            let answer = self.throw(LIVE.replace("livez", path).as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(words), "{path}: {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_probe_is_refused_and_probes_are_answered() {
    let probes = Probes::open().await;
    let cases: [(&str, &[u8], &str); 6] = [
        ("another path", b"GET /jobs HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 "),
        ("another verb", b"DELETE /livez HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 405 "),
        ("a body that never comes", b"POST /livez HTTP/1.1\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 405 "),
        ("half a line", b"GET /liv", ""),
        ("a hello of TLS", &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3], "HTTP/1.1 400 "),
        ("HTTP/2", PREFACE, ""),
    ];
    for (what, bytes, begins) in cases {
        let answer = probes.throw(bytes).await;
        assert!(answer.starts_with(begins) && !answer.contains("200 OK"), "{what}: {answer}");
        probes.expect_answers().await;
    }
    // One connection, one answer.
    let answer = probes.throw(LIVE.repeat(3).as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_long_is_refused_and_one_that_is_never_whole_is_given_up() {
    let probes = Probes::open().await;
    let with = |headers: &str| LIVE.replace("Host: a\r\n", headers);
    let padded = |bytes: usize| with(&format!("Host: a\r\nA: {}\r\n", "v".repeat(bytes)));
    let fits = probes.throw(padded(PROBE_HEAD_MAX_BYTES / 2).as_bytes()).await;
    assert!(fits.starts_with("HTTP/1.1 200 "), "{fits}");
    for huge in [padded(PROBE_HEAD_MAX_BYTES), with(&"A: b\r\n".repeat(101))] {
        let refused = probes.throw(huge.as_bytes()).await;
        assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
    }

    let mut standing = JoinSet::new();
    for beginning in ["", "GET /livez", "GET /livez HTTP/1.1\r\nHost: a\r\n"] {
        let mut stream = TcpStream::connect(probes.address).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        standing.spawn(async move { read_to_close(&mut stream, PATIENCE).await });
    }
    let mut trickling = TcpStream::connect(probes.address).await.unwrap();
    standing.spawn(async move {
        // Header after header, each in good time.
        for part in std::iter::once("GET /livez HTTP/1.1\r\n").chain(std::iter::repeat("A: b\r\n")) {
            if trickling.write_all(part.as_bytes()).await.is_err() {
                break;
            }
            if let Some(answer) = read_to_close(&mut trickling, std::time::Duration::from_secs(1)).await {
                return Some(answer);
            }
        }
        Some(Vec::new())
    });
    probes.expect_answers().await;
    while let Some(closed) = standing.join_next().await {
        let answer = closed.unwrap().expect("a head that is never whole to be given up");
        assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    }
    probes.expect_answers().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_there_are_places_are_closed_and_the_places_come_back() {
    let probes = Probes::open().await;
    let mut standing = Vec::new();
    for _ in 0..=PROBE_CONNECTIONS_MAX {
        standing.push(TcpStream::connect(probes.address).await.unwrap());
    }
    // The last has no place: it is closed while the first are still waited for.
    let mut last = standing.pop().unwrap();
    assert_eq!(read_to_close(&mut last, PATIENCE).await.unwrap(), b"");
    let mut first = standing.swap_remove(0);
    first.write_all(LIVE.as_bytes()).await.unwrap();
    let answer = read_to_close(&mut first, PATIENCE).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    // Those that stand still and ask nothing are given up, and leave their places.
    for stream in &mut standing {
        assert_eq!(read_to_close(stream, PATIENCE).await.unwrap(), b"");
    }
    wait_for("a place", PATIENCE, async || {
        let answer =
            throw_bytes(probes.address, LIVE.as_bytes(), PATIENCE).await.unwrap().unwrap_or_default();
        if answer.starts_with(b"HTTP/1.1 200 ") { Ok(()) } else { Err(answer) }
    })
    .await;
    probes.expect_answers().await;
}
