//! The declaration that a person accepts for a job in place of the one that it was admitted under: the present one of its
//! agent, and no other, because that is what was shown to whoever accepts. Neighbours: `job_service` takes the call, the core
//! decides whether the job takes one at all.

use tenure_core::{
    admission::list_requirements, declaration::Declaration, plan::AcceptedDeclaration, reason::Reason,
    refusal::Refusal,
};
use tenure_proto::convert::id::read_digest;
use tenure_store::JobRow;

use crate::coordinator::Parts;

/// Reads what is accepted.
pub(super) async fn read_accepted(
    parts: &Parts,
    row: &JobRow,
    given: &[u8],
) -> Result<AcceptedDeclaration, Refusal> {
    let digest = read_digest("accept_declaration", given)?;
    let present = parts.bulk.ask(parts.store.read_agent(&row.tenant, &row.agent)).await?;
    let Some(present) = present.filter(|present| present.digest == digest) else {
        let words = format!("{digest} is not the present declaration of agent {}", row.agent);
        return Err(Refusal::new(Reason::DeclarationMismatch, words)
            .with_detail("admitted", row.declaration)
            .with_next("tenure agents"));
    };
    let declaration = Declaration::parse(&present.document)?;
    let requires = list_requirements(&row.agent, &declaration);
    Ok(AcceptedDeclaration { digest, bundle: present.bundle, requires })
}
