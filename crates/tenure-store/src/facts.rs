//! What is known of a job, for whoever decides.

use tenure_core::{
    id::{JobId, Tenant},
    plan::JobFacts,
};

use crate::{Store, StoreError};

impl Store {
    /// Reads the facts of some jobs in one statement, in the order asked; nothing where there is no such job.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn read_facts(&self, _wanted: &[(Tenant, JobId)]) -> Result<Vec<Option<JobFacts>>, StoreError> {
        Err(StoreError::unwritten())
    }
}
