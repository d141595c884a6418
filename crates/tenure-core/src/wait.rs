//! Waits: what a run asked to wait for when it ended on purpose, whether that may be waited for, and what came of it. A wait
//! is for an instant, or for other jobs until they have concluded; one for jobs has an instant too, at which it expires.
//! It has a name that is unique in its run, so that the next run, which repeats its script, is answered where it stands in
//! the same place. It reads no clock and wakes nobody. Neighbours: `settlement` suspends and wakes, `verb` resumes what
//! expired, `handover` tells.

use std::time::Duration;

use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};

use crate::{
    deadline,
    id::{JobId, Seq},
    job::State,
    limits::{WAIT_JOBS_MAX, WAIT_MAX},
    reason::Reason,
    record::SaltedValue,
    refusal::Refusal,
    step::StepName,
};

/// A wait that may be waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// What tells it apart from the other waits of its run.
    pub name: StepName,
    /// For an instant, that instant; for jobs, when the wait for them expires.
    pub until: Timestamp,
    /// The jobs, each once. Empty: it is for the instant.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub jobs: Vec<JobId>,
}

impl Wait {
    /// True where another wait is this one, asked for by another run: an instant that is given as a span is another one each
    /// time.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        let sorted = |jobs: &[JobId]| {
            let mut jobs = jobs.to_vec();
            jobs.sort_unstable();
            jobs
        };
        self.name == other.name && sorted(&self.jobs) == sorted(&other.jobs)
    }
}

/// When, as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// That instant.
    At(Timestamp),
    /// So long after the asking, by the database's clock.
    After(Duration),
}

impl Until {
    /// The instant, to the microsecond, as the database keeps it.
    #[must_use]
    pub fn settle(self, now: Timestamp) -> Timestamp {
        let at = match self {
            Self::At(at) => at,
            Self::After(span) => deadline::add(now, span),
        };
        at.round(Unit::Microsecond).unwrap_or(at)
    }
}

/// Whether an instant may be waited for: it lies in the future, before the session's deadline, and at most 31 days away.
///
/// # Errors
/// It does not; the refusal names both instants.
pub fn check_instant(
    what: &str,
    at: Timestamp,
    deadline_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let words = if at <= now {
        format!("{what} until {at} is over already: it is {now}")
    } else if deadline_at.is_some_and(|deadline_at| at >= deadline_at) {
        let deadline_at = deadline_at.unwrap_or(at);
        format!("{what} until {at} is not over before the session's deadline, {deadline_at}")
    } else if deadline::between(now, at) > WAIT_MAX {
        let days = WAIT_MAX.as_secs() / 86_400;
        format!("{what} until {at} is longer than {days} days: it is {now}")
    } else {
        return Ok(());
    };
    Err(Refusal::new(Reason::WaitOutOfBounds, words).with_detail("until", at).with_detail("now", now))
}

/// Whether a run of the job `own` may wait so. A wait for jobs that says no instant expires at the session's deadline, and
/// after 31 days at the latest.
///
/// # Errors
/// Its instant is none that may be waited for, or its jobs are none or too many.
pub fn admit_wait(
    name: StepName,
    until: Option<Until>,
    mut jobs: Vec<JobId>,
    own: JobId,
    deadline_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<Wait, Refusal> {
    let mut seen = std::collections::BTreeSet::new();
    jobs.retain(|job| seen.insert(*job));
    if jobs.len() > WAIT_JOBS_MAX {
        let words =
            format!("{} jobs were named, and at most {WAIT_JOBS_MAX} are waited for at once", jobs.len());
        return Err(refuse_jobs(words));
    }
    if jobs.contains(&own) {
        return Err(refuse_jobs(format!("job {} cannot wait for itself", own.short())));
    }
    let until = match until {
        Some(until) => {
            let at = until.settle(now);
            check_instant("a wait", at, deadline_at, now)?;
            at
        }
        None if jobs.is_empty() => {
            let words = "a wait is for an instant or for jobs, and neither was named";
            return Err(Refusal::new(Reason::InvalidArgument, words).with_detail("field", "until"));
        }
        None => {
            let latest = deadline::add(now, WAIT_MAX);
            deadline_at.map_or(latest, |deadline_at| deadline_at.min(latest))
        }
    };
    Ok(Wait { name, until, jobs })
}

fn refuse_jobs(words: String) -> Refusal {
    Refusal::new(Reason::InvalidArgument, words).with_detail("field", "job_ids")
}

/// The wait of a suspended job, as its row has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitFacts {
    /// The record that suspended the job.
    pub seq: Seq,
    /// Its name.
    pub name: StepName,
    /// For an instant, that instant; for jobs, when the wait for them expires.
    pub until: Timestamp,
    /// How many jobs it is for; 0: for the instant.
    pub jobs: u64,
    /// How many of them have not concluded, as far as it was noticed.
    pub left: u64,
}

impl WaitFacts {
    /// True where its instant passed before its jobs had concluded: only a person has it go on.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.left > 0 && self.until <= now
    }

    /// True where what it is for is there.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        if self.jobs == 0 { self.until <= now } else { self.left == 0 }
    }
}

/// How an awaited job concluded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedOutcome {
    /// The job.
    pub job: JobId,
    /// The state that it concluded in.
    pub outcome: State,
    /// Why, as a stable word. Absent where the outcome says it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// True where a job in this state is waited for no longer.
