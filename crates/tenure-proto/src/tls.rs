//! How a client of a coordinator speaks TLS: whom it believes, and the certificate that it shows. `https` addresses speak
//! TLS, all others do not. Without an authority of one's own those of the web are believed. Neighbours: clients, workers
//! and guardians open their endpoints with it.

use std::fmt;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Error, Identity};

/// The scheme of addresses that speak TLS.
const SCHEME: &str = "https:";

/// Whom a client believes, and what it shows; all in PEM. Printing it prints no key.
#[derive(Clone, Default)]
pub struct ClientTls {
    /// The authorities that are believed; none: those of the web.
    pub ca_pem: Option<String>,
    /// A certificate with its chain, and its key; none: nothing is shown.
    pub identity_pem: Option<(String, String)>,
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
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls")
            .field("own_authority", &self.ca_pem.is_some())
            .field("shows_certificate", &self.identity_pem.is_some())
            .finish()
    }
}
