//! What a worker is sent: the messages in order, and at the end of the stream its reason. Neighbours: `attachments` puts
//! messages in, the server sends them.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tenure_proto::v1::AttachResponse;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::Status;

use crate::attachments::Attached;

/// The stream to one worker.
pub(crate) struct AttachStream {
    messages: mpsc::Receiver<AttachResponse>,
    attached: Arc<Attached>,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    over: bool,
}

impl AttachStream {
    /// The stream of these messages.
    pub(crate) fn new(attached: Arc<Attached>, messages: mpsc::Receiver<AttachResponse>) -> Self {
        let closing = Box::pin(attached.closing().clone().cancelled_owned());
        Self { messages, attached, closing, over: false }
    }
}

impl Stream for AttachStream {
    type Item = Result<AttachResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        // What is durable is said before the end is.
        if let Poll::Ready(Some(message)) = self.messages.poll_recv(context) {
            return Poll::Ready(Some(Ok(message)));
        }
        if self.closing.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.over = true;
        Poll::Ready(super::end_status(&self.attached).map(Err))
    }
}

impl Drop for AttachStream {
    /// The worker's side is gone: its reader ends too.
    fn drop(&mut self) {
        self.attached.closing().cancel();
    }
}
