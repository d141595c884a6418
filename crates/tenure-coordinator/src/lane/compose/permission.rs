//! The permission to act: the acknowledgement of an announcement. When it is not asked for in vain, and when one that was
//! given before is given again. Pure; the statement that writes the announcement does the checking of what stands under its key.

use tenure_core::{
    id::{Generation, Seq},
    plan::JobFacts,
    run_ref::RunRef,
};

use super::super::{
    memory::Notices,
    work::{ReportAnswer, StandingNotice},
};

/// What stands against an announcement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hindrance {
    None,
    /// Its writer has not seen this.
    Notice(StandingNotice),
    /// Which notices stand is not known at the remembered head.
    Unknown,
}

/// `announces` is the last notice that the writer of an announcement has seen; none: nothing is announced.
pub(super) fn judge_announcement(announces: Option<Seq>, notices: &Notices) -> Hindrance {
    match (announces, notices) {
        (None, _) => Hindrance::None,
        (Some(seen), Notices::Last(Some(notice))) if notice.seq > seen => Hindrance::Notice(notice.clone()),
        (Some(_), Notices::Last(_)) => Hindrance::None,
        (Some(_), Notices::Unknown) => Hindrance::Unknown,
    }
}

/// The answer to an announcement that is in the journal at `seq`: the permission again where the lease, as it was just read,
/// is unreleased and its epoch the run's; otherwise somebody else may have performed the effect by now.
pub(super) fn judge_permission(facts: &JobFacts, run: &RunRef, seq: Seq) -> ReportAnswer {
    let live = facts.lease.as_ref().filter(|lease| lease.live);
    // On another timeline there is no present generation.
    let present = facts.generation == run.generation && facts.generation != Generation::NONE;
    if present && live.is_some_and(|lease| lease.epoch == run.epoch) {
        return ReportAnswer::Applied(seq);
    }
    let epoch = facts.lease.as_ref().map_or(facts.head_epoch, |lease| lease.epoch);
    let held_by = live.map(|lease| lease.worker.clone());
    ReportAnswer::Fenced { held_by, epoch, applied: Some(seq) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_hindered_by_a_notice_that_its_writer_has_not_seen_and_by_not_knowing() {
        let notice = |seq| StandingNotice { seq: Seq(seq), kind: "cancel_requested" };
        let standing = Notices::Last(Some(notice(7)));
        assert_eq!(judge_announcement(Some(Seq(6)), &standing), Hindrance::Notice(notice(7)));
        assert_eq!(judge_announcement(Some(Seq(7)), &standing), Hindrance::None);
        assert_eq!(judge_announcement(Some(Seq(0)), &Notices::Last(None)), Hindrance::None);
        assert_eq!(judge_announcement(Some(Seq(0)), &Notices::Unknown), Hindrance::Unknown);
        for notices in [standing, Notices::Unknown] {
            assert_eq!(judge_announcement(None, &notices), Hindrance::None, "outcomes are taken");
        }
    }
}
