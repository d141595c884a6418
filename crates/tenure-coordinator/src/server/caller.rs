//! Who is asking: the one place where the tenant and the principal of a call come from. With credentials both come from the
//! token; without, on loopback, whoever calls may name a tenant and itself, and is recorded as asserted. A service gets its
//! caller from here alone, and a call that no gate let in is a defect and is refused. Neighbours: `authentication` lets calls
//! in; nothing else reads a call's metadata.

use tenure_core::{
    credential::{
        Access, IssuedToken, Tenants, check_actor,
        judgement::{choose_tenant, narrow_tenants},
    },
    id::Tenant,
    principal::Principal,
    reason::Reason,
    refusal::Refusal,
};
use tenure_proto::{
    caller::{ACTOR_KEY, TENANT_KEY},
    convert::id::read_tenant,
};
use tonic::{Extensions, Status, codegen::http::HeaderMap};

use crate::{credentials::standing::Standing, refusals::write_refusal};

/// The actor where a caller does not name itself.
const ACTOR_UNNAMED: &str = "loopback";

/// Who is asking, and for which tenant.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Whose jobs are seen and acted on.
    pub(crate) tenant: Tenant,
    /// Who acts, and on what basis.
    pub(crate) principal: Principal,
    /// What a stream stands on.
    pub(crate) standing: Standing,
}

/// Who is asking where it is about several tenants: workers, and who looks at workers.
#[derive(Debug, Clone)]
pub(crate) struct FleetCaller {
    /// For whom.
    pub(crate) tenants: Tenants,
    /// Who acts, and on what basis.
    pub(crate) principal: Principal,
    /// What a stream stands on.
    pub(crate) standing: Standing,
}

/// Somebody who was let in.
#[derive(Debug)]
pub(super) enum Admitted {
    /// Anybody: the call needs no caller.
    Nobody,
    /// For one tenant.
    One(Caller),
    /// For several.
    Fleet(FleetCaller),
}

impl Admitted {
    /// Gives a call its caller.
    pub(super) fn attach(self, extensions: &mut Extensions) {
        match self {
            Self::Nobody => {}
            Self::One(caller) => drop(extensions.insert(caller)),
            Self::Fleet(caller) => drop(extensions.insert(caller)),
        }
    }
}

/// The caller of a call that was let in, by its token; none: from loopback, where none is wanted.
pub(super) fn read_admitted(
    access: Access,
    headers: &HeaderMap,
    token: Option<&IssuedToken>,
    standing: Standing,
) -> Result<Admitted, Refusal> {
    let asked = read_asked_tenant(headers)?;
    let principal = || match token {
        Some(token) => Principal::authenticated(&*token.actor),
        None => read_asserted(headers),
    };
    let tenants = token.map_or(Tenants::All, |token| token.tenants.clone());
    Ok(match access {
        Access::Open | Access::RunSecret => Admitted::Nobody,
        Access::Fleet(_) => {
            let tenants = narrow_tenants(&tenants, asked.as_ref())?;
            Admitted::Fleet(FleetCaller { tenants, principal: principal(), standing })
        }
        Access::Tenant(_) => {
            let asked = asked.or_else(|| token.is_none().then(Tenant::default_tenant));
            let tenant = choose_tenant(&tenants, asked.as_ref())?;
            Admitted::One(Caller { tenant, principal: principal(), standing })
        }
    })
}

/// The caller that a call was given.
pub(super) fn identify_caller<C: Clone + Send + Sync + 'static>(
    extensions: &Extensions,
) -> Result<C, Status> {
    extensions.get::<C>().cloned().ok_or_else(|| {
        tracing::error!("a call reached its service and nobody had looked who makes it");
        write_refusal(&Refusal::new(Reason::Internal, "a defect of the coordinator; its log says more"))
    })
}

fn read_asked_tenant(headers: &HeaderMap) -> Result<Option<Tenant>, Refusal> {
    let Some(value) = headers.get(TENANT_KEY) else { return Ok(None) };
    let name = value.to_str().unwrap_or_default();
    Ok(Some(read_tenant(TENANT_KEY, name)?))
}

fn read_asserted(headers: &HeaderMap) -> Principal {
    let actor = headers
        .get(ACTOR_KEY)
        .and_then(|value| value.to_str().ok())
        .filter(|actor| check_actor(actor).is_ok())
        .unwrap_or(ACTOR_UNNAMED);
    Principal::asserted(actor)
}

#[cfg(test)]
mod tests {
    use tenure_core::{credential::Scope, principal::Basis};

    use super::*;
    use crate::credentials::tests::{credentials, issue};

    const READ: Access = Access::Tenant(Scope::Read);

    fn admitted(token: Option<&IssuedToken>, headers: &[(&'static str, &str)]) -> Result<Caller, Reason> {
        let headers = headers.iter().map(|(key, value)| (key.parse().unwrap(), value.parse().unwrap()));
        let standing = Standing::on_loopback(&credentials());
        match read_admitted(READ, &headers.collect(), token, standing) {
            Ok(Admitted::One(caller)) => Ok(caller),
            Ok(other) => panic!("a caller for one tenant, and not {other:?}"),
            Err(refusal) => Err(refusal.reason),
        }
    }

    #[test]
    fn a_name_that_a_caller_gives_itself_is_asserted_and_never_authenticated() {
        let caller = admitted(None, &[(ACTOR_KEY, "ada")]).unwrap();
        assert_eq!((caller.principal.actor.as_str(), caller.principal.basis), ("ada", Basis::Asserted));
        assert_eq!(caller.tenant, Tenant::default_tenant());
        let (_, token) = issue(1);
        let caller = admitted(Some(&token), &[(ACTOR_KEY, "grace")]).unwrap();
        assert_eq!((caller.principal.actor.as_str(), caller.principal.basis), ("ada", Basis::Authenticated));
    }

    #[test]
    fn a_caller_without_a_usable_name_is_unnamed() {
        let long = "x".repeat(129);
        for unusable in [vec![], vec![(ACTOR_KEY, "  ")], vec![(ACTOR_KEY, long.as_str())]] {
            assert_eq!(admitted(None, &unusable).unwrap().principal.actor, ACTOR_UNNAMED);
        }
    }

    #[test]
    fn the_tenant_is_the_tokens_whatever_the_call_says() {
        let (_, token) = issue(1);
        assert_eq!(admitted(Some(&token), &[]).unwrap().tenant.as_str(), "acme");
        assert_eq!(admitted(Some(&token), &[(TENANT_KEY, "acme")]).unwrap().tenant.as_str(), "acme");
        let refused = |value: &str| admitted(Some(&token), &[(TENANT_KEY, value)]).unwrap_err();
        assert_eq!(refused("other"), Reason::TenantNotGranted);
        assert_eq!(refused("default"), Reason::TenantNotGranted);
        assert_eq!(refused("No Name"), Reason::InvalidArgument);
        let every = IssuedToken { tenants: Tenants::All, ..token.clone() };
        assert_eq!(admitted(Some(&every), &[]).unwrap_err(), Reason::TenantRequired);
        assert_eq!(admitted(Some(&every), &[(TENANT_KEY, "x")]).unwrap().tenant.as_str(), "x");
    }

    #[test]
    fn a_call_that_nobody_let_in_is_refused() {
        assert!(identify_caller::<Caller>(&Extensions::new()).is_err());
    }
}
