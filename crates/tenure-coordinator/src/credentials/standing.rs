//! What a long stream stands on: the credential with which it was opened, looked at again whenever the tokens change and
//! every second, so that one that is revoked or expires ends the stream. A stream that was opened without a credential, on
//! loopback, ends once credentials are wanted. Neighbours: the streams of `server` and of workers wait for it.

use std::sync::Arc;

use tenure_core::{
    credential::{IssuedToken, Scope, judgement::refuse_missing},
    limits::CREDENTIAL_LOOK_EVERY,
    refusal::Refusal,
};

use super::Credentials;

/// What a call was let in by.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    credentials: Credentials,
    /// None: no credential was wanted.
    token: Option<(Arc<IssuedToken>, Scope)>,
}

impl Standing {
    /// By this token, of which this scope was wanted.
    pub(crate) fn by_token(credentials: &Credentials, token: Arc<IssuedToken>, scope: Scope) -> Self {
        Self { credentials: credentials.clone(), token: Some((token, scope)) }
    }

    /// By calling from loopback where no credential was wanted.
    pub(crate) fn on_loopback(credentials: &Credentials) -> Self {
        Self { credentials: credentials.clone(), token: None }
    }

    /// Returns once it is worth nothing any more, with the reason.
    pub(crate) async fn until_withdrawn(&self) -> Refusal {
        let mut changes = self.credentials.hear_changes();
        loop {
            if let Err(refusal) = self.look_again() {
                return refusal;
            }
            tokio::select! {
                // The sender lives as long as `self`.
                _ = changes.changed() => {}
                () = tokio::time::sleep(CREDENTIAL_LOOK_EVERY) => {}
            }
        }
    }

    fn look_again(&self) -> Result<(), Refusal> {
        match &self.token {
            Some((token, scope)) => self.credentials.admit_again(token, *scope),
            None if self.credentials.are_required() => Err(refuse_missing()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::reason::Reason;

    use super::*;
    use crate::credentials::tests::{credentials, issue};

    #[tokio::test]
    async fn a_stream_loses_its_standing_when_its_token_goes() {
        let credentials = credentials();
        let (_, issued) = issue(1);
        credentials.replace_file(vec![issued.clone()]);
        let standing = Standing::by_token(&credentials, Arc::new(issued), Scope::Read);
        let withdrawn = tokio::spawn(async move { standing.until_withdrawn().await });
        credentials.replace_file(Vec::new());
        assert_eq!(withdrawn.await.unwrap().reason, Reason::CredentialInvalid);
    }

    #[tokio::test]
    async fn a_stream_ends_with_the_time_of_its_token_and_nobody_has_to_say_so() {
        let credentials = credentials();
        let (_, mut issued) = issue(1);
        let soon = "2026-11-30T10:00:00.050Z".parse().unwrap();
        issued.expires_at = Some(soon);
        credentials.replace_file(vec![issued.clone()]);
        let standing = Standing::by_token(&credentials, Arc::new(issued), Scope::Read);
        assert_eq!(standing.until_withdrawn().await.reason, Reason::CredentialExpired);
    }

    #[tokio::test]
    async fn a_stream_without_a_credential_ends_once_one_is_wanted() {
        let credentials = credentials();
        let standing = Standing::on_loopback(&credentials);
        let withdrawn = tokio::spawn(async move { standing.until_withdrawn().await });
        credentials.replace_file(Vec::new());
        assert_eq!(withdrawn.await.unwrap().reason, Reason::CredentialMissing);
    }
}
