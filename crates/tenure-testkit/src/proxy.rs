//! A TCP proxy between two parts of a fleet, whose treatment of the connections can be changed while they live: pass, delay each
//! way, lose what goes one way, stall both ways, refuse; and, as acts of a moment, reset every connection and change the
//! target.
//!
//! It knows bytes alone, so it cannot duplicate or reorder a message: a message is doubled by losing its answer and
//! resetting the connection, so that its sender sends it again. A connection that lost bytes is not a stream any more: it is
//! reset when the loss ends, as a peer would after its time-outs. Promises that every change holds for the connections that
//! are there and for those that come. Does not keep a closed port closed: refusing means accepting and resetting at once.
//!
//! Neighbours: `flow` moves the bytes of one connection one way; `cluster` puts proxies between its parts.

mod flow;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use flow::{Broken, Flow};

/// How a proxy treats its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Treatment {
    /// Everything passes.
    #[default]
    Pass,
    /// Everything passes, so much later each way. What is on its way when the treatment changes still comes as late.
    Delay {
        /// From the client to the server.
        to_server: Duration,
        /// From the server to the client.
        to_client: Duration,
    },
    /// What the client sends is lost; answers pass.
    LoseRequests,
    /// What the client sends arrives; answers are lost.
    LoseAnswers,
    /// Connections stay open and nothing is read from either side: half-open, until the buffers are full.
    Stall,
    /// The connections that are there are reset, and new ones too.
    Refuse,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// What a proxy has done with bytes so far.
#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    passed_to_server_bytes: AtomicU64,
    passed_to_client_bytes: AtomicU64,
    lost_to_server_bytes: AtomicU64,
    lost_to_client_bytes: AtomicU64,
}

/// What every connection follows.
#[derive(Debug, Clone, Copy)]
struct Orders {
    treatment: Treatment,
    target: SocketAddr,
    /// Raised when every connection of an earlier number is to be reset.
    era: u64,
}

/// A proxy that serves as long as this value lives. Its connections end with it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    orders: watch::Sender<Orders>,
    counts: Arc<Counts>,
    serving: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a loopback port of the system's choice, and connects to `target`.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), target).await
    }

    /// The same on an address of the caller's choice, as the end of a link into another network namespace.
    ///
    /// # Errors
    /// It cannot be listened on.
    pub async fn start_on(listen: SocketAddr, target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("listening on {listen} for a proxy to {target}"))?;
        let address = listener.local_addr()?;
        let (orders, follow) = watch::channel(Orders { treatment: Treatment::Pass, target, era: 0 });
        let counts = Arc::new(Counts::default());
        let serving = tokio::spawn(serve(listener, follow, Arc::clone(&counts)));
        Ok(Self { address, orders, counts, serving })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as an endpoint of the fleet.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Treats its connections so from now on.
    pub fn treat(&self, treatment: Treatment) {
        self.orders.send_modify(|orders| {
            orders.treatment = treatment;
            // Counted, so that a refusal which is over before a connection looks resets it all the same.
            orders.era += u64::from(treatment == Treatment::Refuse);
        });
    }

    /// Resets the connections that are there. New ones are welcome.
    pub fn cut(&self) {
        self.orders.send_modify(|orders| orders.era += 1);
    }

    /// Connects to another target from now on; the connections that are there stay.
    pub fn redirect(&self, target: SocketAddr) {
        self.orders.send_modify(|orders| orders.target = target);
    }

    /// Connections accepted so far, those among them that were refused included.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.counts.accepted.load(Ordering::Relaxed)
    }

    /// Bytes passed on so far.
    #[must_use]
    pub fn passed_bytes(&self, way: Way) -> u64 {
        match way {
            Way::ToServer => self.counts.passed_to_server_bytes.load(Ordering::Relaxed),
            Way::ToClient => self.counts.passed_to_client_bytes.load(Ordering::Relaxed),
        }
    }

    /// Bytes lost so far, by [`Treatment::LoseRequests`] and [`Treatment::LoseAnswers`].
    #[must_use]
    pub fn lost_bytes(&self, way: Way) -> u64 {
        match way {
            Way::ToServer => self.counts.lost_to_server_bytes.load(Ordering::Relaxed),
            Way::ToClient => self.counts.lost_to_client_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Counts {
    fn count(&self, way: Way, passed: bool, bytes: usize) {
        let counter = match (way, passed) {
            (Way::ToServer, true) => &self.passed_to_server_bytes,
            (Way::ToClient, true) => &self.passed_to_client_bytes,
            (Way::ToServer, false) => &self.lost_to_server_bytes,
            (Way::ToClient, false) => &self.lost_to_client_bytes,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

async fn serve(listener: TcpListener, follow: watch::Receiver<Orders>, counts: Arc<Counts>) {
    // The connections end with the set, and the set with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                counts.accepted.fetch_add(1, Ordering::Relaxed);
                connections.spawn(carry(client, follow.clone(), Arc::clone(&counts)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection, from its acceptance to its end.
async fn carry(mut client: TcpStream, follow: watch::Receiver<Orders>, counts: Arc<Counts>) {
    let orders = *follow.borrow();
    if orders.treatment == Treatment::Refuse {
        return reset(&client);
    }
    let Ok(mut server) = TcpStream::connect(orders.target).await else { return reset(&client) };
    // Small messages are not held back; a socket that refuses this works all the same.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let flowed = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let flow = |from, to, way| Flow { from, to, way, follow: follow.clone(), counts: &counts };
        let there = flow(from_client, to_server, Way::ToServer).run();
        let back = flow(from_server, to_client, Way::ToClient).run();
        let mut cut = follow.clone();
        tokio::select! {
            flowed = async { tokio::try_join!(there, back) } => flowed.map(|_| ()),
            _ = cut.wait_for(|now| now.era != orders.era) => Err(Broken),
        }
    };
    if flowed.is_err() {
        reset(&client);
        reset(&server);
    }
}

/// Makes the end of a connection a reset instead of an orderly end.
fn reset(stream: &TcpStream) {
    // Where it cannot be set, the peer sees an orderly end, which is one too.
    let _ = stream.set_zero_linger();
}

#[cfg(test)]
mod tests;
