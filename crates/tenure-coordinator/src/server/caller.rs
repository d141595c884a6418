//! Who is asking: the one place where the tenant and the principal of a call come from. Until credentials exist only
//! loopback is served, every caller belongs to the tenant `default`, and a name that it gives itself is recorded as
//! asserted. Neighbours: every service asks here first; nothing else reads a call's metadata.

use tenure_core::{id::Tenant, principal::Principal};
use tonic::{Extensions, metadata::MetadataMap};

/// The metadata key under which a caller names itself.
const ACTOR_KEY: &str = "tenure-actor";
/// The actor where a caller does not name itself.
const ACTOR_UNNAMED: &str = "loopback";
/// The longest name that a caller may give itself.
const ACTOR_MAX_BYTES: usize = 128;

/// Who is asking, and for which tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Whose jobs are seen and acted on.
    pub(crate) tenant: Tenant,
    /// Who acts, and on what basis.
    pub(crate) principal: Principal,
}

/// The caller of a request.
pub(crate) fn identify_caller(metadata: &MetadataMap, _extensions: &Extensions) -> Caller {
    let actor = metadata
        .get(ACTOR_KEY)
        .and_then(|value| value.to_str().ok())
        .filter(|actor| !actor.trim().is_empty() && actor.len() <= ACTOR_MAX_BYTES)
        .unwrap_or(ACTOR_UNNAMED);
    Caller { tenant: Tenant::default_tenant(), principal: Principal::asserted(actor) }
}

#[cfg(test)]
mod tests {
    use tenure_core::principal::Basis;

    use super::*;

    fn identify(actor: Option<&str>) -> Caller {
        let mut metadata = MetadataMap::new();
        if let Some(actor) = actor {
            metadata.insert(ACTOR_KEY, actor.parse().unwrap());
        }
        identify_caller(&metadata, &Extensions::new())
    }

    #[test]
    fn a_name_that_a_caller_gives_itself_is_asserted_and_never_authenticated() {
        let caller = identify(Some("ada"));
        assert_eq!(caller.principal.actor, "ada");
        assert_eq!(caller.principal.basis, Basis::Asserted);
        assert_eq!(caller.tenant, Tenant::default_tenant());
    }

    #[test]
    fn a_caller_without_a_usable_name_is_unnamed() {
        for unusable in [None, Some("  "), Some("x".repeat(129).as_str())] {
            assert_eq!(identify(unusable).principal.actor, ACTOR_UNNAMED);
        }
    }
}
