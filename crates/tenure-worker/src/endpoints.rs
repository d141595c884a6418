//! The coordinators that a worker may use. Any of them will do: the first attempt takes one at random, so that workers with
//! the same list spread over it, and each later attempt the next in turn, because whatever is wrong with one says nothing
//! about another. It keeps no connection and remembers no failure.

use std::{
    error::Error as _,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use tenure_core::limits;
use tenure_proto::{caller::CallerMetadata, tls::PlaintextToken};
use tonic::{
    Status,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use crate::credential::{TokenSource, WorkerCredential};

/// The way to a coordinator: whatever goes there bears the worker's credential.
pub(crate) type Way = InterceptedService<Channel, CallerMetadata>;

/// An address that is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "the endpoint {given:?} is not an address of the form http://HOST:PORT or https://HOST:PORT, or its certificates are none"
)]
pub struct InvalidEndpoint {
    /// What was given.
    pub given: String,
    #[source]
    source: Option<tonic::transport::Error>,
}

/// The coordinators, in the order in which they are tried.
#[derive(Debug)]
pub(crate) struct Endpoints {
    addresses: Vec<String>,
    targets: Vec<Endpoint>,
    next: AtomicUsize,
    credential: WorkerCredential,
}

impl Endpoints {
    /// Reads the addresses; `http://` is added where no scheme is given.
    pub(crate) fn parse(given: &[String], credential: WorkerCredential) -> Result<Self, InvalidEndpoint> {
        if given.is_empty() {
            return Err(InvalidEndpoint { given: String::new(), source: None });
        }
        let addresses: Vec<String> = given.iter().map(|address| complete_address(address)).collect();
        let targets: Vec<Endpoint> =
            addresses.iter().map(|address| parse_target(address, &credential)).collect::<Result<_, _>>()?;
        let next = AtomicUsize::new(rand::random_range(0..targets.len()));
        Ok(Self { addresses, targets, next, credential })
    }

    /// Refuses where its token would go beyond this host in plain text.
    pub(crate) fn check_plaintext(&self) -> Result<(), PlaintextToken> {
        if matches!(self.credential.token, TokenSource::None) {
            return Ok(());
        }
        let mut ways = self.addresses.iter().zip(&self.targets);
        ways.try_for_each(|(address, target)| self.credential.tls.admit_token(address, target))
    }

    /// The addresses, complete with their scheme.
    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Whom to believe where an address speaks TLS, for the guardians, which connect by themselves; none: those of the web.
    pub(crate) fn authority_pem(&self) -> Option<String> {
        self.credential.tls.ca_pem.clone()
    }

    /// Connects to the next one, with the credential as it is now.
    pub(crate) async fn connect_next(&self) -> Result<Way, Status> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let metadata = self.credential.read().await?;
        let connected = self.targets[turn % self.targets.len()].connect().await;
        let channel = connected.map_err(|error| unreachable_status(&error))?;
        Ok(InterceptedService::new(channel, metadata))
    }
}

fn unreachable_status(error: &tonic::transport::Error) -> Status {
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    Status::unavailable(format!("{error}{cause}"))
}

/// What became of a call, with its causes: that the way broke does not say why.
pub(crate) fn describe_failure(status: &Status) -> String {
    let mut said = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.ends_with(&text) {
            said = format!("{said}: {text}");
        }
        cause = error.source();
    }
    said
}

/// The pauses between attempts to reach a coordinator: doubling, jittered, without end.
pub(crate) fn reconnect_pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(limits::RECONNECT_FIRST)
        .with_max_delay(limits::RECONNECT_MAX)
        .with_jitter()
        .without_max_times()
        .build()
}

fn complete_address(given: &str) -> String {
    if given.contains("://") { given.to_owned() } else { format!("http://{given}") }
}

fn parse_target(address: &str, credential: &WorkerCredential) -> Result<Endpoint, InvalidEndpoint> {
    let invalid = |source| InvalidEndpoint { given: address.to_owned(), source: Some(source) };
    let target = Endpoint::from_shared(address.to_owned()).map_err(invalid)?;
    let target = credential.tls.apply(address, target).map_err(invalid)?;
    Ok(target
        .connect_timeout(limits::CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(limits::KEEPALIVE_INTERVAL)
        .keep_alive_timeout(limits::KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

#[cfg(test)]
mod tests {
    use tenure_proto::tls::ClientTls;

    use super::*;

    #[test]
    fn a_failure_is_told_with_its_causes_and_each_of_them_once() {
        let alert = std::io::Error::other(std::io::Error::other("received fatal alert: UnknownCA"));
        let status = Status::from_error(Box::new(alert));
        assert_eq!(describe_failure(&status), "received fatal alert: UnknownCA");
        let mut broken = Status::unavailable("transport error");
        broken.set_source(std::sync::Arc::new(std::io::Error::other("the peer went away")));
        assert_eq!(describe_failure(&broken), "transport error: the peer went away");
    }

    #[test]
    fn an_address_without_a_scheme_gets_one() {
        let endpoints =
            Endpoints::parse(&["127.0.0.1:7420".to_owned()], WorkerCredential::default()).unwrap();
        assert_eq!(endpoints.addresses(), ["http://127.0.0.1:7420"]);
    }

    #[test]
    fn what_is_no_address_is_named() {
        let refused = Endpoints::parse(&["http://a b".to_owned()], WorkerCredential::default()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the endpoint \"http://a b\" is not an address of the form http://HOST:PORT or https://HOST:PORT, or its certificates are none"
        );
        assert!(Endpoints::parse(&[], WorkerCredential::default()).is_err());
    }

    #[test]
    fn a_token_goes_to_no_other_host_in_plain_text() {
        let given = ["127.0.0.1:7420".to_owned(), "fleet.example:7420".to_owned()];
        let credential = |token, allow_plaintext| WorkerCredential {
            token,
            tls: ClientTls { allow_plaintext, ..ClientTls::default() },
            ..WorkerCredential::default()
        };
        let check =
            |given: &[String], credential| Endpoints::parse(given, credential).unwrap().check_plaintext();
        let in_file = TokenSource::File("token".into());
        let refused = check(&given, credential(in_file.clone(), false)).unwrap_err();
        assert_eq!(refused.address, "http://fleet.example:7420");
        assert!(check(&given[..1], credential(in_file.clone(), false)).is_ok());
        assert!(check(&given, credential(in_file, true)).is_ok());
        assert!(check(&given, credential(TokenSource::None, false)).is_ok());
    }

    #[test]
    fn pauses_grow_to_their_bound_and_never_end() {
        let pauses: Vec<Duration> = reconnect_pauses().take(50).collect();
        assert_eq!(pauses.len(), 50);
        let longest = limits::RECONNECT_MAX * 2;
        assert!(
            pauses.iter().all(|pause| *pause >= limits::RECONNECT_FIRST && *pause <= longest),
            "{pauses:?}"
        );
    }
}
