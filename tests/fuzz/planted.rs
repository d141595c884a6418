//! A fault that was planted, to show that the fuzzer can find one: what stands before the coordinator as a process of its own,
//! hands every byte on, and panics where a certain byte comes, as a task of a server would. Nothing else of the fuzzer
//! knows of it: it is found by its log, as a fault of the coordinator is. Neighbours: `target` starts it where it is asked to.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
};

/// The byte that does it; no client that behaves sends it in its first words.
const FATAL: u8 = 0xee;
/// How much is read at once.
const PIECE_BYTES: usize = 16 * 1024;

/// Stands before this address until it is killed, and prints where.
pub(crate) async fn stand_before(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listening")?;
    println!("{}", listener.local_addr()?);
    loop {
        let (client, _) = listener.accept().await.context("accepting")?;
        tokio::spawn(hand_on(client, address));
    }
}

async fn hand_on(mut client: TcpStream, address: SocketAddr) {
    let Ok(mut coordinator) = TcpStream::connect(address).await else { return };
    let ((mut asked, mut answer), (mut answered, mut ask)) = (client.split(), coordinator.split());
    let mut piece = vec![0; PIECE_BYTES];
    let asking = async {
        while let Ok(length) = asked.read(&mut piece).await {
            assert!(!piece[..length].contains(&FATAL), "the planted fault");
            if length == 0 || ask.write_all(&piece[..length]).await.is_err() {
                break;
            }
        }
        // Whoever waits for it sees the end of the connection.
        let _ = ask.shutdown().await;
    };
    let answering = copy(&mut answered, &mut answer);
    let _ends = tokio::join!(asking, answering);
}
