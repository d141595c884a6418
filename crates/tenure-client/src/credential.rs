//! Who a client is to a fleet: its token, the tenant that it means, and how it speaks TLS. Nothing of it is printed.

use tenure_core::{credential::Token, id::Tenant};
use tenure_proto::{caller::CallerMetadata, tls::ClientTls};

/// Who a client is. The default is nobody, in plain text: enough on loopback where no credential is wanted.
#[derive(Debug, Clone, Default)]
pub struct ClientCredential {
    /// The token; none: none is sent.
    pub token: Option<Token>,
    /// The tenant that is meant; none: the only one that the token names.
    pub tenant: Option<Tenant>,
    /// Whom it believes, and the certificate that it shows.
    pub tls: ClientTls,
}

impl ClientCredential {
    /// What is written into every call.
    pub(crate) fn metadata(&self) -> CallerMetadata {
        CallerMetadata::new(self.token.as_ref(), self.tenant.as_ref())
    }
}
