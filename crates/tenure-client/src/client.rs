//! The client: one for a whole program, cheap to clone. It asks one coordinator, and the next one where that does not
//! answer. What must not be carried out twice is repeated only while it was certainly never sent.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use backon::Retryable as _;
use tenure_core::{id::Tenant, limits::MESSAGE_MAX_BYTES};
use tenure_proto::v1;
use tokio::time::timeout;
use tonic::{Response, Status};

use crate::{
    credential::ClientCredential,
    endpoint::{Endpoints, Way},
    error::ClientError,
    retry::{Failure, pauses},
};

/// How patient a client is.
#[derive(Debug, Clone, Copy)]
pub struct ClientOptions {
    /// How much time a call may spend in pauses between attempts; after an answer that it cannot be done for the moment, in all.
    pub patience: Duration,
    /// How long one attempt may take.
    pub call_timeout: Duration,
    /// How much time a stream may spend in pauses before it has gone on again.
    pub stream_patience: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            call_timeout: Duration::from_secs(30),
            stream_patience: Duration::from_secs(120),
        }
    }
}

/// Whether carrying a call out twice is the same as once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It only reads.
    Reads,
    /// It writes, and twice is the same as once.
    Harmless,
    /// It writes: only what was never sent is sent again.
    OnlyUnsent,
}

/// A client of a fleet.
#[derive(Debug, Clone)]
pub struct Client {
    endpoints: Endpoints,
    tenant: Option<Tenant>,
    pub(crate) options: ClientOptions,
}

impl Client {
    /// A client of the coordinators at these addresses (`host:port`, `http://host:port`, `https://host:port`, `unix:/path`). Nothing is sent
    /// before the first call.
    ///
    /// # Errors
    /// There is no address, or one that is none.
    pub fn connect(addresses: &[impl AsRef<str>]) -> Result<Self, ClientError> {
        Self::connect_with(addresses, ClientOptions::default())
    }

    /// The same with other settings.
    ///
    /// # Errors
    /// As `connect`.
    pub fn connect_with(addresses: &[impl AsRef<str>], options: ClientOptions) -> Result<Self, ClientError> {
        Self::connect_as(addresses, options, &ClientCredential::default())
    }

    /// The same as somebody.
    ///
    /// # Errors
    /// As `connect`, or certificates that cannot be used.
    pub fn connect_as(
        addresses: &[impl AsRef<str>],
        options: ClientOptions,
        credential: &ClientCredential,
    ) -> Result<Self, ClientError> {
        let tenant = credential.tenant.clone();
        Ok(Self { endpoints: Endpoints::read(addresses, credential)?, tenant, options })
    }

