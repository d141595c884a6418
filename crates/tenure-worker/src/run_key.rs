//! What tells the runs of a worker apart: the tenant, the job and the epoch. Orders and lost grants are matched by it and
//! not by the whole name of the run, because the number of the run follows from its epoch.

use tenure_core::{
    id::{Epoch, JobId, Tenant},
    run_ref::RunRef,
};

/// One run among those of a worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunKey {
    tenant: Tenant,
    job: JobId,
    epoch: Epoch,
}

impl From<&RunRef> for RunKey {
    fn from(run: &RunRef) -> Self {
        Self { tenant: run.tenant.clone(), job: run.job, epoch: run.epoch }
    }
}
