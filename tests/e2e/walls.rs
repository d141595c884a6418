//! What comes to the port of a coordinator and is no proper call: it is refused at a named limit, the memory that it costs
//! is bounded, and whoever behaves is served throughout.

use std::{fs, net::SocketAddr};

use bytes::Bytes;
use prost::Message as _;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tenure_core::{
    limits::{CALLS_PER_CONNECTION_MAX, FILES_KEPT, MESSAGE_MAX_BYTES, METADATA_MAX_BYTES},
    reason::Reason,
};
use tenure_proto::{status::status_to_refusal, v1};
use tenure_testkit::{Answered, PREFACE, Peer, announce_message, frame_message, read_to_close, throw_bytes};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet};
use tonic::Status;

use crate::fixture::{Fleet, PATIENCE};

const AGENTS: &str = r#"
[agents.plain]
command = ["true"]
"#;

const LIST_JOBS: &str = "/tenure.v1.JobService/ListJobs";
const SUBMIT_JOB: &str = "/tenure.v1.JobService/SubmitJob";
/// What a client takes ahead where it says nothing.
const WINDOW_BYTES: u32 = 65_535;

/// A coordinator, and its port.
struct Port {
    fleet: Fleet,
    address: SocketAddr,
}

impl Port {
    async fn open() -> Self {
        let fleet = Fleet::start(AGENTS, &[]).await;
        let address = fleet.cluster.coordinator_address("c1").unwrap();
        Self { fleet, address }
    }

    async fn connect(&self) -> Peer {
        Peer::connect(self.address, WINDOW_BYTES).await.unwrap()
    }

    /// A client that behaves is answered.
    async fn expect_service(&self) {
        let answered = self.connect().await.call(LIST_JOBS, frame_message(&[])).await.unwrap();
        assert_eq!((answered.http, answered.grpc_code()), (200, Some(0)), "{answered:?}");
    }

    fn pid(&self) -> i32 {
        self.fleet.cluster.coordinator_pid("c1").unwrap().as_raw()
    }

    /// The most memory that the coordinator ever had.
    fn peak_memory_bytes(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
    }
}

/// The stable reason of a refusal.
fn reason(answered: &Answered) -> Reason {
    let status = Status::from_header_map(&answered.headers).unwrap_or_else(|| panic!("{answered:?}"));
    status_to_refusal(&status).unwrap_or_else(|| panic!("a refusal of ours, and not {status:?}")).reason
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The preface and these frames after the settings.
fn opening(frames: &[Vec<u8>]) -> Vec<u8> {
    [PREFACE.to_vec(), frame(4, 0, 0, &[]), frames.concat()].concat()
}

/// The headers of a call, as the table of HPACK has them, with a path of its own.
fn call_headers(stream: u32) -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x41, 1, b'a', 0x44, 2, b'/', b'a'];
    block.extend([0x5f, 16]);
    block.extend(b"application/grpc");
    frame(1, 4, stream, &block)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_refused_and_whoever_behaves_is_served() {
    let port = Port::open().await;
    let resets: Vec<_> = (0..1_000)
        .flat_map(|n| [call_headers(2 * n + 1), frame(3, 0, 2 * n + 1, &8_u32.to_be_bytes())])
        .collect();
    let cases: [(&str, Vec<u8>); 12] = [
        ("nothing", Vec::new()),
        ("HTTP/1", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        ("a hello of TLS", [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 512]].concat()),
        ("half a preface", PREFACE[..11].to_vec()),
        ("zeros", vec![0; 100_000]),
        ("a frame that is cut off", opening(&[frame(1, 4, 1, &[0x83; 64])[..40].to_vec()])),
        ("a frame beyond its size", opening(&[vec![0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]])),
        ("data of no stream", opening(&[frame(0, 0, 0, b"abc")])),
        ("headers that are no HPACK", opening(&[frame(1, 4, 1, &[0xff; 64])])),
        ("headers that go on for ever", opening(&vec![frame(9, 0, 1, &[0; 16_000]); 40])),
        ("an update of a window by nothing", opening(&[frame(8, 0, 0, &[0; 4])])),
        ("streams that are reset at once", opening(&resets)),
    ];
    for (what, bytes) in cases {
        let answer = throw_bytes(port.address, &bytes, PATIENCE).await.unwrap();
        assert!(answer.is_some(), "{what}: the connection was not closed");
        port.expect_service().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_never_gets_to_a_call_is_closed_in_time() {
    let port = Port::open().await;
    let address = port.address;
    let beginnings: [&[u8]; 4] = [b"", &PREFACE[..20], &opening(&[]), &[22, 3, 1, 2, 0]];
    let mut standing = JoinSet::new();
    for beginning in beginnings.into_iter().cycle().take(80) {
        let beginning = beginning.to_vec();
        standing.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&beginning).await.unwrap();
            read_to_close(&mut stream, PATIENCE).await.is_some()
        });
    }
    standing.spawn(trickle(address));
    port.expect_service().await;
    while let Some(closed) = standing.join_next().await {
        assert!(closed.unwrap(), "a connection stayed open without a call");
    }
    port.expect_service().await;
}

