//! The streams that follow something on this coordinator. Each costs a task and a poll of the database, so there is a
//! bound on how many there are; and each has a reader, which may stop reading. What is read for one is read when it has
//! room, and what it does not take soon is dropped and read again later, so that a reader that stopped holds no page; one
//! that has taken nothing for long is told so and left. Neighbours: `record_stream`, `output_stream`.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tenure_core::{
    limits::{FOLLOWER_WITHIN, FOLLOWERS_MAX},
    reason::Reason,
    refusal::Refusal,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::{
    metrics::{Limit, metrics},
    refusals::{OVERLOAD_RETRY, write_refusal},
};

/// Messages that wait for a reader.
const QUEUE: usize = 2;
/// How long the rest of a page is kept for a reader that has no room.
const PAGE_KEPT: Duration = Duration::from_secs(1);

/// The places of followers. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Followers {
    places: Arc<Semaphore>,
}

impl Followers {
    /// All places are free.
    pub(crate) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(FOLLOWERS_MAX)) }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        FOLLOWERS_MAX.saturating_sub(self.places.available_permits())
    }

    /// A place, as long as it is kept.
    pub(crate) fn take_place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.places.clone().try_acquire_owned().map_err(|_| {
            metrics().note_limit(Limit::Followers);
            let words =
                format!("{FOLLOWERS_MAX} streams follow jobs on this coordinator, and no more are taken");
            Refusal::new(Reason::Overloaded, words).with_retry_after(OVERLOAD_RETRY)
        })
    }
}

/// What the wire takes.
pub(crate) type Stream<T> = ReceiverStream<Result<T, Status>>;

/// The way to whoever reads a stream.
pub(crate) struct Reader<T> {
    sender: mpsc::Sender<Result<T, Status>>,
    end: StreamEnd<T>,
}

/// The end of a stream: room for its reason, which is never waited for. It may be ended by whoever sends, or from outside;
/// the first reason stands.
pub(crate) struct StreamEnd<T> {
    room: Arc<Mutex<Option<Room<T>>>>,
}

/// Room for one message.
type Room<T> = mpsc::OwnedPermit<Result<T, Status>>;

impl<T> Clone for StreamEnd<T> {
    fn clone(&self) -> Self {
        Self { room: self.room.clone() }
    }
}

impl<T> StreamEnd<T> {
    /// The stream ends with a reason. A reader that left does not hear it.
    pub(crate) fn end_with(&self, refusal: &Refusal) {
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(room) = room {
            room.send(Err(write_refusal(refusal)));
        }
    }
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handed {
    /// The reader will have it.
    Over,
    /// The reader has no room; it is to be read again when it has.
    Dropped,
    /// The reader left.
    Left,
}

impl<T> Reader<T> {
    /// A reader, and what it reads.
    pub(crate) fn open() -> (Self, Stream<T>) {
        let (sender, receiver) = mpsc::channel(QUEUE + 1);
        // Nothing is in it yet, so there is room.
        let room = sender.clone().try_reserve_owned().ok();
        let end = StreamEnd { room: Arc::new(Mutex::new(room)) };
        (Self { sender, end }, ReceiverStream::new(receiver))
    }

    /// Waits until it has room. False where it left.
    pub(crate) async fn await_room(&self) -> Result<bool, Refusal> {
        match timeout(FOLLOWER_WITHIN, self.sender.reserve()).await {
            Ok(room) => Ok(room.is_ok()),
            Err(_) => {
                metrics().note_limit(Limit::Stalled);
                let words = format!("nothing was read from this stream for {} s", FOLLOWER_WITHIN.as_secs());
                Err(Refusal::new(Reason::Overloaded, words).with_retry_after(OVERLOAD_RETRY))
            }
        }
    }

    /// Hands a message over, if there is room soon.
    pub(crate) async fn hand(&self, message: T) -> Handed {
        match timeout(PAGE_KEPT, self.sender.reserve()).await {
            Ok(Ok(room)) => {
                room.send(Ok(message));
                Handed::Over
            }
            Ok(Err(_)) => Handed::Left,
            Err(_) => Handed::Dropped,
        }
    }

    /// Returns once it left.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// The stream ends with a reason. One that left does not hear it.
    pub(crate) fn end_with(self, refusal: &Refusal) {
        self.end.end_with(refusal);
    }

    /// Its end, for whoever may end it from outside once the sender is gone.
    pub(crate) fn end(&self) -> StreamEnd<T> {
        self.end.clone()
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stopped_is_told_why_its_stream_ended() {
        let (reader, mut stream) = Reader::open();
        while reader.hand(1).await == Handed::Over {}
        assert_eq!(reader.hand(2).await, Handed::Dropped);
        let refusal = reader.await_room().await.unwrap_err();
        assert_eq!(refusal.reason, Reason::Overloaded);
        reader.end_with(&refusal);
        let mut taken = 0;
        let end = loop {
            match stream.next().await {
                Some(Ok(_)) => taken += 1,
                Some(Err(status)) => break status,
                None => panic!("the stream ended without a reason"),
            }
        };
        assert_eq!((taken, end.code()), (QUEUE, tonic::Code::ResourceExhausted));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_goes_on_has_room_again_and_one_that_left_is_known() {
        let (reader, mut stream) = Reader::open();
        while reader.hand(1).await == Handed::Over {}
        stream.next().await.unwrap().unwrap();
        assert_eq!(reader.await_room().await, Ok(true));
        assert_eq!(reader.hand(2).await, Handed::Over);
        drop(stream);
        assert_eq!((reader.await_room().await, reader.hand(3).await), (Ok(false), Handed::Left));
    }
}
