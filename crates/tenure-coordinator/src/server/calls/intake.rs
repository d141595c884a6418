//! The body of a request, on its way to the service that decodes it. It knows where a message begins and ends, and nothing
//! of what it says: a message that is too long is refused by the length it announces, one that is not whole in time is
//! given up, and the bytes of those that are not whole are counted for the connection and for the coordinator. A small one
//! is never refused for want of room. Neighbours: `calls`, and tonic, which decodes.

use std::{
    future::Future as _,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tenure_core::{
    limits::{ARRIVING_MAX_BYTES, ARRIVING_PER_CONNECTION_MAX_BYTES, ARRIVING_SMALL_BYTES, MESSAGE_WITHIN},
    reason::Reason,
    refusal::Refusal,
};
use tokio::time::{Instant, Sleep, sleep};
use tonic::{Status, body::Body};

use super::super::connections::Connection;
use crate::{
    metrics::{Limit, metrics},
    refusals::{OVERLOAD_RETRY, write_refusal},
};

/// What a length-prefixed message begins with: a flag, and four bytes of length.
const HEAD_BYTES: usize = 5;

/// What a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One message, and the end: all of it within the time.
    OneMessage,
    /// Any number of messages; the first, and each from its first byte on, within the time.
    Messages,
}

/// The body of a request within bounds.
pub(super) struct Intake {
    body: Body,
    shape: Shape,
    cut: Cut,
    share: Share,
    /// Runs while something is waited for; none between two messages of a stream.
    until: Option<Pin<Box<Sleep>>>,
}

impl Intake {
    /// Nothing has come yet; no message may be longer than this.
    pub(super) fn new(
        body: Body,
        shape: Shape,
        message_max_bytes: usize,
        connection: Arc<Connection>,
        all: Arc<AtomicUsize>,
    ) -> Self {
        let share = Share { held: 0, connection, all };
        let cut = Cut::new(message_max_bytes);
        Self { body, shape, cut, share, until: Some(Box::pin(sleep(MESSAGE_WITHIN))) }
    }

    fn take(&mut self, data: &Bytes) -> Result<(), Refusal> {
        let was_between = self.cut.is_between();
        let whole = self.cut.pass(data)?;
        if whole > 0 {
            self.share.release();
        }
        self.share.grow_to(self.cut.begun_bytes)?;
        if self.shape == Shape::Messages {
            if self.cut.is_between() {
                self.until = None;
            } else if was_between || whole > 0 {
                self.restart();
            }
        }
        Ok(())
    }

    fn restart(&mut self) {
        match &mut self.until {
            Some(until) => until.as_mut().reset(Instant::now() + MESSAGE_WITHIN),
            None => self.until = Some(Box::pin(sleep(MESSAGE_WITHIN))),
        }
    }
}

impl http_body::Body for Intake {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(frame)) => {
                let frame = frame?;
                let taken = frame.data_ref().map_or(Ok(()), |data| self.take(data));
                Poll::Ready(Some(taken.map(|()| frame).map_err(|refusal| write_refusal(&refusal))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let Some(until) = &mut self.until else { return Poll::Pending };
                ready!(until.as_mut().poll(cx));
                Poll::Ready(Some(Err(write_refusal(&refuse_slow()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn refuse_slow() -> Refusal {
    metrics().note_limit(Limit::Message);
    let words = format!("a message was not whole within {} s", MESSAGE_WITHIN.as_secs());
    Refusal::new(Reason::RequestTooSlow, words).with_retry_after(OVERLOAD_RETRY)
}

/// Where messages begin and end.
#[derive(Debug)]
struct Cut {
    message_max_bytes: usize,
    head: Vec<u8>,
    /// What is still to come of the message whose head is whole.
    rest_bytes: usize,
    /// What has come of a message that is not whole.
    begun_bytes: usize,
}

impl Cut {
    fn new(message_max_bytes: usize) -> Self {
        Self { message_max_bytes, head: Vec::new(), rest_bytes: 0, begun_bytes: 0 }
    }

    fn is_between(&self) -> bool {
        self.begun_bytes == 0
    }

    /// Passes data by. How many messages became whole in it.
    fn pass(&mut self, mut data: &[u8]) -> Result<usize, Refusal> {
        let mut whole = 0;
        while !data.is_empty() {
            let wanted = if self.rest_bytes > 0 { self.rest_bytes } else { HEAD_BYTES - self.head.len() };
            let (now, later) = data.split_at(wanted.min(data.len()));
            self.begun_bytes += now.len();
            data = later;
            if self.rest_bytes > 0 {
                self.rest_bytes -= now.len();
            } else {
                self.head.extend_from_slice(now);
                let [_flag, a, b, c, d] = self.head[..] else { continue };
                self.rest_bytes = read_length([a, b, c, d], self.message_max_bytes)?;
            }
            if self.rest_bytes == 0 {
                self.head.clear();
                self.begun_bytes = 0;
                whole += 1;
            }
        }
        Ok(whole)
    }
}

fn read_length(bytes: [u8; 4], max_bytes: usize) -> Result<usize, Refusal> {
    let length = usize::try_from(u32::from_be_bytes(bytes)).unwrap_or(usize::MAX);
    if length > max_bytes {
        metrics().note_limit(Limit::Message);
        let words = format!("a message of {length} bytes was announced, and at most {max_bytes} are taken");
        let refusal = Refusal::new(Reason::MessageTooLarge, words);
        return Err(refusal.with_detail("bytes", length).with_detail("limit_bytes", max_bytes));
    }
    Ok(length)
}

/// What a message that is not whole holds of the memory, beyond what every one may.
#[derive(Debug)]
struct Share {
    held: usize,
    connection: Arc<Connection>,
    all: Arc<AtomicUsize>,
}

impl Share {
    fn grow_to(&mut self, begun_bytes: usize) -> Result<(), Refusal> {
        let more = begun_bytes.saturating_sub(ARRIVING_SMALL_BYTES).saturating_sub(self.held);
        if more == 0 {
            return Ok(());
        }
        self.held += more;
        let own = self.connection.arriving_bytes.fetch_add(more, Ordering::Relaxed) + more;
        let all = self.all.fetch_add(more, Ordering::Relaxed) + more;
        if own > ARRIVING_PER_CONNECTION_MAX_BYTES || all > ARRIVING_MAX_BYTES {
            metrics().note_limit(Limit::Arriving);
            let words = "more has arrived of messages that are not whole than is taken at once";
            return Err(Refusal::new(Reason::Overloaded, words).with_retry_after(OVERLOAD_RETRY));
        }
        Ok(())
    }

    fn release(&mut self) {
        self.connection.arriving_bytes.fetch_sub(self.held, Ordering::Relaxed);
        self.all.fetch_sub(self.held, Ordering::Relaxed);
        self.held = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests;
