//! The bytes of one connection, one way. What was read stands in a queue with the instant at which it is due, so that a
//! delay holds each byte back equally long and does not slow the stream down.
//!
//! Neighbours: `proxy` starts two for each connection, gives the orders, and ends both where the connection is cut.

use std::{io, time::Duration};

use tokio::{
    io::AsyncWriteExt as _,
    net::tcp::{ReadHalf, WriteHalf},
    sync::{mpsc, watch},
    time::Instant,
};

use super::{Counts, Orders, Treatment, Way};

/// How much is read at once, in bytes.
const READ_BYTES: usize = 16 * 1024;

/// How many reads may be on their way. Past that the sender waits, as on a long line whose window is full.
const QUEUE_READS: usize = 4096;

/// Why a connection is reset.
#[derive(Debug)]
pub(super) struct Broken;

/// One way through one connection.
pub(super) struct Flow<'a> {
    pub(super) from: ReadHalf<'a>,
    pub(super) to: WriteHalf<'a>,
    pub(super) way: Way,
    pub(super) follow: watch::Receiver<Orders>,
    pub(super) counts: &'a Counts,
}

struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

/// What a flow does under a treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duty {
    Pass(Duration),
    Lose,
    Wait,
}

impl Flow<'_> {
    /// Runs until the sender ends its side, which is passed on, or until the stream cannot go on.
    pub(super) async fn run(self) -> Result<(), Broken> {
        let (queue, due) = mpsc::channel(QUEUE_READS);
        tokio::try_join!(
            read(self.from, queue, self.follow, self.way, self.counts),
            write(self.to, due, self.way, self.counts)
        )?;
        Ok(())
    }
}

async fn read(
    from: ReadHalf<'_>,
    queue: mpsc::Sender<Chunk>,
    mut follow: watch::Receiver<Orders>,
    way: Way,
    counts: &Counts,
) -> Result<(), Broken> {
    let mut holed = false;
    loop {
        let duty = find_duty(follow.borrow_and_update().treatment, way);
        if duty != Duty::Lose && holed {
            // A stream with a hole in it cannot go on.
            return Err(Broken);
        }
        let bytes = tokio::select! {
            bytes = read_some(&from), if duty != Duty::Wait => bytes.map_err(|_| Broken)?,
            changed = follow.changed() => {
                changed.map_err(|_| Broken)?;
                continue;
            }
        };
        let ended = bytes.is_empty();
        if let Duty::Pass(delay) = duty {
            let chunk = Chunk { due: Instant::now() + delay, bytes };
            queue.send(chunk).await.map_err(|_| Broken)?;
            if ended {
                return Ok(());
            }
        } else {
            counts.count(way, false, bytes.len());
            holed = true;
            if ended {
                // The end is lost too: the other side learns of it when the loss ends.
                follow.changed().await.map_err(|_| Broken)?;
            }
        }
    }
}

fn find_duty(treatment: Treatment, way: Way) -> Duty {
    match (treatment, way) {
        (Treatment::Stall, _) => Duty::Wait,
        (Treatment::LoseRequests, Way::ToServer) | (Treatment::LoseAnswers, Way::ToClient) => Duty::Lose,
        (Treatment::Delay { to_server, .. }, Way::ToServer) => Duty::Pass(to_server),
        (Treatment::Delay { to_client, .. }, Way::ToClient) => Duty::Pass(to_client),
        (
            Treatment::Pass | Treatment::Refuse | Treatment::LoseRequests | Treatment::LoseAnswers,
            Way::ToServer | Way::ToClient,
        ) => Duty::Pass(Duration::ZERO),
    }
}

/// The next bytes; none at the end.
async fn read_some(from: &ReadHalf<'_>) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        from.readable().await?;
        match from.try_read(&mut buffer) {
            Ok(bytes) => {
                buffer.truncate(bytes);
                return Ok(buffer);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn write(
    mut to: WriteHalf<'_>,
    mut queue: mpsc::Receiver<Chunk>,
    way: Way,
    counts: &Counts,
) -> Result<(), Broken> {
    while let Some(chunk) = queue.recv().await {
        tokio::time::sleep_until(chunk.due).await;
        if chunk.bytes.is_empty() {
            to.shutdown().await.map_err(|_| Broken)?;
        }
        to.write_all(&chunk.bytes).await.map_err(|_| Broken)?;
        counts.count(way, true, chunk.bytes.len());
    }
    Ok(())
}
