//! The place of a call among those that are under way, taken once the gate has let it in: what is refused there costs
//! none. Calls that need no caller have a share of their own, and those of them that have no end another, so that nobody
//! without a credential takes a place from whoever has one. Streams that would outlive the coordinator end with it. A
//! connection is kept for its callers, and for calls without one while they come. Neighbours: `authentication` is in front,
//! the services behind.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use tenure_core::limits::{CALLS_MAX, CALLS_WITHOUT_CALLER_MAX, HEALTH_WATCHES_MAX};
use tenure_proto::access::access_of;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::{
    super::connections::{Connection, Visit},
    answer_at_once, overloaded,
};
use crate::{
    coordinator::stopping,
    credentials::Credentials,
    metrics::{Limit, metrics},
    refusals::write_refusal,
};

/// A stream without an end that needs no caller.
const WATCH: &str = "/grpc.health.v1.Health/Watch";
/// Streams of services that are not ours and do not know that a coordinator stops.
const ENDLESS: [&str; 2] = [WATCH, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"];

/// Gives each call its place.
#[derive(Debug, Clone)]
pub(in crate::server) struct PlacesLayer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    callers: Arc<Semaphore>,
    nobody: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    credentials: Credentials,
    stopping: CancellationToken,
}

impl PlacesLayer {
    /// All places are free.
    pub(in crate::server) fn new(credentials: Credentials, stopping: CancellationToken) -> Self {
        let shared = Shared {
            callers: Arc::new(Semaphore::new(CALLS_MAX)),
            nobody: Arc::new(Semaphore::new(CALLS_WITHOUT_CALLER_MAX)),
            watches: Arc::new(Semaphore::new(HEALTH_WATCHES_MAX)),
            credentials,
            stopping,
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Shared {
    /// True where the call is one of somebody who was let in.
    fn has_caller(&self, path: &str) -> bool {
        // What is no call of ours is answered, by the router, to those who were let in.
        access_of(path).is_none_or(tenure_core::credential::Access::needs_caller)
    }

    fn take_place(&self, path: &str) -> Result<OwnedSemaphorePermit, Limit> {
        let (places, limit) = match self.has_caller(path) {
            true => (&self.callers, Limit::Calls),
            false if path == WATCH => (&self.watches, Limit::HealthWatches),
            false => (&self.nobody, Limit::CallsWithoutCaller),
        };
        places.clone().try_acquire_owned().map_err(|_| limit)
    }

    /// Keeps the connection. Where no credential is wanted, whoever calls is somebody.
    fn keep(&self, connection: Arc<Connection>, path: &str) -> Option<Visit> {
        if self.has_caller(path) || !self.credentials.are_required() {
            connection.note_caller();
            return None;
        }
        Some(connection.begin_visit())
    }
}

impl<S> Layer<S> for PlacesLayer {
    type Service = Places<S>;

    fn layer(&self, inner: S) -> Places<S> {
        Places { inner, shared: self.shared.clone() }
    }
}

/// A service whose calls have places.
#[derive(Debug, Clone)]
pub(in crate::server) struct Places<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Service<Request<Body>> for Places<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let place = match self.shared.take_place(path) {
            Ok(place) => place,
            Err(limit) => {
                metrics().note_limit(limit);
                return answer_at_once(&overloaded("as many calls are under way as are taken"));
            }
        };
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let visit = connection.and_then(|connection| self.shared.keep(connection, path));
        let stopping = ENDLESS.contains(&path).then(|| self.shared.stopping.clone());
        let request = match &stopping {
            Some(stopping) => request.map(|body| Body::new(EndsWithUs::asking(body, stopping))),
            None => request,
        };
        let answered = self.inner.call(request);
        Box::pin(async move {
            let response = answered.await?;
            Ok(response.map(|body| {
                let body = match &stopping {
                    Some(stopping) => Body::new(EndsWithUs::answering(body, stopping)),
                    None => body,
                };
                Body::new(Placed { body, _place: place, _visit: visit })
            }))
        })
    }
}

/// The body of an answer, and its call's place.
struct Placed {
    body: Body,
    _place: OwnedSemaphorePermit,
    _visit: Option<Visit>,
}

impl http_body::Body for Placed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body that is over when the coordinator stops.
struct EndsWithUs {
    body: Body,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// What an answer says then.
    last_words: Option<HeaderMap>,
    is_over: bool,
}

impl EndsWithUs {
    fn asking(body: Body, stopping: &CancellationToken) -> Self {
        let stopping = Box::pin(stopping.clone().cancelled_owned());
        Self { body, stopping, last_words: None, is_over: false }
    }

