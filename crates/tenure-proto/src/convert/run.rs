//! The name of a run on the wire.

use tenure_core::{
    id::{Epoch, Generation, Run},
    run_ref::RunRef,
};

use super::{
    InvalidField,
    id::{read_job_id, read_tenant},
    require,
};
use crate::v1;

/// The name of a run as it goes onto the wire.
#[must_use]
pub fn write_run_ref(run: &RunRef) -> v1::RunRef {
    v1::RunRef {
        tenant: run.tenant.to_string(),
        job_id: run.job.to_string(),
        epoch: run.epoch.0,
        run: run.run.0,
        generation: run.generation.0,
    }
}

/// The name of a run from the wire.
///
/// # Errors
/// It is absent, or its tenant or job is not one.
pub fn read_run_ref(given: Option<&v1::RunRef>) -> Result<RunRef, InvalidField> {
    let given = require("run", given)?;
    Ok(RunRef {
        tenant: read_tenant("run.tenant", &given.tenant)?,
        job: read_job_id("run.job_id", &given.job_id)?,
        epoch: Epoch(given.epoch),
        run: Run(given.run),
        generation: Generation(given.generation),
    })
}

/// The names of several runs from the wire.
///
/// # Errors
/// One of them cannot be read.
pub fn read_run_refs(given: &[v1::RunRef]) -> Result<Vec<RunRef>, InvalidField> {
    given.iter().map(|run| read_run_ref(Some(run))).collect()
}
