//! The endpoints of a fleet: any coordinator will do. Connections are made when they are first used, are kept, and notice
//! by keepalive, over a network, that the other side is gone. It does not decide what is worth repeating: that is `retry`.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure_proto::caller::CallerMetadata;
use tonic::{
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use crate::{credential::ClientCredential, error::ClientError};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a connection is asked whether it still stands.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// How long the answer to that may take.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The way to a coordinator: whatever goes there bears the caller's credential.
pub(crate) type Way = InterceptedService<Channel, CallerMetadata>;

/// One coordinator's address and the way to it.
#[derive(Debug, Clone)]
pub(crate) struct Coordinator {
    pub(crate) address: String,
    pub(crate) way: Way,
}

/// The coordinators that may be asked, and which one is asked at present.
#[derive(Debug, Clone)]
pub(crate) struct Endpoints {
    coordinators: Arc<[Coordinator]>,
    present: Arc<AtomicUsize>,
}

impl Endpoints {
    /// Reads the addresses: `host:port`, `http://host:port`, `https://host:port` or `unix:/path`; connects to none of them
    /// yet.
    pub(crate) fn read(
        addresses: &[impl AsRef<str>],
        credential: &ClientCredential,
    ) -> Result<Self, ClientError> {
        let coordinators: Arc<[Coordinator]> = addresses
            .iter()
            .map(|address| address.as_ref().trim())
            .filter(|address| !address.is_empty())
            .map(|address| open_coordinator(address, credential))
            .collect::<Result<_, _>>()?;
        if coordinators.is_empty() {
            return Err(ClientError::NoEndpoint);
        }
        Ok(Self { coordinators, present: Arc::default() })
    }

    /// The coordinator that is asked at present, and its place in the list.
    pub(crate) fn present(&self) -> (usize, &Coordinator) {
        let place = self.present.load(Ordering::Relaxed) % self.coordinators.len();
        (place, self.at(place))
    }

    /// The coordinator at a place.
    pub(crate) fn at(&self, place: usize) -> &Coordinator {
        &self.coordinators[place % self.coordinators.len()]
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.coordinators.len()
    }

    /// Goes on to the next one, unless somebody else has already gone on from the one that failed.
    pub(crate) fn leave(&self, failed: usize) {
        let next = (failed + 1) % self.coordinators.len();
        let _already_left = self.present.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<&str> = self.coordinators.iter().map(|c| c.address.as_str()).collect();
        f.write_str(&addresses.join(", "))
    }
}

fn open_coordinator(address: &str, credential: &ClientCredential) -> Result<Coordinator, ClientError> {
    let uri = match address.split_once(':') {
        Some(("http" | "https" | "unix", _)) => address.to_owned(),
        _ => format!("http://{address}"),
    };
    let endpoint = Endpoint::from_shared(uri)
        .map_err(|source| ClientError::InvalidEndpoint { address: address.to_owned(), source })?;
    if credential.token.is_some() {
        credential.tls.admit_token(address, &endpoint)?;
    }
    let endpoint = credential
        .tls
        .apply(address, endpoint)
        .map_err(|source| ClientError::Tls { address: address.to_owned(), source })?;
    let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true);
    let endpoint = if is_beside(address) { endpoint } else { keep_alive(endpoint) };
    let way = InterceptedService::new(endpoint.connect_lazy(), credential.metadata());
    Ok(Coordinator { address: address.to_owned(), way })
}

/// True of whoever is on this host, over a unix socket. That tells when its other side is gone; and a worker that is stopped
/// for a while is not gone: giving it up would end the command of an effect that it speaks for.
fn is_beside(address: &str) -> bool {
    address.starts_with("unix:")
}

/// Over a network a side that is gone may be silent about it.
fn keep_alive(endpoint: Endpoint) -> Endpoint {
    endpoint
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
}

#[cfg(test)]
mod tests {
    use tenure_core::credential::Token;
    use tenure_proto::tls::ClientTls;

    use super::*;

    fn read(addresses: &[&str]) -> Result<Endpoints, ClientError> {
        Endpoints::read(addresses, &ClientCredential::default())
    }

    #[tokio::test]
    async fn the_next_endpoint_is_asked_once_however_many_saw_the_failure() {
        let endpoints = read(&["127.0.0.1:1", "http://127.0.0.1:2", "127.0.0.1:3"]).unwrap();
        assert_eq!(endpoints.present().0, 0);
        endpoints.leave(0);
        endpoints.leave(0);
        assert_eq!(endpoints.present().0, 1);
        endpoints.leave(1);
        endpoints.leave(2);
        assert_eq!(endpoints.present().0, 0);
    }

    #[test]
    fn a_worker_beside_a_run_is_not_given_up_for_being_silent() {
        assert!(is_beside("unix:/run/socket") && is_beside("unix:///run/socket"));
        assert!(!is_beside("127.0.0.1:1") && !is_beside("http://127.0.0.1:1"));
    }

    #[tokio::test]
    async fn addresses_that_are_none_are_refused() {
        assert!(matches!(read(&["", " "]), Err(ClientError::NoEndpoint)));
        assert!(matches!(read(&["not an address"]), Err(ClientError::InvalidEndpoint { .. })));
    }

    #[tokio::test]
    async fn a_token_goes_to_no_other_host_in_plain_text() {
        let token = Token::from_random([1; 8], [2; 32]);
        let credential = ClientCredential { token: Some(token), ..ClientCredential::default() };
        for address in ["http://fleet.example:7420", "fleet.example:7420"] {
            let refused = Endpoints::read(&["127.0.0.1:7420", address], &credential);
            assert!(matches!(refused, Err(ClientError::Plaintext(_))), "{refused:?}");
            assert!(read(&[address]).is_ok(), "without a token there is nothing to read");
        }
        let tls = ClientTls { allow_plaintext: true, ..ClientTls::default() };
        let allowed = ClientCredential { tls, ..credential };
        assert!(Endpoints::read(&["fleet.example:7420"], &allowed).is_ok());
    }

    #[tokio::test]
    async fn certificates_that_are_none_are_refused_where_they_are_needed() {
        let tls = ClientTls {
            ca_pem: Some("-----BEGIN CERTIFICATE-----\nno\n".to_owned()),
            ..ClientTls::default()
        };
        let credential = ClientCredential { tls, ..ClientCredential::default() };
        let secured = Endpoints::read(&["https://fleet.example:7420"], &credential);
        assert!(matches!(secured, Err(ClientError::Tls { .. })), "{secured:?}");
        assert!(Endpoints::read(&["http://fleet.example:7420"], &credential).is_ok());
        assert!(read(&["https://fleet.example:7420"]).is_ok());
    }
}
