//! Every call before its service sees it, and its answer after: how much of its messages has arrived without being whole,
//! for how long that may last, how much of the answers lies unread, and, behind the gate, how many are under way. HTTP/2 bounds frames,
//! headers, windows and the streams of one connection; a message may fill many frames, so what it costs until it is whole
//! is bounded here. What is refused here is refused as everywhere: a status with a stable reason. Neighbours: `connections`
//! knows each connection, `intake` is a call's way in, `unread` its answer's way out, `places` counts what was let in.

mod intake;
pub(super) mod places;
mod unread;

use std::{
    collections::HashSet,
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::AtomicUsize},
    task::{Context, Poll},
};

use http::{HeaderMap, Request, Response};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tenure_core::{
    limits::{
        MESSAGE_MAX_BYTES, MESSAGE_WITHOUT_CALLER_MAX_BYTES, UNREAD_MAX_BYTES,
        UNREAD_PER_CONNECTION_MAX_BYTES,
    },
    reason::Reason,
    refusal::Refusal,
};
use tenure_proto::access::access_of;
use tonic::{Code, Status, body::Body, transport::server::TcpConnectInfo};
use tower::{Layer, Service};

use self::{
    intake::{Intake, Shape},
    unread::{Answer, Unread},
};
use super::connections::Connections;
use crate::{
    metrics::{Limit, metrics},
    refusals::{OVERLOAD_RETRY, write_refusal},
};

/// What all calls of one port share.
#[derive(Debug)]
struct Shared {
    connections: Connections,
    /// Paths of the calls whose client may send any number of messages.
    streams: HashSet<String>,
    arriving_bytes: Arc<AtomicUsize>,
    unread_bytes: Arc<AtomicUsize>,
}

/// Puts the bounds around the services.
#[derive(Debug, Clone)]
pub(super) struct BoundCalls {
    shared: Arc<Shared>,
}

impl BoundCalls {
    /// Bounds for the calls that come through these connections. The descriptors are those of everything that is served.
    pub(super) fn new(connections: Connections, descriptors: &[&[u8]]) -> Self {
        let streams = descriptors.iter().flat_map(|set| find_streams(set)).collect();
        let shared =
            Shared { connections, streams, arriving_bytes: Arc::default(), unread_bytes: Arc::default() };
        Self { shared: Arc::new(shared) }
    }
}

/// The paths of the calls whose client streams.
fn find_streams(descriptors: &[u8]) -> Vec<String> {
    let files = FileDescriptorSet::decode(descriptors).unwrap_or_default().file;
    let mut paths = Vec::new();
    for file in files {
        for service in &file.service {
            let streaming = service.method.iter().filter(|method| method.client_streaming());
            paths.extend(
                streaming.map(|method| format!("/{}.{}/{}", file.package(), service.name(), method.name())),
            );
        }
    }
    paths
}

impl<S> Layer<S> for BoundCalls {
    type Service = BoundService<S>;

    fn layer(&self, inner: S) -> BoundService<S> {
        BoundService { inner, shared: self.shared.clone() }
    }
}

/// A service within bounds.
#[derive(Debug, Clone)]
pub(super) struct BoundService<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S, B> Service<Request<Body>> for BoundService<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let ends = request.extensions().get::<TcpConnectInfo>();
        let Some(connection) = ends.and_then(|ends| self.shared.connections.find(ends)) else {
            // It is gone, and nobody hears the answer.
            return answer_at_once(&overloaded("this connection is closed"));
        };
        request.extensions_mut().insert(connection.clone());
        let shape = match self.shared.streams.contains(request.uri().path()) {
            true => Shape::Messages,
            false => Shape::OneMessage,
        };
        let max_bytes = longest_message(request.uri().path());
        let arriving = self.shared.arriving_bytes.clone();
        let inside = connection.clone();
        let request = request.map(|body| Body::new(Intake::new(body, shape, max_bytes, inside, arriving)));
        let unread = Unread::new(connection, self.shared.unread_bytes.clone());
        let answered = self.inner.call(request);
        Box::pin(async move {
            let response = answered.await?;
            match refuse_unreadable(response.headers()).or_else(|| refuse_unread(&unread)) {
                Some(refusal) => Ok(write_refusal(&refusal).into_http()),
                None => Ok(response.map(|body| Body::new(Answer::new(body, unread)))),
            }
        })
    }
}

