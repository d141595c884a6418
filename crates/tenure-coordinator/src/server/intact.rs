//! Whether a job's chain verifies. Before a person has a job go on it is recomputed from the stored bytes: what was tampered with
//! would be handed over as what had happened. Neighbours: `job_service` asks, the core's `verify` recomputes, as the client does.

use tenure_core::{
    id::Seq,
    limits::PAGE_MAX,
    reason::Reason,
    refusal::Refusal,
    verify::{ChainVerifier, Finding, StoredRecord},
};
use tenure_store::JobRow;

use crate::coordinator::Parts;

/// Refuses a job whose chain does not verify.
pub(super) async fn demand_intact(parts: &Parts, row: &JobRow) -> Result<(), Refusal> {
    let broken = |finding: Finding| {
        let short = row.job.short();
        Refusal::new(Reason::ChainBroken, format!("the journal of job {short} does not verify: {finding}"))
            .with_detail("seq", finding.seq)
            .with_next(format!("tenure verify {short}"))
    };
    let mut verifier = ChainVerifier::new(row.tenant.clone(), row.job, row.concluded_head);
    let mut next = Some(Seq(1));
    while let Some(from) = next {
        let page = parts.store.read_records(&row.tenant, row.job, from, &[], PAGE_MAX);
        let page = parts.bulk.ask(page).await?;
        for stored in page.records {
            let tenure_store::StoredRecord { seq, bytes, hash, value, salt, .. } = stored;
            verifier.push(&StoredRecord { seq, bytes, hash, value, salt }).map_err(broken)?;
        }
        next = page.next;
    }
    verifier.finish().map(drop).map_err(broken)
}
