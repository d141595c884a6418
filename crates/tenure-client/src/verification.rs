//! Verifying a job's journal: the whole of it is read, and the chain is recomputed here, from the bytes, by
//! `tenure_core::verify`. Nothing that a coordinator says about its own correctness is believed.

use tenure_core::{
    id::{JobId, Seq},
    reason::Reason,
    verify::{ChainFlaw, ChainVerifier, Finding, NamedBlob, StoredRecord, Verified},
};

use crate::{
    Client, ClientError,
    record::{JournalRecord, RecordPage},
};

/// A journal that verifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedJournal {
    /// Of which job.
    pub job: JobId,
    /// What was checked.
    pub verified: Verified,
}

impl Client {
    /// Reads a job's journal to its end and recomputes its chain, and the digests of the values that it names, also of those
    /// that lie in the blob store.
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
        let mut verified = verifier.finish().map_err(broken)?;
        for blob in std::mem::take(&mut verified.blobs) {
            match self.check_blob(job, blob).await? {
                None => verified.values_erased += 1,
                Some(Ok(())) => verified.values_checked += 1,
                Some(Err(flaw)) => return Err(broken(Finding { seq: blob.seq, flaw })),
            }
        }
        Ok(VerifiedJournal { job, verified })
    }

    /// Reads a value and computes its digest; none where it was erased after the journal was read.
    async fn check_blob(
        &self,
        job: JobId,
        blob: NamedBlob,
    ) -> Result<Option<Result<(), ChainFlaw>>, ClientError> {
        let mut reader = self.read_blob(job, blob.reference);
        loop {
            match reader.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(Some(Ok(()))),
                Err(error) => {
                    return match error.reason() {
                        Reason::ValueErased => Ok(None),
                        Reason::BlobNotFound => Ok(Some(Err(ChainFlaw::ValueMissing))),
                        Reason::BlobDiffers => Ok(Some(Err(ChainFlaw::ValueEdited))),
                        _ => Err(error),
                    };
                }
            }
        }
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
