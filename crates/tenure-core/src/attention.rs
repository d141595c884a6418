//! Whether anything needs a person right now, and which thing. Conditions are named and never summed into one number; each says
//! where it was found, since when, and which command answers it. What a pass could not establish is said beside them, with the reason,
//! and is not taken for nothing. Whether a backlog is large enough to wake somebody is for whoever runs the fleet. Neighbours: the
//! store finds subjects, `limits` has the ages at which something becomes a condition, `docs/operate/attention.md` has the table.

mod remedy;

use std::time::Duration;

pub use remedy::{ALTERNATIVE, Remedy};

use jiff::Timestamp;

use crate::limits::{ABANDONED_LEASE_GRACE, ATTENTION_SUBJECTS_MAX, HALT_STANDING_AGE, UNCLAIMABLE_GRACE};

/// What may need a person, in the order in which it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A job was set aside, because only a person can decide something about it.
    JobQuarantined,
    /// A job met a limit.
    JobExhausted,
    /// A job was stopped by a halt of its principal.
    JobWithheld,
    /// A job was interrupted, and is not restarted by itself.
    JobInterrupted,
    /// A job failed while something that it did stands.
    JobFailedWithLandedWork,
    /// A lease that nobody takes over although its term lapsed.
    JobAbandonedLease,
    /// A job waits for others, and its wait expired.
    JobWaitExpired,
    /// A job waits for a worker, and none that is attached would be offered it.
    JobUnclaimable,
    /// Work was set down, and its pick-up was refused.
    LayoverRefused,
    /// A halt has stood for long.
    HaltStanding,
}

impl Kind {
    /// All, in the order in which they are reported.
    pub const ALL: &'static [Self] = &[
        Self::JobQuarantined,
        Self::JobExhausted,
        Self::JobWithheld,
        Self::JobInterrupted,
        Self::JobFailedWithLandedWork,
        Self::JobAbandonedLease,
        Self::JobWaitExpired,
        Self::JobUnclaimable,
        Self::LayoverRefused,
        Self::HaltStanding,
    ];

    /// The stable name, for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JobQuarantined => "job.quarantined",
            Self::JobExhausted => "job.exhausted",
            Self::JobWithheld => "job.withheld",
            Self::JobInterrupted => "job.interrupted",
            Self::JobFailedWithLandedWork => "job.failed_with_landed_work",
            Self::JobAbandonedLease => "job.abandoned_lease",
            Self::JobWaitExpired => "job.wait_expired",
            Self::JobUnclaimable => "job.unclaimable",
            Self::LayoverRefused => "layover.refused",
            Self::HaltStanding => "halt.standing",
        }
    }
}

/// For how long something is so before it is a condition. Whoever runs the fleet may set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ages {
    /// A job waits for a worker that there is not: [`UNCLAIMABLE_GRACE`] where nothing is said.
    pub unclaimable: Duration,
    /// A lease is unsettled after its term lapsed: [`ABANDONED_LEASE_GRACE`].
    pub abandoned_lease: Duration,
    /// A halt stands: [`HALT_STANDING_AGE`].
    pub halt: Duration,
}

impl Default for Ages {
    fn default() -> Self {
        Self {
            unclaimable: UNCLAIMABLE_GRACE,
            abandoned_lease: ABANDONED_LEASE_GRACE,
            halt: HALT_STANDING_AGE,
        }
    }
}

/// What this release does not look for, and why; in the order of the conditions.
pub const NOT_CHECKED: &[(&str, &str)] = &[
    ("quota.held_by_stopped_job", "this release has no quota"),
    ("job.deadline_at_risk", "this release keeps no times of an agent's runs, and moves no deadline"),
    ("layover.looked_in_vain", "this release counts checks in the next run's handover alone"),
    ("join.stalled", "`tenure session SESSION` says of each join whether it is stalled"),
    ("obligation.breached", "this release has no cases"),
    ("drill.failed", "this release has no drill"),
    ("task.overdue", "this release has no tasks"),
    ("event.dead_lettered", "this release takes no events"),
    ("push.parked", "this release pushes nothing"),
    ("schedule.missed", "this release has no schedules"),
    ("retention.blocked", "this release drops no partition"),
    ("installation.timeline_changed", "coordinators stop claiming and say so in their logs"),
    ("witness.integrity", "this release has no witness"),
    ("clock.skewed", "workers do not tell their clocks"),
];

/// Something that a condition is about, by the name that its remedy takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The id of a job, or the number of a halt.
    pub name: String,
    /// Since when it is so.
    pub since: Timestamp,
}

/// What was found of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The subjects on the page that was read.
    pub subjects: Vec<Subject>,
    /// The page was full, so there may be more.
    pub page_filled: bool,
}

/// Something that needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What.
    pub kind: Kind,
    /// How many on the page that was read; at least 1.
    pub found: u32,
    /// The page was full: the real number is `found` or more.
    pub at_least: bool,
    /// Since when the oldest of them stands.
    pub since: Timestamp,
    /// The first of them: at most [`ATTENTION_SUBJECTS_MAX`].
    pub subjects: Vec<String>,
    /// How many of `found` are not among them.
    pub unlisted: u32,
    /// What answers it, told with the first subject.
    pub remedy: Remedy,
}

impl Condition {
    /// The condition that was found; none: nothing of the kind was.
    #[must_use]
    pub fn of(kind: Kind, found: Found) -> Option<Self> {
        let since = found.subjects.iter().map(|subject| subject.since).min()?;
        let count = u32::try_from(found.subjects.len()).unwrap_or(u32::MAX);
        let first = found.subjects.first()?;
        let remedy = Remedy::of(kind, &first.name);
        let names = found.subjects.into_iter().map(|subject| subject.name);
        let subjects: Vec<String> = names.take(ATTENTION_SUBJECTS_MAX as usize).collect();
        let unlisted = count.saturating_sub(ATTENTION_SUBJECTS_MAX);
        Some(Self { kind, found: count, at_least: found.page_filled, since, subjects, unlisted, remedy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(count: usize, page_filled: bool) -> Found {
        let subject = |no: usize| Subject {
            name: no.to_string(),
            since: Timestamp::from_second(1_000 - i64::try_from(no).unwrap()).unwrap(),
        };
        Found { subjects: (0..count).map(subject).collect(), page_filled }
    }

    #[test]
    fn nothing_found_is_no_condition() {
        for kind in Kind::ALL {
            assert_eq!(Condition::of(*kind, found(0, false)), None, "{}", kind.name());
        }
    }

    #[test]
    fn a_condition_lists_ten_counts_the_rest_and_names_the_oldest() {
        for (count, listed, unlisted) in [(1, 1, 0), (10, 10, 0), (11, 10, 1), (100, 10, 90)] {
            let condition = Condition::of(Kind::JobQuarantined, found(count, count == 100)).unwrap();
            assert_eq!(condition.found as usize, count);
            assert_eq!((condition.subjects.len(), condition.unlisted), (listed, unlisted), "{count}");
            assert_eq!(condition.at_least, count == 100);
            assert_eq!(condition.since.as_second(), 1_001 - i64::try_from(count).unwrap());
        }
    }

    #[test]
    fn every_name_is_said_once_and_either_looked_for_or_not() {
        let looked_for = Kind::ALL.iter().map(|kind| kind.name());
        let names: Vec<&str> = looked_for.chain(NOT_CHECKED.iter().map(|(name, _)| *name)).collect();
        let unique: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
    }
}
