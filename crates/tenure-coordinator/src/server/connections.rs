//! The connections of the port, each from its first byte on. HTTP/2 itself has no bound for how many there are, none for
//! one that never finishes its handshake or preface, and none for a peer that asks and does not read; those three are here.
//! A connection beyond the bound is closed at once, one on which no call is let in in time is closed, and so is one whose
//! answers lie unread while it takes none of them. One that bears calls without a caller, as a balancer's questions about
//! health, is kept while they come. What is alive, and merely silent, is kept: the keepalive of the server
//! tells it from what is dead. Neighbours: `calls` counts what each connection has under way, `server` sets the keepalive.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use rustix::process::{Resource, getrlimit};
use tenure_core::limits::{
    ACCEPT_PAUSE, CONNECTIONS_MAX, FILES_KEPT, FIRST_CALL_WITHIN, NEXT_CALL_WITHIN, UNREAD_STALLED_MAX_BYTES,
    UNREAD_WITHIN,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, Sleep, sleep_until},
};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::metrics::{Limit, metrics};

/// Both ends of a connection, by which a call finds its own.
type Ends = (SocketAddr, SocketAddr);

/// Every connection of one port. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    open: Mutex<HashMap<Ends, Arc<Connection>>>,
    /// True while connections are refused, so that the log says it once.
    full: AtomicBool,
}

/// The calls without a caller of one connection.
#[derive(Debug, Default)]
struct Visits {
    under_way: usize,
    last_ended: Option<Instant>,
}

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct Connection {
    opened: Instant,
    /// True once a caller was let in.
    called: AtomicBool,
    visits: Mutex<Visits>,
    /// Bytes of messages that have begun to arrive.
    pub(super) arriving_bytes: AtomicUsize,
    unread_bytes: AtomicUsize,
    /// When an answer was last taken, or the first one began to wait.
    moved: Mutex<Instant>,
}

impl Connections {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { shared: Arc::new(Shared { open: Mutex::default(), full: AtomicBool::new(false) }) }
    }

    /// The connection that a call came through; none where it has been closed meanwhile.
    pub(super) fn find(&self, ends: &TcpConnectInfo) -> Option<Arc<Connection>> {
        let ends = (ends.local_addr?, ends.remote_addr?);
        self.open().get(&ends).cloned()
    }

    /// What the listener accepts, as far as there is room.
    pub(super) fn accept(self, listener: TcpListener) -> impl Stream<Item = io::Result<GuardedStream>> {
        futures_util::stream::unfold((self, listener), |(connections, listener)| async move {
            let admitted = connections.accept_next(&listener).await;
            Some((Ok(admitted), (connections, listener)))
        })
    }

    async fn accept_next(&self, listener: &TcpListener) -> GuardedStream {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    if let Some(admitted) = self.admit(stream) {
                        return admitted;
                    }
                }
                // One that went away, or no file is left: trying again at once would only turn the processor.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// A connection, where there is room; otherwise it is closed.
    fn admit(&self, stream: TcpStream) -> Option<GuardedStream> {
        let ends = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        // Without it an answer waits for the peer to acknowledge the one before: 40 ms.
        stream.set_nodelay(true).ok()?;
        let mut open = self.open();
        let most = count_places();
        if open.len() >= most {
            metrics().note_limit(Limit::Connections);
            if !self.shared.full.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    limit = most,
                    "there are as many connections as are taken, and more are closed"
                );
            }
            return None;
        }
        let connection = Arc::new(Connection::new());
        open.insert(ends, connection.clone());
        drop(open);
        let look = Box::pin(sleep_until(connection.opened + FIRST_CALL_WITHIN));
        Some(GuardedStream { stream, look, place: Place { ends, connection, all: self.clone() } })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Ends, Arc<Connection>>> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many connections there may be: the bound, or what the files that the process may open leave room for.
fn count_places() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(FILES_KEPT).clamp(1, CONNECTIONS_MAX)
}

impl Connection {
    /// One that was just made.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            opened: now,
            called: AtomicBool::new(false),
            visits: Mutex::default(),
            arriving_bytes: AtomicUsize::new(0),
            unread_bytes: AtomicUsize::new(0),
            moved: Mutex::new(now),
        }
    }

    /// A caller was let in: it is kept for good.
    pub(super) fn note_caller(&self) {
        self.called.store(true, Ordering::Relaxed);
    }

    /// A call without a caller begins: it is kept until that is over, and for a while.
    pub(super) fn begin_visit(self: Arc<Self>) -> Visit {
        self.visits().under_way += 1;
        Visit(self)
    }

    fn visits(&self) -> MutexGuard<'_, Visits> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when it is kept where nothing happens; none: for good.
    fn kept_until(&self) -> Option<Instant> {
        let visits = self.visits();
        if self.called.load(Ordering::Relaxed) || visits.under_way > 0 {
            return None;
        }
        Some(visits.last_ended.map_or(self.opened + FIRST_CALL_WITHIN, |ended| ended + NEXT_CALL_WITHIN))
    }

    /// Bytes of answers that the peer has not taken.
    pub(super) fn unread_bytes(&self) -> usize {
        self.unread_bytes.load(Ordering::Relaxed)
    }

    /// A piece of an answer is on its way.
    pub(super) fn add_unread(&self, bytes: usize) {
        if self.unread_bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.note_moved();
        }
    }

    /// It was taken, or given up.
    pub(super) fn take_unread(&self, bytes: usize) {
        self.unread_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.note_moved();
    }

    fn note_moved(&self) {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// When to look again, or why there is nothing more to wait for.
    pub(super) fn judge(&self, now: Instant) -> Result<Instant, Limit> {
        let next_look = now + FIRST_CALL_WITHIN;
        if let Some(until) = self.kept_until() {
            return if now < until { Ok(until.min(next_look)) } else { Err(Limit::FirstCall) };
        }
        let moved = *self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        if self.unread_bytes() > UNREAD_STALLED_MAX_BYTES && now >= moved + UNREAD_WITHIN {
            return Err(Limit::Stalled);
        }
        Ok(next_look)
    }
}

