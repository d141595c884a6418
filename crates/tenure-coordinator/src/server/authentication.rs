//! The gate in front of every service: who is calling, and whether they may. It looks at the path and the headers of a call
//! and at nothing else, so that whoever may not has cost neither the reading of a body nor a statement. What passes carries
//! its caller along; what does not is answered with trailers alone. The refusal of a call without a valid credential is held
//! back for a moment: whoever asks in a loop waits in their own loop, and the log says it at intervals. Neighbours: the
//! table of methods is in `tenure-proto`, `credentials` knows the tokens, `caller` is what the services get.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use tenure_core::{
    credential::{
        Access, IssuedToken, Scope,
        judgement::{refuse_missing, refuse_unknown},
    },
    limits::{UNAUTHENTICATED_HELD_MAX, UNAUTHENTICATED_LOG_EVERY, UNAUTHENTICATED_PAUSE},
    reason::Reason,
    refusal::Refusal,
};
use tenure_proto::{
    access::access_of,
    caller::{AUTHORIZATION_KEY, read_authorization},
};
use tokio::sync::Semaphore;
use tonic::{
    body::Body,
    codegen::http::{Request, Response},
    transport::server::{TcpConnectInfo, TlsConnectInfo},
};
use tower::{Layer, Service};

use super::caller::{Admitted, read_admitted};
use crate::{
    credentials::{Credentials, standing::Standing},
    refusals::write_refusal,
};

/// Puts the gate before a service.
#[derive(Debug, Clone)]
pub(crate) struct AuthenticationLayer {
    gate: Gate,
}

impl AuthenticationLayer {
    /// A gate that knows these credentials; with `certificates`, workers must show one.
    pub(crate) fn new(credentials: Credentials, certificates: bool) -> Self {
        let turned_away = Arc::new(TurnedAway {
            held: Semaphore::new(UNAUTHENTICATED_HELD_MAX),
            untold: AtomicU64::new(0),
            told_at: Mutex::new(None),
        });
        Self { gate: Gate { credentials, certificates, turned_away } }
    }
}

impl<S> Layer<S> for AuthenticationLayer {
    type Service = Authentication<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Authentication { gate: self.gate.clone(), inner }
    }
}

/// A service behind the gate.
#[derive(Debug, Clone)]
pub(crate) struct Authentication<S> {
    gate: Gate,
    inner: S,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for Authentication<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Answering {
        match self.gate.admit(&request) {
            Ok(admitted) => {
                admitted.attach(request.extensions_mut());
                Box::pin(self.inner.call(request))
            }
            Err(refusal) => {
                // The body is given up unread.
                drop(request);
                let turned_away = self.gate.turned_away.clone();
                Box::pin(async move {
                    turned_away.hold(&refusal).await;
                    Ok(write_refusal(&refusal).into_http())
                })
            }
        }
    }
}

#[derive(Debug, Clone)]
struct Gate {
    credentials: Credentials,
    certificates: bool,
    turned_away: Arc<TurnedAway>,
}

impl Gate {
    fn admit(&self, request: &Request<Body>) -> Result<Admitted, Refusal> {
        let access = access_of(request.uri().path());
        let scope = match access {
            Some(Access::Open | Access::RunSecret) => return Ok(Admitted::Nobody),
            Some(Access::Tenant(scope) | Access::Fleet(scope)) => Some(scope),
            // The router says that it does not know it, to those who may know what there is.
            None => None,
        };
        let token = self.authenticate(request)?;
        if let (Some(token), Some(scope)) = (&token, scope) {
            self.credentials.admit(token, scope)?;
        }
        if self.certificates && scope == Some(Scope::Work) && !shows_certificate(request) {
            let words = "this fleet wants a client certificate with the calls of workers, and none came";
            return Err(Refusal::new(Reason::CertificateMissing, words));
        }
        let (Some(access), Some(scope)) = (access, scope) else { return Ok(Admitted::Nobody) };
        let standing = match &token {
            Some(token) => Standing::by_token(&self.credentials, token.clone(), scope),
            None => Standing::on_loopback(&self.credentials),
        };
        read_admitted(access, request.headers(), token.as_deref(), standing)
    }

    /// Whose token came; none where none is wanted.
    fn authenticate(&self, request: &Request<Body>) -> Result<Option<Arc<IssuedToken>>, Refusal> {
        if !self.credentials.are_required() {
            return Ok(None);
        }
        let presented = request.headers().get(AUTHORIZATION_KEY).ok_or_else(refuse_missing)?;
        let token = presented.to_str().ok().and_then(read_authorization).ok_or_else(refuse_unknown)?;
        self.credentials.authenticate(&token).map(Some)
    }
}

/// True where the other side of a TLS connection showed a certificate, which was verified before anything was read.
fn shows_certificate(request: &Request<Body>) -> bool {
    let connection = request.extensions().get::<TlsConnectInfo<TcpConnectInfo>>();
    connection.and_then(TlsConnectInfo::peer_certs).is_some_and(|certificates| !certificates.is_empty())
}

/// Calls that were refused for want of a valid credential.
#[derive(Debug)]
struct TurnedAway {
    held: Semaphore,
    untold: AtomicU64,
    told_at: Mutex<Option<Instant>>,
}

impl TurnedAway {
    /// Holds a refusal back where it is one of nobody known.
    async fn hold(&self, refusal: &Refusal) {
        tracing::debug!(code = refusal.reason.code(), "a call was refused at the gate");
        if !is_of_nobody(refusal.reason) {
            return;
        }
        self.tell();
        // Beyond the bound they are answered at once: what is held costs memory.
        if let Ok(_held) = self.held.try_acquire() {
            // Of different length each time, or a crowd that was refused at once would come back at once.
            tokio::time::sleep(UNAUTHENTICATED_PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
        }
    }

    /// Says in the log how many there were, at intervals.
    fn tell(&self) {
        self.untold.fetch_add(1, Ordering::Relaxed);
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if told_at.is_none_or(|told_at| told_at.elapsed() >= UNAUTHENTICATED_LOG_EVERY) {
            *told_at = Some(Instant::now());
            let calls = self.untold.swap(0, Ordering::Relaxed);
            tracing::warn!(calls, "calls without a valid credential were refused");
        }
    }
}

fn is_of_nobody(reason: Reason) -> bool {
    matches!(reason, Reason::CredentialMissing | Reason::CredentialInvalid | Reason::CredentialExpired)
}