/// Whoever calls without a caller has little to say.
fn longest_message(path: &str) -> usize {
    match access_of(path) {
        Some(access) if access.needs_caller() => MESSAGE_MAX_BYTES,
        Some(_) | None => MESSAGE_WITHOUT_CALLER_MAX_BYTES,
    }
}

/// What the library could not read, and refused before a service saw it: it has no reason of ours yet. A service never
/// refuses without one.
fn refuse_unreadable(headers: &HeaderMap) -> Option<Refusal> {
    let status = Status::from_header_map(headers)?;
    let unreadable = status.code() == Code::Internal && status.details().is_empty();
    unreadable.then(|| {
        let words = format!("the request cannot be read: {}", status.message());
        Refusal::new(Reason::InvalidArgument, words)
    })
}

/// Why an answer is not even begun: whoever asks does not read.
fn refuse_unread(unread: &Unread) -> Option<Refusal> {
    let (own, all) = (unread.own_bytes(), unread.all_bytes());
    // One that reads what it is sent is served whatever others leave lying about.
    let fair = own <= UNREAD_PER_CONNECTION_MAX_BYTES / 8 || all <= UNREAD_MAX_BYTES;
    if own <= UNREAD_PER_CONNECTION_MAX_BYTES && fair {
        return None;
    }
    metrics().note_limit(Limit::Unread);
    let words = format!("{own} bytes of earlier answers lie unread on this connection, and no more are made");
    Some(overloaded(&words).with_detail("limit_bytes", UNREAD_PER_CONNECTION_MAX_BYTES))
}

fn overloaded(words: &str) -> Refusal {
    Refusal::new(Reason::Overloaded, words).with_retry_after(OVERLOAD_RETRY)
}

fn answer_at_once<E: Send + 'static>(
    refusal: &Refusal,
) -> Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>> {
    let response = write_refusal(refusal).into_http();
    Box::pin(std::future::ready(Ok(response)))
}

#[cfg(test)]
mod tests {
    use tenure_proto::FILE_DESCRIPTOR_SET;

    use super::{super::connections::Connection, *};

    #[test]
    fn calls_whose_client_streams_are_found_in_the_descriptors() {
        let streams = find_streams(FILE_DESCRIPTOR_SET);
        assert!(streams.contains(&"/tenure.v1.WorkerService/Attach".to_owned()), "{streams:?}");
        assert!(!streams.contains(&"/tenure.v1.JobService/WatchJob".to_owned()), "only the server streams");
    }

    #[test]
    fn a_call_without_a_caller_may_say_little() {
        let bytes = ["WorkerService/ReportGone", "WorkerService/Nothing", "WorkerService/Attach"]
            .map(|method| longest_message(&format!("/tenure.v1.{method}")));
        let little = MESSAGE_WITHOUT_CALLER_MAX_BYTES;
        assert_eq!(bytes, [little, little, MESSAGE_MAX_BYTES]);
        assert_eq!(longest_message("/grpc.health.v1.Health/Check"), little);
    }

    #[test]
    fn what_the_library_cannot_read_gets_a_reason_and_what_has_one_keeps_it() {
        let headers = |status: Status| status.into_http::<()>().into_parts().0.headers;
        let unreadable = headers(Status::internal("failed to decode a message"));
        assert_eq!(
            refuse_unreadable(&unreadable).map(|refusal| refusal.reason),
            Some(Reason::InvalidArgument)
        );
        let defect = write_refusal(&Refusal::new(Reason::Internal, "a defect"));
        assert_eq!(refuse_unreadable(&headers(defect)), None);
        assert_eq!(refuse_unreadable(&headers(Status::unimplemented("later"))), None);
        assert_eq!(refuse_unreadable(&HeaderMap::new()), None);
    }

    #[tokio::test]
    async fn whoever_does_not_read_gets_no_further_answer_and_others_do() {
        let all = Arc::new(AtomicUsize::new(0));
        let (idle, other) = (Arc::new(Connection::new()), Arc::new(Connection::new()));
        let (unread, reads) = (Unread::new(idle, all.clone()), Unread::new(other, all));
        let held = unread.hold(vec![0; UNREAD_PER_CONNECTION_MAX_BYTES + 1].into());
        assert_eq!(refuse_unread(&unread).map(|refusal| refusal.reason), Some(Reason::Overloaded));
        assert_eq!(refuse_unread(&reads), None);
        drop(held);
        assert_eq!(refuse_unread(&unread), None);
    }
}