    fn answering(body: Body, stopping: &CancellationToken) -> Self {
        let mut last_words = HeaderMap::new();
        // What it says are words of ours: they are always headers.
        let _ = write_refusal(&self::stopping()).add_header(&mut last_words);
        Self { last_words: Some(last_words), ..Self::asking(body, stopping) }
    }
}

impl http_body::Body for EndsWithUs {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        ready!(self.stopping.as_mut().poll(cx));
        self.is_over = true;
        Poll::Ready(self.last_words.take().map(|words| Ok(Frame::trailers(words))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        credentials::tests::{credentials, issue},
        server::authentication::AuthenticationLayer,
    };

    const CHECK: &str = "/grpc.health.v1.Health/Check";
    const GONE: &str = "/tenure.v1.WorkerService/ReportGone";
    const SUBMIT: &str = "/tenure.v1.JobService/SubmitJob";

    fn shared() -> Arc<Shared> {
        PlacesLayer::new(credentials(), CancellationToken::new()).shared
    }

    #[test]
    fn calls_of_nobody_take_no_place_from_callers_and_watches_none_from_other_calls_of_nobody() {
        let shared = shared();
        let watches: Vec<_> = (0..HEALTH_WATCHES_MAX).map(|_| shared.take_place(WATCH).unwrap()).collect();
        assert_eq!(shared.take_place(WATCH).unwrap_err(), Limit::HealthWatches);
        let of_nobody: Vec<_> = (0..CALLS_WITHOUT_CALLER_MAX)
            .map(|number| shared.take_place(if number % 2 == 0 { CHECK } else { GONE }).unwrap())
            .collect();
        assert_eq!(shared.take_place(GONE).unwrap_err(), Limit::CallsWithoutCaller);
        let of_callers: Vec<_> = (0..CALLS_MAX).map(|_| shared.take_place(SUBMIT).unwrap()).collect();
        assert_eq!(shared.take_place(SUBMIT).unwrap_err(), Limit::Calls);
        drop((watches, of_nobody, of_callers));
        assert!([WATCH, CHECK, SUBMIT].iter().all(|path| shared.take_place(path).is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_refused_at_the_gate_keeps_no_connection_and_a_question_about_health_does() {
        let shared = shared();
        let (_, issued) = issue(1);
        shared.credentials.replace_file(vec![issued]);
        let gate = AuthenticationLayer::new(shared.credentials.clone(), false);
        let answer = tower::service_fn(async |_: Request<Body>| Ok(Response::new(Body::empty())));
        let mut service = gate.layer(PlacesLayer { shared: shared.clone() }.layer(answer));
        for (path, kept) in [(SUBMIT, false), (CHECK, true)] {
            let connection = Arc::new(Connection::new());
            let first_call_until = connection.judge(tokio::time::Instant::now()).unwrap();
            let mut request = Request::builder().uri(path).body(Body::empty()).unwrap();
            request.extensions_mut().insert(connection.clone());
            drop(service.call(request).await.unwrap());
            assert_eq!(connection.judge(first_call_until).is_ok(), kept, "{path}");
        }
        assert_eq!(shared.callers.available_permits(), CALLS_MAX, "the refused call took no place");
    }

    #[tokio::test]
    async fn a_call_of_nobody_keeps_its_connection_for_good_only_where_no_credential_is_wanted() {
        let shared = shared();
        let keep = |path| shared.keep(Arc::new(Connection::new()), path).is_none();
        assert!(keep(CHECK) && keep(SUBMIT));
        let (_, issued) = issue(1);
        shared.credentials.replace_file(vec![issued]);
        assert!(!keep(CHECK) && !keep(WATCH) && !keep(GONE));
        assert!(keep(SUBMIT));
    }
}
