//! Waits on the wire: as they are asked for, announced, and over.

use tenure_core::{
    id::JobId,
    limits::WAIT_JOBS_MAX,
    wait::{Until, Wait},
};

use super::{
    InvalidField,
    id::read_job_id,
    require,
    step::read_step_name,
    time::{read_duration, read_timestamp, write_duration, write_timestamp},
};
use crate::v1;

/// When, as it goes onto the wire.
#[must_use]
pub fn write_until(until: Until) -> v1::WaitUntil {
    use v1::wait_until::When;
    let when = match until {
        Until::At(at) => When::At(write_timestamp(at)),
        Until::After(span) => When::After(write_duration(span)),
    };
    v1::WaitUntil { when: Some(when) }
}

/// When, from the wire; none where it is not said.
///
/// # Errors
/// It is no instant and no span.
pub fn read_until(field: &'static str, given: Option<&v1::WaitUntil>) -> Result<Option<Until>, InvalidField> {
    use v1::wait_until::When;
    let Some(given) = given else { return Ok(None) };
    match require(field, given.when.as_ref())? {
        When::At(at) => Ok(Some(Until::At(read_timestamp(field, at)?))),
        When::After(span) => Ok(Some(Until::After(read_duration(field, span)?))),
    }
}

/// A wait as it goes onto the wire.
#[must_use]
pub fn write_wait(wait: &Wait) -> v1::Wait {
    v1::Wait {
        name: wait.name.as_str().to_owned(),
        until: Some(write_timestamp(wait.until)),
        job_ids: wait.jobs.iter().map(JobId::to_string).collect(),
    }
}

/// A wait from the wire.
///
/// # Errors
/// Its name or its instant is none.
pub fn read_wait(field: &'static str, given: &v1::Wait) -> Result<Wait, InvalidField> {
    Ok(Wait {
        name: read_step_name(field, &given.name)?,
        until: read_timestamp(field, require(field, given.until.as_ref())?)?,
        jobs: read_awaited_ids(field, &given.job_ids)?,
    })
}

/// The jobs of a wait, from the wire.
///
/// # Errors
/// One of them is no id, or there are more than one wait takes.
pub fn read_awaited_ids(field: &'static str, given: &[String]) -> Result<Vec<JobId>, InvalidField> {
    if given.len() > WAIT_JOBS_MAX {
        let shown = format!("{} jobs", given.len());
        return Err(InvalidField::malformed(field, &shown, "at most 1,000 jobs"));
    }
    given.iter().map(|id| read_job_id(field, id)).collect()
}
