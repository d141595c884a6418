//! TLS on the port of the coordinator: its certificate, and whose certificates of clients are believed. It is read at the
//! start and kept until the end. Where clients' certificates are believed they are asked for and verified in the handshake;
//! who must show one is said by the gate. Neighbours: `options` names the files, `server` serves with it.

use std::{
    io,
    path::{Path, PathBuf},
};

use tenure_core::limits::TLS_HANDSHAKE_TIMEOUT;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// The files of a coordinator's TLS; all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Its certificate with the chain.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
    /// The authorities of clients' certificates; none: none is asked for.
    pub client_ca: Option<PathBuf>,
}

/// A file of TLS that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("reading {} for TLS", path.display())]
pub struct TlsFileError {
    /// Which file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    source: io::Error,
}

impl TlsFiles {
    /// Reads them.
    pub(crate) async fn read(&self) -> Result<ServerTlsConfig, TlsFileError> {
        let identity = Identity::from_pem(read(&self.certificate).await?, read(&self.key).await?);
        let config = ServerTlsConfig::new().identity(identity).timeout(TLS_HANDSHAKE_TIMEOUT);
        Ok(match &self.client_ca {
            Some(path) => config
                .client_ca_root(Certificate::from_pem(read(path).await?))
                // Who must show one is not known before the call.
                .client_auth_optional(true),
            None => config,
        })
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    tokio::fs::read(path).await.map_err(|source| TlsFileError { path: path.to_owned(), source })
}
