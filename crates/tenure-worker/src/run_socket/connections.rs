//! The connections to the socket of one run, so many at the same time and no more: a child that opens them without end
//! waits for itself and takes nothing from the other runs of its worker. It reads nothing of what is said.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_stream::{Stream, StreamExt as _, wrappers::UnixListenerStream};
use tonic::transport::server::{Connected, UdsConnectInfo};

/// A connection, and its place among those that are allowed.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    _place: OwnedSemaphorePermit,
}

/// The connections of a listener, each once there is a place for it.
pub(super) fn accept_connections(
    listener: UnixListener,
    places: usize,
) -> impl Stream<Item = io::Result<Connection>> {
    let places = Arc::new(Semaphore::new(places));
    UnixListenerStream::new(listener).then(move |accepted| {
        let places = Arc::clone(&places);
        async move {
            let place = places.acquire_owned().await.map_err(io::Error::other)?;
            Ok(Connection { stream: accepted?, _place: place })
        }
    })
}

impl Connected for Connection {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_waits_for_the_place_of_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let connections = accept_connections(UnixListener::bind(&path).unwrap(), 1);
        tokio::pin!(connections);
        let _clients = [UnixStream::connect(&path).await.unwrap(), UnixStream::connect(&path).await.unwrap()];
        let first = connections.next().await.unwrap().unwrap();
        let at_once =
            std::future::poll_fn(|context| Poll::Ready(connections.as_mut().poll_next(context))).await;
        assert!(at_once.is_pending(), "there is one place");
        drop(first);
        connections.next().await.unwrap().unwrap();
    }
}
