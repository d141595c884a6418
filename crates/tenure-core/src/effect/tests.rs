//! What an announcement is answered with, over everything that can be recorded.

mod model;

use jiff::Timestamp;

use super::*;
use crate::id::{Digest, JobId, Run, Seq};

fn last(recovery: EffectRecovery, outcome: Outcome) -> LastAttempt {
    LastAttempt {
        attempt: 2,
        run: Run(1),
        announced: Seq(7),
        since: Timestamp::UNIX_EPOCH,
        recovery,
        mutates: true,
        request: Digest::of(b"git push"),
        outcome,
    }
}

fn every_outcome() -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::Open, Outcome::Done];
    outcomes.extend(Disposition::ALL.iter().map(|disposition| Outcome::Failed(*disposition)));
    outcomes.extend(Disposition::ALL.iter().map(|disposition| Outcome::Reconciled(*disposition)));
    outcomes
}

#[test]
fn what_an_announcement_is_answered_with_over_every_recovery_and_outcome() {
    let mut shown = format!("nothing: {:?}\n", decide_announcement(None));
    for recovery in EffectRecovery::ALL {
        for outcome in every_outcome() {
            let answer = decide_announcement(Some(&last(*recovery, outcome)));
            shown.push_str(&format!("{recovery:?} {outcome:?}: {answer:?}\n"));
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn nothing_is_performed_after_an_outcome_that_says_it_happened() {
    for recovery in EffectRecovery::ALL {
        for outcome in
            [Outcome::Done, Outcome::Failed(Disposition::Landed), Outcome::Reconciled(Disposition::Landed)]
        {
            let answer = decide_announcement(Some(&last(*recovery, outcome)));
            assert!(
                matches!(answer, Announcement::Done | Announcement::FailedForGood),
                "{recovery:?} {outcome:?}"
            );
        }
    }
}

#[test]
fn an_attempt_is_performed_again_only_while_its_announcement_is_its_last_record() {
    for recovery in EffectRecovery::ALL {
        for outcome in every_outcome() {
            let answer = decide_announcement(Some(&last(*recovery, outcome)));
            if matches!(answer, Announcement::PerformAgain { .. }) {
                assert_eq!(outcome, Outcome::Open, "{recovery:?}");
            }
        }
    }
}

#[test]
fn whatever_is_in_doubt_can_be_answered_also_after_an_inconclusive_verdict_and_nothing_else_can() {
    for recovery in EffectRecovery::ALL.iter().copied() {
        for outcome in every_outcome() {
            for verdict in Disposition::ALL.iter().copied() {
                let key: EffectKey = "git/push".parse().unwrap();
                let mark = EffectMark { key, attempt: 2, act: EffectAct::Reconciled(verdict) };
                let told = follow_act(Some(Standing { attempt: 2, outcome, recovery }), &mark);
                assert_eq!(told.is_ok(), outcome.is_in_doubt(), "{recovery:?} {outcome:?} {verdict:?}");
            }
        }
        let inconclusive = last(recovery, Outcome::Reconciled(Disposition::InDoubt));
        assert_eq!(decide_announcement(Some(&inconclusive)), Announcement::Undecided, "{recovery:?}");
    }
}

#[test]
fn a_key_is_bounded_text_and_names_its_tool() {
    let key: EffectKey = "git/push/v1.2".parse().unwrap();
    assert_eq!(key.tool(), "git");
    assert_eq!("announce".parse::<EffectKey>().unwrap().tool(), "announce");
    assert!("".parse::<EffectKey>().is_err());
    assert!("a\nb".parse::<EffectKey>().is_err());
    assert!("k".repeat(crate::limits::KEY_MAX_BYTES + 1).parse::<EffectKey>().is_err());
    let job: JobId = "0190c8a0-0000-7000-8000-000000000001".parse().unwrap();
    assert_eq!(key.idempotency_key(job), format!("{job}/git/push/v1.2"));
}