    /// The tenant that is meant, where one was named.
    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }

    /// Asks until it is answered, refused, or patience runs out. A coordinator that says, late, that it cannot for the moment
    /// has used patience up: every coordinator is asked once, and again only as long as there is some left.
    pub(crate) async fn call<T, F, Fut>(&self, repeat: Repeat, operation: F) -> Result<T, ClientError>
    where
        F: Fn(Way) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let (begun, asked) = (Instant::now(), AtomicUsize::new(0));
        let attempt = || {
            asked.fetch_add(1, Ordering::Relaxed);
            self.call_once(&operation)
        };
        let is_left = |failure: &Failure| {
            !matches!(failure, Failure::Away { .. })
                || asked.load(Ordering::Relaxed) < self.endpoints.count()
                || begun.elapsed() < self.options.patience
        };
        attempt
            .retry(pauses(self.options.patience))
            .when(|failure| may_repeat(repeat, failure) && is_left(failure))
            .notify(|failure, _pause| self.leave(failure))
            .await
            .map_err(|failure| self.explain(repeat, failure))
    }

    /// Asks the present coordinator once.
    pub(crate) async fn call_once<T, F, Fut>(&self, operation: &F) -> Result<T, Failure>
    where
        F: Fn(Way) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        self.open(operation).await.map(|(_place, answer)| answer)
    }

    /// Asks the present coordinator once; says also at which place it stands, for what may fail later of what it opened.
    pub(crate) async fn open<T, F, Fut>(&self, operation: &F) -> Result<(usize, T), Failure>
    where
        F: Fn(Way) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let (place, coordinator) = self.endpoints.present();
        let limit = self.options.call_timeout;
        let answer = match timeout(limit, operation(coordinator.way.clone())).await {
            Ok(answer) => answer,
            Err(_elapsed) => {
                Err(Status::deadline_exceeded(format!("no answer within {} s", limit.as_secs())))
            }
        };
        answer
            .map(|response| (place, response.into_inner()))
            .map_err(|status| Failure::classify(&coordinator.address, place, status))
    }

    /// Makes a failure of a message on a stream that was opened at this place, whichever coordinator is asked by now.
    pub(crate) fn broken(&self, place: usize, status: Status) -> Failure {
        Failure::classify(&self.endpoints.at(place).address, place, status)
    }

    /// The address of the coordinator that is asked at present.
    pub(crate) fn present_endpoint(&self) -> String {
        self.endpoints.present().1.address.clone()
    }

    /// Turns to the next coordinator, where this one did not answer.
    pub(crate) fn leave(&self, failure: &Failure) {
        match failure {
            Failure::Refused(_) => {}
            Failure::Away { place, endpoint, refusal } => {
                tracing::debug!(endpoint, %refusal, "a coordinator cannot for the moment");
                self.endpoints.leave(*place);
            }
            Failure::NotSent { place, endpoint, status } | Failure::NoAnswer { place, endpoint, status } => {
                tracing::debug!(endpoint, %status, "a coordinator does not answer");
                self.endpoints.leave(*place);
            }
        }
    }

    /// The error that a caller sees.
    pub(crate) fn explain(&self, repeat: Repeat, failure: Failure) -> ClientError {
        match (failure, repeat) {
            (Failure::Refused(refusal) | Failure::Away { refusal, .. }, _) => ClientError::Refused(refusal),
            (Failure::NoAnswer { endpoint, status, .. }, Repeat::Harmless | Repeat::OnlyUnsent) => {
                ClientError::OutcomeUnknown { endpoint, source: Box::new(status) }
            }
            (Failure::NotSent { status, .. } | Failure::NoAnswer { status, .. }, _) => {
                ClientError::Unavailable { endpoints: self.endpoints.to_string(), source: Box::new(status) }
            }
        }
    }
}

/// Whether a failed call is tried again.
fn may_repeat(repeat: Repeat, failure: &Failure) -> bool {
    match failure {
        Failure::Refused(_) => false,
        Failure::NotSent { .. } => true,
        Failure::Away { .. } | Failure::NoAnswer { .. } => repeat != Repeat::OnlyUnsent,
    }
}

pub(crate) type JobService = v1::job_service_client::JobServiceClient<Way>;
pub(crate) type AgentService = v1::agent_service_client::AgentServiceClient<Way>;
pub(crate) type AttentionService = v1::attention_service_client::AttentionServiceClient<Way>;
pub(crate) type HaltService = v1::halt_service_client::HaltServiceClient<Way>;
pub(crate) type WorkerService = v1::worker_service_client::WorkerServiceClient<Way>;

pub(crate) fn job_service(way: Way) -> JobService {
    JobService::new(way).max_decoding_message_size(MESSAGE_MAX_BYTES)
}

pub(crate) fn agent_service(way: Way) -> AgentService {
    AgentService::new(way).max_decoding_message_size(MESSAGE_MAX_BYTES)
}

pub(crate) fn attention_service(way: Way) -> AttentionService {
    AttentionService::new(way).max_decoding_message_size(MESSAGE_MAX_BYTES)
}

pub(crate) fn halt_service(way: Way) -> HaltService {
    HaltService::new(way).max_decoding_message_size(MESSAGE_MAX_BYTES)
}

pub(crate) fn worker_service(way: Way) -> WorkerService {
    WorkerService::new(way).max_decoding_message_size(MESSAGE_MAX_BYTES)
}
