//! Peers of a coordinator that do not behave: one that throws bytes at the port, and one that speaks HTTP/2 and none of the
//! manners of gRPC. Neither decides what is right; they do, and say what came back.
//!
//! Neighbours: whoever tests or fuzzes what a port refuses.

use std::{io, net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::{
    RecvStream, SendStream,
    client::{ResponseFuture, SendRequest},
};
use http::{HeaderMap, Request, header::CONTENT_TYPE};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// How every HTTP/2 connection begins.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Sends these bytes, says that no more will come, and returns what came back until the other end closed. None where it did
/// not close within the time.
///
/// # Errors
/// There is no connection.
pub async fn throw_bytes(to: SocketAddr, bytes: &[u8], within: Duration) -> io::Result<Option<Vec<u8>>> {
    let mut stream = TcpStream::connect(to).await?;
    // It may close before it has read everything; then the rest is not wanted.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    Ok(read_to_close(&mut stream, within).await)
}

/// What comes back until the other end closes; none where it does not within the time.
pub async fn read_to_close(stream: &mut TcpStream, within: Duration) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    // A reset is a close.
    timeout(within, stream.read_to_end(&mut answer)).await.ok().map(|_| answer)
}

/// A message with the head that gRPC puts before it.
#[must_use]
pub fn frame_message(message: &[u8]) -> Bytes {
    announce_message(message, message.len())
}

/// The same with another length than it has.
#[must_use]
pub fn announce_message(message: &[u8], length: usize) -> Bytes {
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// A connection that speaks HTTP/2.
pub struct Peer {
    requests: SendRequest<Bytes>,
    address: SocketAddr,
}

/// A call that has begun.
pub struct Call {
    /// What is sent.
    pub sending: SendStream<Bytes>,
    answer: ResponseFuture,
}

/// What a call was answered with.
#[derive(Debug, Clone, Default)]
pub struct Answered {
    /// The status of HTTP.
    pub http: u16,
    /// Headers, and trailers where any came.
    pub headers: HeaderMap,
    /// How much came between the two.
    pub body_bytes: usize,
}

impl Answered {
    /// The code of gRPC, where there is one.
    #[must_use]
    pub fn grpc_code(&self) -> Option<i32> {
        self.headers.get("grpc-status")?.to_str().ok()?.parse().ok()
    }

    /// The bytes of the details of the status, as they are on the wire.
    #[must_use]
    pub fn details(&self) -> Option<&[u8]> {
        self.headers.get("grpc-status-details-bin").map(http::HeaderValue::as_bytes)
    }
}

impl Peer {
    /// Connects. What the other end may send ahead on one stream, and on all, is this many bytes.
    ///
    /// # Errors
    /// There is no connection, or it does not speak HTTP/2.
    pub async fn connect(address: SocketAddr, window_bytes: u32) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("connecting")?;
        let (requests, connection) = h2::client::Builder::new()
            .initial_window_size(window_bytes)
            .initial_connection_window_size(window_bytes.max(65_535))
            .max_send_buffer_size(16 << 20)
            .handshake::<_, Bytes>(stream)
            .await
            .context("shaking hands")?;
        // It ends with the last of its streams; what it ended with is seen by them.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { requests, address })
    }

    /// Begins a call with this metadata beside what gRPC wants.
    ///
    /// # Errors
    /// The connection takes no more streams, or is closed.
    pub async fn begin(&mut self, path: &str, metadata: &[(&str, &str)]) -> Result<Call> {
        let mut request = Request::post(format!("http://{}{path}", self.address))
            .header(CONTENT_TYPE, "application/grpc")
            .header("te", "trailers");
        for (name, value) in metadata {
            request = request.header(*name, *value);
        }
        let mut requests = self.requests.clone().ready().await.context("waiting for a stream")?;
        let (answer, sending) = requests.send_request(request.body(())?, false).context("asking")?;
        Ok(Call { sending, answer })
    }

    /// A whole call: one message, and its answer.
    ///
    /// # Errors
    /// The connection or the stream ended before there was an answer.
    pub async fn call(&mut self, path: &str, body: Bytes) -> Result<Answered> {
        let mut call = self.begin(path, &[]).await?;
        // An answer may come before everything is sent; then the rest is not wanted.
        let _ = call.sending.send_data(body, true);
        call.answer().await
    }

    /// How many streams the other end allows at once.
    #[must_use]
    pub fn allowed_streams(&self) -> usize {
        self.requests.current_max_send_streams()
    }
}

impl Call {
    /// The answer, read to its end.
    ///
    /// # Errors
    /// The connection or the stream ended before there was one.
    pub async fn answer(self) -> Result<Answered> {
        let (response, _sending) = (self.answer.await.context("waiting for the answer")?, self.sending);
        let (head, mut body) = response.into_parts();
        let mut answered = Answered { http: head.status.as_u16(), headers: head.headers, body_bytes: 0 };
        while let Some(data) = body.data().await {
            let data = data.context("reading the answer")?;
            answered.body_bytes += data.len();
            body.flow_control().release_capacity(data.len()).context("reading on")?;
        }
        if let Some(trailers) = body.trailers().await.context("reading the end of the answer")? {
            answered.headers.extend(trailers);
        }
        Ok(answered)
    }

    /// The head of the answer, and its body, which nobody reads.
    ///
    /// # Errors
    /// The connection or the stream ended before there was one.
    pub async fn leave_unread(self) -> Result<(HeaderMap, RecvStream)> {
        let response = self.answer.await.context("waiting for the answer")?;
        let (head, body) = response.into_parts();
        Ok((head.headers, body))
    }
}
