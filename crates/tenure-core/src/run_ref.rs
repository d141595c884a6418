//! The name of one run of one job: what everything that is scoped to a run bears. It proves nothing; the statement that
//! writes does the checking. Neighbours: `id` for its parts, `tenure-proto` for its form on the wire.

use std::fmt;

use crate::id::{Epoch, Generation, JobId, Run, Tenant};

/// Names one run of one job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunRef {
    /// The tenant of the job.
    pub tenant: Tenant,
    /// The job.
    pub job: JobId,
    /// The epoch under which the run was claimed.
    pub epoch: Epoch,
    /// The number of the run, from 1.
    pub run: Run,
    /// The number of the database's history under which it was claimed.
    pub generation: Generation,
}

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} of job {} under epoch {}", self.run, self.job.short(), self.epoch)
    }
}
