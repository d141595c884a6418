//! What a token allows: whether it is worth anything now, whether it has the scope, and for which tenant a call is. Whoever
//! asks has already found out that the caller bears the token. Every refusal is one that another credential would not get;
//! none tells whether a tenant, a token or a job exists. Neighbours: the coordinator asks before it reads a call's body.

use jiff::Timestamp;

use super::{IssuedToken, Scope, Tenants};
use crate::{id::Tenant, reason::Reason, refusal::Refusal};

/// Passes a token that is worth something now and allows this.
///
/// # Errors
/// `CREDENTIAL_INVALID`: it was revoked; `CREDENTIAL_EXPIRED`; `SCOPE_MISSING`.
pub fn admit_token(token: &IssuedToken, scope: Scope, now: Timestamp) -> Result<(), Refusal> {
    if token.revoked_at.is_some() {
        return Err(refuse_unknown());
    }
    if let Some(expires_at) = token.expires_at.filter(|expires_at| *expires_at <= now) {
        let words = format!("the credential of {} expired at {expires_at}", token.actor);
        return Err(Refusal::new(Reason::CredentialExpired, words).with_detail("expired_at", expires_at));
    }
    if !token.scopes.contains(&scope) {
        let words = format!("the credential of {} does not have the scope {scope}", token.actor);
        return Err(Refusal::new(Reason::ScopeMissing, words).with_detail("scope", scope));
    }
    Ok(())
}

/// The one tenant for which a call is: the one that was asked for, or the only one there is.
///
/// # Errors
/// `TENANT_NOT_GRANTED`: another one was asked for; `TENANT_REQUIRED`: there are several, and none was asked for.
pub fn choose_tenant(tenants: &Tenants, asked: Option<&Tenant>) -> Result<Tenant, Refusal> {
    if let Some(asked) = asked {
        return grant(tenants, asked).cloned();
    }
    match tenants {
        Tenants::Named(named) if named.len() == 1 => named.first().cloned().ok_or_else(refuse_ambiguous),
        Tenants::Named(_) | Tenants::All => Err(refuse_ambiguous()),
    }
}

/// The tenants for which a call is: all, or the one that was asked for.
///
/// # Errors
/// `TENANT_NOT_GRANTED`: another one was asked for.
pub fn narrow_tenants(tenants: &Tenants, asked: Option<&Tenant>) -> Result<Tenants, Refusal> {
    match asked {
        Some(asked) => grant(tenants, asked).cloned().map(Tenants::one),
        None => Ok(tenants.clone()),
    }
}

/// What a token that is not known, or no longer, is answered with.
#[must_use]
pub fn refuse_unknown() -> Refusal {
    Refusal::new(Reason::CredentialInvalid, "the credential is not known here, or was revoked")
}

/// What a call without any token is answered with.
#[must_use]
pub fn refuse_missing() -> Refusal {
    Refusal::new(Reason::CredentialMissing, "this fleet wants a credential with every call, and none came")
        .with_next("export TENURE_TOKEN=…")
}

fn grant<'a>(tenants: &Tenants, asked: &'a Tenant) -> Result<&'a Tenant, Refusal> {
    if tenants.names(asked) {
        return Ok(asked);
    }
    let words = format!("the credential does not name the tenant {asked}");
    Err(Refusal::new(Reason::TenantNotGranted, words).with_detail("tenant", asked))
}

fn refuse_ambiguous() -> Refusal {
    let words = "the credential names several tenants, and the call says none of them";
    Refusal::new(Reason::TenantRequired, words).with_next("export TENURE_TENANT=…")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::credential::Token;

    fn token() -> IssuedToken {
        let token = Token::from_random([1; 8], [2; 32]);
        IssuedToken {
            id: token.id().clone(),
            hash: token.hash(),
            tenants: Tenants::All,
            actor: "ada".into(),
            scopes: BTreeSet::from([Scope::Read]),
            expires_at: Some(instant("2027-01-01T00:00:00Z")),
            revoked_at: None,
        }
    }

    fn instant(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn reason(token: &IssuedToken, scope: Scope, now: &str) -> Option<Reason> {
        admit_token(token, scope, instant(now)).err().map(|refusal| refusal.reason)
    }

    #[test]
    fn a_token_is_worth_what_it_says_until_the_instant_at_which_it_expires() {
        let before = "2026-12-31T23:59:59.999999Z";
        assert_eq!(reason(&token(), Scope::Read, before), None);
        for scope in [Scope::Submit, Scope::Work, Scope::Operate, Scope::Administer] {
            assert_eq!(reason(&token(), scope, before), Some(Reason::ScopeMissing), "{scope}");
        }
        assert_eq!(reason(&token(), Scope::Read, "2027-01-01T00:00:00Z"), Some(Reason::CredentialExpired));
        let endless = IssuedToken { expires_at: None, ..token() };
        assert_eq!(reason(&endless, Scope::Read, "2999-01-01T00:00:00Z"), None);
    }

    #[test]
    fn a_revoked_token_is_answered_as_an_unknown_one() {
        let revoked = IssuedToken { revoked_at: Some(instant("2026-01-01T00:00:00Z")), ..token() };
        let refusal = admit_token(&revoked, Scope::Read, instant("2026-02-01T00:00:00Z")).unwrap_err();
        assert_eq!(refusal, refuse_unknown());
    }

    #[test]
    fn a_call_is_for_one_tenant_that_the_credential_names() {
        let (a, b): (Tenant, Tenant) = ("a".parse().unwrap(), "b".parse().unwrap());
        let (one, two) = (Tenants::one(a.clone()), Tenants::from_texts(&["a", "b"]).unwrap());
        let chosen = |tenants: &Tenants, asked: Option<&Tenant>| {
            choose_tenant(tenants, asked).map_err(|refusal| refusal.reason)
        };
        assert_eq!(chosen(&one, None), Ok(a.clone()));
        assert_eq!(chosen(&one, Some(&b)), Err(Reason::TenantNotGranted));
        assert_eq!(chosen(&two, None), Err(Reason::TenantRequired));
        assert_eq!(chosen(&two, Some(&b)), Ok(b.clone()));
        assert_eq!(chosen(&Tenants::All, None), Err(Reason::TenantRequired));
        assert_eq!(chosen(&Tenants::All, Some(&b)), Ok(b.clone()));
        assert_eq!(narrow_tenants(&Tenants::All, Some(&b)), Ok(Tenants::one(b.clone())));
        assert_eq!(narrow_tenants(&two, None), Ok(two.clone()));
        assert!(narrow_tenants(&one, Some(&b)).is_err());
    }
}