/// Sends a preface a byte at a time, each as late as nobody would mind; true where the connection is closed.
async fn trickle(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).await.unwrap();
    for byte in PREFACE.iter().cycle() {
        let closed = read_to_close(&mut stream, std::time::Duration::from_secs(1)).await.is_some();
        if closed || stream.write_all(&[*byte]).await.is_err() {
            return true;
        }
    }
    false
}

/// Provokes `MESSAGE_TOO_LARGE` and `REQUEST_TOO_SLOW`.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_long_unreadable_or_never_whole_is_refused_with_its_reason() {
    let port = Port::open().await;
    let mut peer = port.connect().await;
    let huge = peer.call(SUBMIT_JOB, announce_message(b"x", MESSAGE_MAX_BYTES + 1)).await.unwrap();
    assert_eq!(reason(&huge), Reason::MessageTooLarge);

    // A field of more bytes than there are, and nothing at all.
    for body in [frame_message(&[0x0a, 0x7f]), Bytes::new()] {
        assert_eq!(reason(&peer.call(SUBMIT_JOB, body).await.unwrap()), Reason::InvalidArgument);
    }

    let mut slow = Vec::new();
    // The last is whole, but it goes on.
    for sent in [announce_message(b"half", 8), Bytes::new(), frame_message(&[])] {
        let mut call = peer.begin(SUBMIT_JOB, &[]).await.unwrap();
        call.sending.send_data(sent, false).unwrap();
        slow.push(call);
    }
    port.expect_service().await;
    for call in slow {
        assert_eq!(reason(&call.answer().await.unwrap()), Reason::RequestTooSlow);
    }
    let answered = peer.call(LIST_JOBS, frame_message(&[])).await.unwrap();
    assert_eq!(answered.grpc_code(), Some(0), "the connection is good for more");
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_and_streams_beyond_their_limits_are_refused_by_the_transport() {
    let port = Port::open().await;
    let mut peer = port.connect().await;
    let fits = "v".repeat(METADATA_MAX_BYTES as usize / 2);
    let mut call = peer.begin(LIST_JOBS, &[("a", &fits)]).await.unwrap();
    call.sending.send_data(frame_message(&[]), true).unwrap();
    assert_eq!(call.answer().await.unwrap().grpc_code(), Some(0));
    assert_eq!(peer.allowed_streams(), CALLS_PER_CONNECTION_MAX as usize);
    let huge = "v".repeat(METADATA_MAX_BYTES as usize);
    let refused = match peer.begin(LIST_JOBS, &[("a", &huge)]).await {
        Ok(call) => call.answer().await.map(|answered| answered.http),
        Err(error) => Err(error),
    };
    assert!(!matches!(refused, Ok(200)), "{refused:?}");
    port.expect_service().await;

    // Whoever opens more streams than were allowed is told so, or thrown out.
    let many: Vec<_> = (0..=CALLS_PER_CONNECTION_MAX).map(|n| call_headers(2 * n + 1)).collect();
    assert!(throw_bytes(port.address, &opening(&many), PATIENCE).await.unwrap().is_some());
    port.expect_service().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_never_whole_hold_bounded_memory() {
    const CONNECTIONS: usize = 4;
    const CALLS: usize = 24;
    let port = Port::open().await;
    port.expect_service().await;
    let before = port.peak_memory_bytes();
    let most = announce_message(&vec![0; MESSAGE_MAX_BYTES - 1024], MESSAGE_MAX_BYTES);
    let mut ends = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut peer = port.connect().await;
        for _ in 0..CALLS {
            let mut call = peer.begin(SUBMIT_JOB, &[]).await.unwrap();
            call.sending.send_data(most.clone(), false).unwrap();
            ends.spawn(async move { reason(&call.answer().await.unwrap()) });
        }
    }
    port.expect_service().await;
    let mut overloaded = 0;
    while let Some(end) = ends.join_next().await {
        match end.unwrap() {
            Reason::Overloaded => overloaded += 1,
            Reason::RequestTooSlow => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(overloaded > 0, "768 MiB were offered");
    let grown = port.peak_memory_bytes() - before;
    // Two of the largest on each connection, twice over while they grow, and the windows.
    assert!(grown < 256 << 20, "it grew by {} MiB", grown >> 20);
    port.expect_service().await;
}

/// Provokes `OVERLOADED`.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_hold_bounded_memory_and_end_what_is_made() {
    const CONNECTIONS: usize = 4;
    const CALLS: usize = 200;
    let port = Port::open().await;
    let input = port.fleet.shared().join("input");
    fs::write(&input, vec![b'x'; 250 * 1024]).unwrap();
    let job = port.fleet.submit("plain", &format!("@{}", input.display())).to_string();
    let list = v1::ListRecordsRequest { job: job.clone(), ..Default::default() }.encode_to_vec();
    let watch = v1::WatchJobRequest { job, ..Default::default() }.encode_to_vec();
    let asked = [("/tenure.v1.JobService/ListRecords", list), ("/tenure.v1.JobService/WatchJob", watch)];
    let before = port.peak_memory_bytes();
    let mut unread = Vec::new();
    for n in 0..CONNECTIONS {
        let (path, request) = &asked[n % 2];
        let mut peer = port.connect().await;
        let mut refused = 0;
        for _ in 0..CALLS {
            let mut call = peer.begin(path, &[]).await.unwrap();
            call.sending.send_data(frame_message(request), true).unwrap();
            let (headers, body) = call.leave_unread().await.unwrap();
            if headers.contains_key("grpc-status") {
                assert_eq!(reason(&Answered { headers, ..Answered::default() }), Reason::Overloaded);
                refused += 1;
            } else {
                unread.push(body);
            }
        }
        assert!(refused > 0, "{CALLS} answers of 250 KiB lie unread, and {path} makes more");
        port.expect_service().await;
    }
    let grown = port.peak_memory_bytes() - before;
    assert!(grown < 256 << 20, "it grew by {} MiB", grown >> 20);
    drop(unread);
    port.expect_service().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_are_taken_are_closed_at_once_and_those_that_stand_are_served() {
    const FILES: u64 = 300;
    let port = Port::open().await;
    let mut standing = port.connect().await;
    assert_eq!(standing.call(LIST_JOBS, frame_message(&[])).await.unwrap().grpc_code(), Some(0));
    let pid = Pid::from_raw(port.pid());
    let had = prlimit(pid, Resource::Nofile, Rlimit { current: Some(FILES), maximum: Some(FILES) }).unwrap();
    assert!(had.current.is_none_or(|had| had > FILES));
    let mut streams = Vec::new();
    for _ in 0..FILES {
        streams.push(TcpStream::connect(port.address).await.unwrap());
    }
    // The last are closed while the first are still waited for.
    let mut last = streams.pop().unwrap();
    assert!(read_to_close(&mut last, PATIENCE).await.is_some());
    let places = usize::try_from(FILES).unwrap() - FILES_KEPT;
    assert!(streams.len() > places);
    assert_eq!(standing.call(LIST_JOBS, frame_message(&[])).await.unwrap().grpc_code(), Some(0));
    drop(streams);
    let what = "a new connection to be taken";
    tenure_testkit::wait_for(what, PATIENCE, async || {
        let mut peer = Peer::connect(port.address, WINDOW_BYTES).await.map_err(|error| error.to_string())?;
        peer.call(LIST_JOBS, frame_message(&[])).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
}
