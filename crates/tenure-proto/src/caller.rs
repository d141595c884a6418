//! What a caller brings along with each call, as it stands in the call's metadata: its token, and the tenant that it means
//! where the token names several. A token is marked as sensitive, so that no layer below prints it or keeps it in a table
//! of compression. Neighbours: clients and workers write it through an interceptor, the coordinator reads it.

use tenure_core::{credential::Token, id::Tenant};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
};

/// Where the token stands, as `Bearer TOKEN`.
pub const AUTHORIZATION_KEY: &str = "authorization";
/// Where the tenant stands that is meant.
pub const TENANT_KEY: &str = "tenure-tenant";
/// Under which a caller without a token names itself.
pub const ACTOR_KEY: &str = "tenure-actor";

const SCHEME: &str = "Bearer ";

/// What is written into every call. Printing it prints no token.
#[derive(Debug, Clone, Default)]
pub struct CallerMetadata {
    authorization: Option<MetadataValue<Ascii>>,
    tenant: Option<MetadataValue<Ascii>>,
}

impl CallerMetadata {
    /// Of a caller with this token, who means this tenant.
    #[must_use]
    pub fn new(token: Option<&Token>, tenant: Option<&Tenant>) -> Self {
        let authorization = token.and_then(|token| {
            // A token is of visible ASCII, or it was not read as one.
            let mut value: MetadataValue<Ascii> = format!("{SCHEME}{}", token.expose()).parse().ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self { authorization, tenant: tenant.and_then(|tenant| tenant.as_str().parse().ok()) }
    }
}

impl Interceptor for CallerMetadata {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        if let Some(authorization) = &self.authorization {
            metadata.insert(AUTHORIZATION_KEY, authorization.clone());
        }
        if let Some(tenant) = &self.tenant {
            metadata.insert(TENANT_KEY, tenant.clone());
        }
        Ok(request)
    }
}

/// The token in the value of an authorization; none where it is of another scheme, or none of ours.
#[must_use]
pub fn read_authorization(value: &str) -> Option<Token> {
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| Token::parse(token)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_crosses_whole_and_is_not_printed() {
        let token = Token::from_random([3; 8], [4; 32]);
        let tenant: Tenant = "acme".parse().unwrap();
        let mut written = CallerMetadata::new(Some(&token), Some(&tenant));
        assert!(!format!("{written:?}").contains(token.expose()));
        let request = written.call(Request::new(())).unwrap();
        let value = request.metadata().get(AUTHORIZATION_KEY).unwrap();
        assert!(value.is_sensitive());
        assert_eq!(read_authorization(value.to_str().unwrap()), Some(token));
        assert_eq!(request.metadata().get(TENANT_KEY).unwrap(), "acme");
    }

    #[test]
    fn what_is_no_bearer_of_a_token_of_ours_is_none() {
        let token = Token::from_random([3; 8], [4; 32]);
        assert!(read_authorization(&format!("bearer {}", token.expose())).is_some());
        for value in
            ["", "Bearer", "Bearer ", "Bearer x", &format!("Basic {}", token.expose()), token.expose()]
        {
            assert_eq!(read_authorization(value), None, "{value}");
        }
    }
}