/// A call without a caller, as long as it is kept.
#[derive(Debug)]
pub(super) struct Visit(Arc<Connection>);

impl Drop for Visit {
    fn drop(&mut self) {
        let mut visits = self.0.visits();
        visits.under_way -= 1;
        visits.last_ended = Some(Instant::now());
    }
}

/// A place among the connections, as long as it is kept.
#[derive(Debug)]
struct Place {
    ends: Ends,
    connection: Arc<Connection>,
    all: Connections,
}

impl Drop for Place {
    fn drop(&mut self) {
        // The same ends may be those of a later connection already.
        let mut open = self.all.open();
        if open.get(&self.ends).is_some_and(|present| Arc::ptr_eq(present, &self.connection)) {
            open.remove(&self.ends);
        }
        drop(open);
        self.all.shared.full.store(false, Ordering::Relaxed);
    }
}

/// A connection that ends by an error once there is nothing more to wait for. Whoever serves it reads it all the time, so
/// that is where it looks.
#[derive(Debug)]
pub(super) struct GuardedStream {
    stream: TcpStream,
    look: Pin<Box<Sleep>>,
    place: Place,
}

impl GuardedStream {
    fn poll_judgement(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            ready!(self.look.as_mut().poll(cx));
            match self.place.connection.judge(Instant::now()) {
                Ok(again) => self.look.as_mut().reset(again),
                Err(limit) => {
                    metrics().note_limit(limit);
                    let peer = self.place.ends.1;
                    tracing::info!(%peer, ?limit, "a connection that does not go on is closed");
                    return Poll::Ready(io::ErrorKind::TimedOut.into());
                }
            }
        }
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.poll_judgement(cx) {
            return Poll::Ready(Err(error));
        }
        pin!(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        pin!(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        pin!(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_shutdown(cx)
    }
}

impl Connected for GuardedStream {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_connection_without_a_call_is_kept_until_its_time_and_one_with_a_caller_for_good() {
        let connection = Connection::new();
        let before = connection.opened + FIRST_CALL_WITHIN - Duration::from_millis(1);
        assert_eq!(connection.judge(before).unwrap(), connection.opened + FIRST_CALL_WITHIN);
        assert!(connection.judge(connection.opened + FIRST_CALL_WITHIN).is_err());
        connection.note_caller();
        assert!(connection.judge(connection.opened + 1_000 * FIRST_CALL_WITHIN).is_ok());
    }

    #[tokio::test]
    async fn a_connection_with_calls_of_nobody_is_kept_while_they_come() {
        let connection = Arc::new(Connection::new());
        let long = connection.opened + 1_000 * NEXT_CALL_WITHIN;
        let (first, second) = (connection.clone().begin_visit(), connection.clone().begin_visit());
        assert!(connection.judge(long).is_ok());
        drop(first);
        assert!(connection.judge(long).is_ok(), "one is under way");
        drop(second);
        let ended = connection.visits().last_ended.unwrap();
        assert!(connection.judge(ended + NEXT_CALL_WITHIN - Duration::from_millis(1)).is_ok());
        assert!(connection.judge(ended + NEXT_CALL_WITHIN).is_err());
        connection.note_caller();
        assert!(connection.judge(long).is_ok());
    }

    #[tokio::test]
    async fn the_end_of_a_connection_leaves_a_later_one_with_the_same_ends() {
        let all = Connections::new();
        let ends = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        let open = || {
            let connection = Arc::new(Connection::new());
            all.open().insert(ends, connection.clone());
            Place { ends, connection, all: all.clone() }
        };
        let (earlier, later) = (open(), open());
        drop(earlier);
        assert!(Arc::ptr_eq(&all.open()[&ends], &later.connection));
        drop(later);
        assert!(all.open().is_empty());
    }

    #[tokio::test]
    async fn answers_that_lie_unread_end_a_connection_unless_some_are_taken() {
        let connection = Connection::new();
        connection.note_caller();
        connection.add_unread(UNREAD_STALLED_MAX_BYTES);
        let late = Instant::now() + UNREAD_WITHIN;
        assert!(connection.judge(late).is_ok(), "so much may lie there for as long as it likes");
        connection.add_unread(10);
        assert!(connection.judge(late).is_err());
        assert!(connection.judge(Instant::now()).is_ok());
        *connection.moved.lock().unwrap() = late;
        assert!(connection.judge(late + UNREAD_WITHIN / 2).is_ok(), "one was taken meanwhile");
    }
}
