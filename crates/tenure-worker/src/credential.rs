//! Who a worker is to the fleet: its token, the tenant for which it works where it does not work for all that the token
//! names, and how it speaks TLS. A token in a file is read anew for each connection, so that it can be replaced while the
//! worker runs. None of it is printed, and none reaches a guardian or a child. Neighbours: `endpoints` connects with it.

use std::path::{Path, PathBuf};

use tenure_core::{credential::Token, id::Tenant, limits::TOKEN_FILE_MAX_BYTES};
use tenure_proto::{caller::CallerMetadata, tls::ClientTls};
use tokio::io::AsyncReadExt as _;
use tonic::Status;

/// Where the token is.
#[derive(Debug, Clone, Default)]
pub enum TokenSource {
    /// There is none: enough on loopback where no credential is wanted.
    #[default]
    None,
    /// Here.
    Given(Token),
    /// In this file.
    File(PathBuf),
}

/// Who a worker is. The default is nobody, in plain text.
#[derive(Debug, Clone, Default)]
pub struct WorkerCredential {
    /// Its token.
    pub token: TokenSource,
    /// The one tenant for which it works; none: all that the token names.
    pub tenant: Option<Tenant>,
    /// Whom it believes, and the certificate that it shows.
    pub tls: ClientTls,
}

impl WorkerCredential {
    /// What is written into every call, as it is now.
    pub(crate) async fn read(&self) -> Result<CallerMetadata, Status> {
        let token = match &self.token {
            TokenSource::None => None,
            TokenSource::Given(token) => Some(token.clone()),
            TokenSource::File(path) => Some(read_token(path).await?),
        };
        Ok(CallerMetadata::new(token.as_ref(), self.tenant.as_ref()))
    }
}

/// What cannot be read now may be there at the next attempt: a file is being replaced.
async fn read_token(path: &Path) -> Result<Token, Status> {
    let unreadable = |what: String| Status::unavailable(format!("no token in {}: {what}", path.display()));
    let file = tokio::fs::File::open(path).await.map_err(|error| unreadable(error.to_string()))?;
    let mut text = String::new();
    let read = file.take(TOKEN_FILE_MAX_BYTES).read_to_string(&mut text).await;
    read.map_err(|error| unreadable(error.to_string()))?;
    Token::parse(text.trim()).ok_or_else(|| unreadable("it has not the form of one".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_in_a_file_is_read_as_it_is_now_and_never_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let credential =
            WorkerCredential { token: TokenSource::File(path.clone()), ..WorkerCredential::default() };
        assert!(credential.read().await.is_err());
        let token = Token::from_random([1; 8], [2; 32]);
        std::fs::write(&path, format!("{}\n", token.expose())).unwrap();
        assert!(credential.read().await.is_ok());
        std::fs::write(&path, format!("x{}", token.expose())).unwrap();
        let refused = credential.read().await.unwrap_err();
        assert!(!refused.message().contains(token.expose()), "{refused}");
    }
}
