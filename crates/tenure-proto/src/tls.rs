//! How a client of a coordinator speaks TLS: whom it believes, and the certificate that it shows. `https` addresses speak
//! TLS, all others do not, and to those a token goes only on this host, or where plain text was allowed. Without an
//! authority of one's own those of the web are believed. Neighbours: clients, workers and guardians open their endpoints
//! with it.

use std::{fmt, net::IpAddr};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Error, Identity};

/// The scheme of addresses that speak TLS.
const SCHEME: &str = "https:";
/// The scheme of addresses on this host that nobody else can listen at.
const SOCKET: &str = "unix:";

/// An address to which a token would go in plain text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the token would go to {address:?} in plain text, and whoever is on the way could read it: use https, or --allow-plaintext where something else encrypts"
)]
pub struct PlaintextToken {
    /// Which.
    pub address: String,
}

/// Whom a client believes, and what it shows; all in PEM. Printing it prints no key.
#[derive(Clone, Default)]
pub struct ClientTls {
    /// The authorities that are believed; none: those of the web.
    pub ca_pem: Option<String>,
    /// A certificate with its chain, and its key; none: nothing is shown.
    pub identity_pem: Option<(String, String)>,
    /// A token may go beyond this host in plain text: something else encrypts.
    pub allow_plaintext: bool,
}

impl ClientTls {
    /// Prepares an endpoint for its address.
    ///
    /// # Errors
    /// A certificate or key cannot be used.
    pub fn apply(&self, address: &str, endpoint: Endpoint) -> Result<Endpoint, Error> {
        if !address.starts_with(SCHEME) {
            return Ok(endpoint);
        }
        let config = match &self.ca_pem {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_webpki_roots(),
        };
        let config = match &self.identity_pem {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        };
        endpoint.tls_config(config)
    }

    /// Passes an address to which a token may go.
    ///
    /// # Errors
    /// It is of another host, and does not speak TLS.
    pub fn admit_token(&self, address: &str, endpoint: &Endpoint) -> Result<(), PlaintextToken> {
        let closed = address.starts_with(SCHEME) || address.starts_with(SOCKET);
        if closed || self.allow_plaintext || endpoint.uri().host().is_some_and(is_this_host) {
            return Ok(());
        }
        Err(PlaintextToken { address: address.to_owned() })
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls")
            .field("own_authority", &self.ca_pem.is_some())
            .field("shows_certificate", &self.identity_pem.is_some())
            .field("allow_plaintext", &self.allow_plaintext)
            .finish()
    }
}

/// Names are not looked up: one that leads to loopback today may lead elsewhere tomorrow.
fn is_this_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_beyond_this_host_only_by_tls_or_where_plain_text_was_allowed() {
        let admit = |address: &'static str, allow_plaintext| {
            let tls = ClientTls { allow_plaintext, ..ClientTls::default() };
            tls.admit_token(address, &Endpoint::from_static(address)).is_ok()
        };
        for here in
            ["http://127.0.0.1:7420", "http://127.9.9.9", "http://localhost:7420", "http://[::1]:7420"]
        {
            assert!(admit(here, false), "{here}");
        }
        assert!(admit("https://fleet.example:7420", false) && admit("unix:///run/socket", false));
        let elsewhere = [
            "http://fleet.example:7420",
            "http://10.0.0.1:7420",
            "http://[2001:db8::1]:7420",
            "http://localhost.example",
            "http://127.0.0.1.example",
            "http://127.0.0.1@fleet.example",
        ];
        for there in elsewhere {
            assert!(!admit(there, false) && admit(there, true), "{there}");
        }
    }
}
