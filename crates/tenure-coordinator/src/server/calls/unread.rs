//! The body of an answer, on its way to the peer. Each piece is counted from when the transport takes it until the last byte
//! of it is sent or given up, so that what a peer leaves unread is known, wherever it waits. Neighbours: `calls` refuses
//! further answers, `connections` closes what does not move.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::super::connections::Connection;

/// Pieces below it are not counted: a call may have one of them, and calls are bounded.
const COUNTED_FROM_BYTES: usize = 1_024;

/// What of the answers lies unread: of one connection, and of all.
#[derive(Debug, Clone)]
pub(super) struct Unread {
    connection: Arc<Connection>,
    all: Arc<AtomicUsize>,
}

impl Unread {
    pub(super) fn new(connection: Arc<Connection>, all: Arc<AtomicUsize>) -> Self {
        Self { connection, all }
    }

    pub(super) fn own_bytes(&self) -> usize {
        self.connection.unread_bytes()
    }

    pub(super) fn all_bytes(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// The same bytes, counted as long as anybody holds them.
    pub(super) fn hold(&self, bytes: Bytes) -> Bytes {
        if bytes.len() < COUNTED_FROM_BYTES {
            return bytes;
        }
        self.connection.add_unread(bytes.len());
        self.all.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Held { bytes, unread: self.clone() })
    }
}

/// A piece that is counted.
struct Held {
    bytes: Bytes,
    unread: Unread,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.unread.connection.take_unread(self.bytes.len());
        self.unread.all.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// The body of an answer.
pub(super) struct Answer<B> {
    body: Pin<Box<B>>,
    unread: Unread,
}

impl<B> Answer<B> {
    pub(super) fn new(body: B, unread: Unread) -> Self {
        Self { body: Box::pin(body), unread }
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(self.body.as_mut().poll_frame(cx));
        Poll::Ready(frame.map(|frame| Ok(frame?.map_data(|data| self.unread.hold(data)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_piece_is_unread_until_its_last_byte_is_dropped() {
        let unread = Unread::new(Arc::new(Connection::new()), Arc::default());
        let mut piece = unread.hold(vec![1; 10_000].into());
        assert_eq!((unread.own_bytes(), unread.all_bytes()), (10_000, 10_000));
        let sent = piece.split_to(9_000);
        drop(sent);
        assert_eq!(unread.all_bytes(), 10_000, "the end of it waits");
        drop(piece);
        assert_eq!((unread.own_bytes(), unread.all_bytes()), (0, 0));
    }
}
