use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::Instant,
};

use super::*;

/// Patience for what must come at once on a machine that is idle.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that answers each byte with itself and counts what it read.
async fn start_echo() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let read = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&read);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counter = Arc::clone(&counter);
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                    counter.fetch_add(bytes as u64, Ordering::Relaxed);
                    if stream.write_all(&buffer[..bytes]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, read)
}

async fn start_proxied() -> (Proxy, TcpStream, Arc<AtomicU64>) {
    let (target, read) = start_echo().await;
    let proxy = Proxy::start(target).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut client, b"hello").await.unwrap(), b"hello");
    (proxy, client, read)
}

async fn exchange(client: &mut TcpStream, words: &[u8]) -> io::Result<Vec<u8>> {
    client.write_all(words).await?;
    let mut answer = vec![0; words.len()];
    tokio::time::timeout(PATIENCE, client.read_exact(&mut answer)).await.expect("an answer")?;
    Ok(answer)
}

async fn wait_for_count(what: &str, wanted: u64, count: impl Fn() -> u64) {
    crate::wait_for(what, PATIENCE, async || {
        let now = count();
        if now == wanted { Ok(()) } else { Err(now) }
    })
    .await;
}

fn assert_reset(result: io::Result<Vec<u8>>) {
    let error = result.expect_err("a reset");
    let kinds = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe, io::ErrorKind::UnexpectedEof];
    assert!(kinds.contains(&error.kind()), "{error:?}");
}

#[tokio::test]
async fn everything_passes_in_order_and_the_end_too() {
    let (_proxy, mut client, _) = start_proxied().await;
    let words: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let (mut from, mut to) = client.split();
    let mut answer = Vec::new();
    let sending = async {
        to.write_all(&words).await.unwrap();
        to.shutdown().await.unwrap();
    };
    tokio::join!(sending, async { from.read_to_end(&mut answer).await.unwrap() });
    assert!(answer == words, "{} of {} bytes came back", answer.len(), words.len());
}

#[tokio::test]
async fn delayed_bytes_are_late_and_whole() {
    let (proxy, mut client, _) = start_proxied().await;
    let late = Duration::from_millis(150);
    proxy.treat(Treatment::Delay { to_server: late, to_client: late });
    let sent = Instant::now();
    assert_eq!(exchange(&mut client, b"late").await.unwrap(), b"late");
    assert!(sent.elapsed() >= 2 * late, "{:?}", sent.elapsed());
}

#[tokio::test]
async fn lost_answer_has_reached_the_server_and_the_connection_is_reset_when_the_loss_ends() {
    let (proxy, mut client, read) = start_proxied().await;
    proxy.treat(Treatment::LoseAnswers);
    client.write_all(b"once").await.unwrap();
    wait_for_count("the lost answer", 4, || proxy.lost_bytes(Way::ToClient)).await;
    assert_eq!(read.load(Ordering::Relaxed), 9);
    proxy.treat(Treatment::Pass);
    assert_reset(exchange(&mut client, b"again").await);
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut client, b"again").await.unwrap(), b"again");
}

#[tokio::test]
async fn lost_request_never_reaches_the_server_while_answers_would_pass() {
    let (proxy, mut client, read) = start_proxied().await;
    proxy.treat(Treatment::LoseRequests);
    client.write_all(b"lost").await.unwrap();
    wait_for_count("the lost request", 4, || proxy.lost_bytes(Way::ToServer)).await;
    assert_eq!(read.load(Ordering::Relaxed), 5);
    assert_eq!(proxy.lost_bytes(Way::ToClient), 0);
}

#[tokio::test]
async fn stalled_connection_stays_open_and_goes_on_without_loss() {
    let (proxy, mut client, read) = start_proxied().await;
    proxy.treat(Treatment::Stall);
    client.write_all(b"held").await.unwrap();
    // A new connection is accepted and gets no answer either.
    let mut other = TcpStream::connect(proxy.address()).await.unwrap();
    other.write_all(b"held").await.unwrap();
    wait_for_count("the second connection", 2, || proxy.accepted()).await;
    assert_eq!(read.load(Ordering::Relaxed), 5);
    proxy.treat(Treatment::Pass);
    let mut answer = [0; 4];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"held");
}

#[tokio::test]
async fn cut_resets_what_is_there_and_welcomes_what_comes() {
    let (proxy, mut client, _) = start_proxied().await;
    proxy.cut();
    assert_reset(exchange(&mut client, b"gone").await);
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut client, b"here").await.unwrap(), b"here");
}

#[tokio::test]
async fn refusal_resets_old_and_new_connections_until_it_is_over() {
    let (proxy, mut client, _) = start_proxied().await;
    proxy.treat(Treatment::Refuse);
    assert_reset(exchange(&mut client, b"old").await);
    let mut new = TcpStream::connect(proxy.address()).await.unwrap();
    assert_reset(exchange(&mut new, b"new").await);
    proxy.treat(Treatment::Pass);
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut client, b"here").await.unwrap(), b"here");
}

#[tokio::test]
async fn redirected_proxy_connects_to_the_other_target() {
    let (proxy, _client, _) = start_proxied().await;
    let (other, read) = start_echo().await;
    proxy.redirect(other);
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut client, b"other").await.unwrap(), b"other");
    assert_eq!(read.load(Ordering::Relaxed), 5);
}
