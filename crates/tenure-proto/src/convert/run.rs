//! The name of a run and how it ended, on the wire.

use std::time::Duration;

use tenure_core::{
    id::{Epoch, Generation, Run},
    run_ref::RunRef,
    settlement::RunEnd,
};

use super::{
    InvalidField,
    effect::read_effect_key,
    id::{read_job_id, read_tenant},
    require,
    time::{read_duration, write_duration},
    wait::{read_wait, write_wait},
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

/// How a child ended, as it goes onto the wire.
#[must_use]
pub fn write_run_end(end: &RunEnd) -> v1::RunEnd {
    use v1::run_end::How;
    let limit = |limit_ms: &u64| Some(write_duration(Duration::from_millis(*limit_ms)));
    let how = match end {
        RunEnd::ExitCode(code) => How::ExitCode(*code),
        RunEnd::Signal(signal) => How::Signal(*signal),
        RunEnd::OwnTimeout { limit_ms } => How::OwnTimeout(v1::OwnTimeout { limit: limit(limit_ms) }),
        RunEnd::IdleTimeout { limit_ms } => How::IdleTimeout(v1::IdleTimeout { limit: limit(limit_ms) }),
        RunEnd::Cancel => How::Cancel(v1::CancelObserved {}),
        RunEnd::NotStarted { reason } => How::NotStarted(v1::NotStarted { reason: reason.clone() }),
        RunEnd::ContactLost => How::ContactLost(v1::ContactLost { drained: false }),
        RunEnd::Drained => How::ContactLost(v1::ContactLost { drained: true }),
        RunEnd::HandlerFailed { error, is_final } => {
            How::HandlerFailed(v1::HandlerFailed { error: error.clone(), is_final: *is_final })
        }
        RunEnd::DeadlineReached => How::DeadlineReached(v1::DeadlineObserved {}),
        RunEnd::Waiting(wait) => How::Waiting(write_wait(wait)),
        RunEnd::Unwound => How::Unwound(v1::Unwound {}),
        RunEnd::UndoFailed { key, error } => {
            How::UndoFailed(v1::UndoFailed { key: key.to_string(), error: error.clone() })
        }
    };
    v1::RunEnd { how: Some(how) }
}

/// How a child ended, from the wire.
///
/// # Errors
/// It is absent, of a kind that this release does not know, or bears a limit that is no span.
pub fn read_run_end(given: Option<v1::RunEnd>) -> Result<RunEnd, InvalidField> {
    use v1::run_end::How;
    match require("end.how", require("end", given)?.how)? {
        How::ExitCode(code) => Ok(RunEnd::ExitCode(code)),
        How::Signal(signal) => Ok(RunEnd::Signal(signal)),
        How::OwnTimeout(v1::OwnTimeout { limit }) => {
            Ok(RunEnd::OwnTimeout { limit_ms: read_limit_ms("end.own_timeout.limit", limit.as_ref())? })
        }
        How::IdleTimeout(v1::IdleTimeout { limit }) => {
            Ok(RunEnd::IdleTimeout { limit_ms: read_limit_ms("end.idle_timeout.limit", limit.as_ref())? })
        }
        How::Cancel(v1::CancelObserved {}) => Ok(RunEnd::Cancel),
        How::NotStarted(v1::NotStarted { reason }) => Ok(RunEnd::NotStarted { reason }),
        How::ContactLost(v1::ContactLost { drained: false }) => Ok(RunEnd::ContactLost),
        How::ContactLost(v1::ContactLost { drained: true }) => Ok(RunEnd::Drained),
        How::HandlerFailed(v1::HandlerFailed { error, is_final }) => {
            Ok(RunEnd::HandlerFailed { error, is_final })
        }
        How::DeadlineReached(v1::DeadlineObserved {}) => Ok(RunEnd::DeadlineReached),
        How::Waiting(wait) => Ok(RunEnd::Waiting(read_wait("end.waiting", &wait)?)),
        How::Unwound(v1::Unwound {}) => Ok(RunEnd::Unwound),
        How::UndoFailed(v1::UndoFailed { key, error }) => {
            Ok(RunEnd::UndoFailed { key: read_effect_key("end.undo_failed.key", &key)?, error })
        }
    }
}

fn read_limit_ms(field: &'static str, given: Option<&prost_types::Duration>) -> Result<u64, InvalidField> {
    let limit = read_duration(field, require(field, given)?)?;
    Ok(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use tenure_core::wait::Wait;

    use super::*;

    #[test]
    fn ends_read_back_what_they_wrote() {
        for end in [
            RunEnd::ExitCode(65),
            RunEnd::Signal(9),
            RunEnd::OwnTimeout { limit_ms: 900_000 },
            RunEnd::IdleTimeout { limit_ms: 1_500 },
            RunEnd::Cancel,
            RunEnd::NotStarted { reason: "no user agents".into() },
            RunEnd::ContactLost,
            RunEnd::Drained,
            RunEnd::HandlerFailed { error: "no such mailbox".into(), is_final: true },
            RunEnd::DeadlineReached,
            RunEnd::Waiting(Wait {
                name: "#1".parse().unwrap(),
                until: jiff::Timestamp::from_microsecond(1_796_000_000_123_456).unwrap(),
                jobs: vec!["0193a7c2-1111-7000-8000-00000000abcd".parse().unwrap()],
            }),
            RunEnd::Unwound,
            RunEnd::UndoFailed { key: "undo:git/push".parse().unwrap(), error: "no route".into() },
        ] {
            assert_eq!(read_run_end(Some(write_run_end(&end))), Ok(end));
        }
    }

    #[test]
    fn an_end_that_says_nothing_is_refused() {
        assert_eq!(read_run_end(None).unwrap_err().field(), "end");
        assert_eq!(read_run_end(Some(v1::RunEnd { how: None })).unwrap_err().field(), "end.how");
    }

    #[test]
    fn names_of_runs_read_back_what_they_wrote() {
        let wire = v1::RunRef {
            tenant: "default".into(),
            job_id: "0193a7c2-1111-7000-8000-00000000abcd".into(),
            epoch: 4,
            run: 2,
            generation: 1,
        };
        assert_eq!(write_run_ref(&read_run_ref(Some(&wire)).unwrap()), wire);
    }
}
