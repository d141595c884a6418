//! What a coordinator wants of those who call it, and how it is reached beyond its host: tokens and TLS.

use std::path::PathBuf;

use clap::Args;
use tenure_coordinator::TlsFiles;

/// The variables that a coordinator on loopback for one person does not follow.
pub(crate) const EXPOSURE_VARIABLES: [&str; 4] =
    ["TENURE_TOKENS", "TENURE_TLS_CERT", "TENURE_TLS_KEY", "TENURE_TLS_CLIENT_CA"];

/// Credentials and TLS.
#[derive(Debug, Clone, Args)]
pub(super) struct ExposureArgs {
    /// The file of tokens, beside those of the database; with either, every call needs one.
    #[arg(long, env = "TENURE_TOKENS", hide_env_values = true, value_name = "FILE")]
    pub(super) tokens: Option<PathBuf>,
    /// Its certificate for TLS, with the chain.
    #[arg(long, env = "TENURE_TLS_CERT", hide_env_values = true, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of its certificate.
    #[arg(long, env = "TENURE_TLS_KEY", hide_env_values = true, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The authorities of clients' certificates; with it workers must show one.
    #[arg(
        long,
        env = "TENURE_TLS_CLIENT_CA",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_client_ca: Option<PathBuf>,
}

impl ExposureArgs {
    /// The files of TLS, where it is wanted.
    pub(super) fn tls_files(&self) -> Option<TlsFiles> {
        let (certificate, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(TlsFiles { certificate, key, client_ca: self.tls_client_ca.clone() })
    }
}