#[must_use]
pub const fn is_awaited_end(state: State) -> bool {
    match state {
        State::Succeeded | State::Failed | State::Cancelled | State::Abandoned | State::Expired => true,
        State::Ready
        | State::Running
        | State::Suspended
        | State::Interrupted
        | State::Exhausted
        | State::Withheld
        | State::Quarantined => false,
    }
}

/// What woke a job, as its next run's cause has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WokenBy {
    /// The name of the wait.
    pub name: StepName,
    /// The instant that was due; absent where it was for jobs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub due: Option<Timestamp>,
    /// The first of the jobs, and how each concluded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub jobs: Vec<AwaitedOutcome>,
    /// How many jobs there were.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub count: u64,
}

/// What came of an awaited job, as the run after the wait is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AwaitedResult {
    /// How it concluded.
    #[serde(flatten)]
    pub outcome: AwaitedOutcome,
    /// The beginning of what it returned, as text; absent: it returned nothing, or nothing that lies in the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// True where it returned more than that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What came of the jobs that a wait was for: all of them, and the same as the value that lies beside the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedOutcomes {
    /// In the order in which they were asked for.
    pub outcomes: Vec<AwaitedOutcome>,
    /// JSON.
    pub value: SaltedValue,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        factory::{job_id, second},
        limits::STEP_NAME_MAX_BYTES,
    };

    fn name(text: &str) -> StepName {
        text.parse().unwrap()
    }

    fn admit(until: Option<Until>, jobs: Vec<JobId>) -> Result<Wait, Refusal> {
        admit_wait(name("#1"), until, jobs, job_id(), Some(second(3_600)), second(60))
    }

    fn other(number: u128) -> JobId {
        JobId(uuid::Uuid::from_u128(job_id().0.as_u128() + number))
    }

    #[test]
    fn an_instant_in_the_future_and_before_the_deadline_is_waited_for() {
        let wait = admit(Some(Until::At(second(120))), Vec::new()).unwrap();
        assert_eq!((wait.until, wait.jobs.len()), (second(120), 0));
        let wait = admit(Some(Until::After(Duration::from_secs(60))), Vec::new()).unwrap();
        assert_eq!(wait.until, second(120));
    }

    #[test]
    fn an_instant_that_is_over_or_beyond_the_deadline_or_31_days_away_is_not() {
        for until in [Until::At(second(60)), Until::After(Duration::ZERO), Until::At(second(3_600))] {
            let refusal = admit(Some(until), Vec::new()).unwrap_err();
            assert_eq!(refusal.reason, Reason::WaitOutOfBounds, "{until:?}");
        }
        let late = Some(Until::After(WAIT_MAX + Duration::from_secs(1)));
        let refusal = admit_wait(name("#1"), late, Vec::new(), job_id(), None, second(60)).unwrap_err();
        assert_eq!(refusal.reason, Reason::WaitOutOfBounds);
        let longest = Some(Until::After(WAIT_MAX));
        assert!(admit_wait(name("#1"), longest, Vec::new(), job_id(), None, second(60)).is_ok());
    }

    #[test]
    fn jobs_are_waited_for_each_once_and_until_the_deadline_where_nothing_is_said() {
        let wait = admit(None, vec![other(1), other(2), other(1)]).unwrap();
        assert_eq!((wait.until, wait.jobs), (second(3_600), vec![other(1), other(2)]));
        let unbounded = admit_wait(name("#1"), None, vec![other(1)], job_id(), None, second(60)).unwrap();
        assert_eq!(unbounded.until, deadline::add(second(60), WAIT_MAX));
        let beyond = admit(Some(Until::At(second(9_000))), vec![other(1)]).unwrap_err();
        assert_eq!(beyond.reason, Reason::WaitOutOfBounds);
    }

    #[test]
    fn nothing_itself_and_too_many_are_not_waited_for() {
        let many = (1..=WAIT_JOBS_MAX as u128 + 1).map(other).collect();
        for jobs in [Vec::new(), vec![job_id()], many] {
            assert_eq!(admit(None, jobs).unwrap_err().reason, Reason::InvalidArgument);
        }
    }

    #[test]
    fn a_wait_is_the_same_where_its_name_and_its_jobs_are() {
        let wait = |text: &str, jobs| Wait { name: name(text), until: second(60), jobs };
        let later = Wait { until: second(90), ..wait("#1", vec![other(2), other(1)]) };
        assert!(wait("#1", vec![other(1), other(2)]).is_same_as(&later));
        assert!(!wait("#1", vec![other(1)]).is_same_as(&later));
        assert!(!wait("#2", vec![other(1), other(2)]).is_same_as(&later));
        assert!(!wait("#1", Vec::new()).is_same_as(&later));
    }

    #[test]
    fn the_largest_wait_fits_into_a_record() {
        let jobs = (1..=WAIT_JOBS_MAX as u128).map(other).collect();
        let wait = Wait { name: name(&"\"".repeat(STEP_NAME_MAX_BYTES)), until: second(1), jobs };
        let json = serde_json::to_vec(&wait).unwrap();
        assert!(json.len() + 1_024 < crate::limits::RECORD_MAX_BYTES, "{}", json.len());
    }
}
