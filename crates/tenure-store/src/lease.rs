//! Leases as the sweep and the guardians' reports need them. They are written by claims and by appends.

use std::time::Duration;

use tenure_core::{
    id::{Digest, Epoch, Generation, JobId, Run, Tenant, Term, WorkerName},
    plan::JobFacts,
};

use crate::{Store, StoreError};

/// A lease that its worker does not name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostGrant {
    /// Whose.
    pub tenant: Tenant,
    /// Which job.
    pub job: JobId,
    /// The epoch of the claim.
    pub epoch: Epoch,
    /// The run.
    pub run: Run,
    /// The generation of the claim.
    pub generation: Generation,
}

/// What proves that a report about a run comes from its guardian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSecret {
    /// SHA-256 of the run's secret.
    pub secret_hash: Digest,
    /// The generation of the claim.
    pub generation: Generation,
    /// Who holds or held the lease.
    pub worker: WorkerName,
    /// True until the run is settled.
    pub live: bool,
}

impl Store {
    /// Lists every unreleased lease under a closed term, oldest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_lapsed_leases(&self, _limit: u32) -> Result<Vec<JobFacts>, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Lists the unreleased leases of a term that were granted more than `age` ago and are not among `known`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_lost_grants(
        &self,
        _worker: &WorkerName,
        _term: Term,
        _known: &[(Tenant, JobId, Epoch)],
        _age: Duration,
    ) -> Result<Vec<LostGrant>, StoreError> {
        Err(StoreError::unwritten())
    }

    /// Reads the hashed secret of the run that was claimed under `epoch`, while it is unsettled or unaccounted for.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_run_secret(
        &self,
        _tenant: &Tenant,
        _job: JobId,
        _epoch: Epoch,
    ) -> Result<Option<RunSecret>, StoreError> {
        Err(StoreError::unwritten())
    }
}
