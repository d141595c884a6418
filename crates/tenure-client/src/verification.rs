//! Verifying a job's journal: the whole of it is read, and the chain is recomputed here, from the bytes, by
//! `tenure_core::verify`. Nothing that a coordinator says about its own correctness is believed.

use tenure_core::{
    id::{JobId, Seq},
    verify::{ChainVerifier, Finding, StoredRecord, Verified},
};

use crate::{
    Client, ClientError,
    record::{JournalRecord, RecordPage},
};

/// A journal that verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedJournal {
    /// Of which job.
    pub job: JobId,
    /// What was checked.
    pub verified: Verified,
}

impl Client {
    /// Reads a job's journal to its end and recomputes its chain.
    ///
    /// # Errors
    /// The journal does not verify, or the fleet refuses or does not answer.
    pub async fn verify_job(&self, job: &str) -> Result<VerifiedJournal, ClientError> {
        let mut page = self.list_records(job, Seq(1), &[], 0).await?;
        let job = page.job;
        // A client that means a tenant takes no other's records for its own, whatever the coordinator says.
        let tenant = self.tenant().unwrap_or(&page.tenant).clone();
        let mut verifier = ChainVerifier::new(tenant, job, page.concluded_head);
        let broken = |finding: Finding| ClientError::ChainBroken { job, finding };
        while let Some(next) = check_page(&mut verifier, page).map_err(broken)? {
            page = self.list_records(&job.to_string(), next, &[], 0).await?;
        }
        Ok(VerifiedJournal { job, verified: verifier.finish().map_err(broken)? })
    }
}

/// Checks the records of a page; returns where the next one begins.
fn check_page(verifier: &mut ChainVerifier, page: RecordPage) -> Result<Option<Seq>, Finding> {
    page.records.into_iter().map(stored).try_for_each(|record| verifier.push(&record))?;
    Ok(page.next_seq)
}

fn stored(record: JournalRecord) -> StoredRecord {
    StoredRecord {
        seq: record.seq,
        bytes: record.bytes.to_vec(),
        hash: record.hash,
        value: record.value.map(|value| value.to_vec()),
        salt: record.salt.map(|salt| salt.to_vec()),
    }
}
