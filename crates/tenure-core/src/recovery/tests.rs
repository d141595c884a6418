//! Every combination that recovery is asked about, and the pauses before restarts.

use super::*;
use crate::factory::{automatic, crashed, job_id};

fn kinds() -> Vec<(&'static str, Interruption)> {
    vec![
        ("worker_lost", Interruption::WorkerLost),
        ("lost_contact", Interruption::LostContact),
        ("timed_out", Interruption::TimedOut { idle: false, limit_ms: 900_000 }),
        ("timed_out idle", Interruption::TimedOut { idle: true, limit_ms: 1_500 }),
        ("crashed with a code", crashed(3)),
        (
            "crashed by a signal",
            Interruption::Crashed { exit_code: None, signal: Some(11), not_started: None, error: None },
        ),
        (
            "crashed at the start",
            Interruption::Crashed {
                exit_code: None,
                signal: None,
                not_started: Some("no notes".to_owned()),
                error: None,
            },
        ),
        ("ground_stop", Interruption::GroundStop),
    ]
}

#[test]
fn recovery_is_authorized_in_the_order_of_the_rules_over_every_combination() {
    let mut table = String::new();
    for (name, interruption) in kinds() {
        for child in [Child::Gone, Child::Unknown] {
            for policy in [Policy::Automatic, Policy::Manual, Policy::Never] {
                for (so_far, most) in [(0, 0), (0, 2), (1, 2), (2, 2), (3, 2)] {
                    let answer = match authorize_recovery(policy, &interruption, child, so_far, most) {
                        Ok(()) => "yes".to_owned(),
                        Err(denial) => format!("{denial:?}"),
                    };
                    table
                        .push_str(&format!("{name:<20} {child:?} {policy:?} {so_far} of {most}: {answer}\n"));
                }
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn what_a_kind_proves_and_whether_a_restart_can_help() {
    let mut table = String::new();
    for (name, interruption) in kinds() {
        table.push_str(&format!(
            "{name}: retryable {}, may still be running {}, {}\n",
            interruption.retryable(),
            interruption.may_still_be_running(),
            interruption.sentence()
        ));
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_pause_doubles_up_to_its_longest_and_never_wraps() {
    let policy = automatic();
    let pauses_s: Vec<_> = (1..=10).map(|number| backoff(&policy, number).as_secs()).collect();
    assert_eq!(pauses_s, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
    assert_eq!(backoff(&policy, u32::MAX).as_secs(), 300);
    let endless = RecoveryPolicy { backoff_first_ms: u64::MAX, backoff_max_ms: u64::MAX, ..policy };
    assert_eq!(backoff(&endless, 40), Duration::from_millis(u64::MAX));
}

#[test]
fn the_first_restart_of_a_lost_run_is_immediate_and_every_other_waits() {
    for lost in [Interruption::WorkerLost, Interruption::LostContact] {
        assert_eq!([0, 1, 2].map(|granted| pause_number(&lost, granted)), [None, Some(1), Some(2)]);
    }
    for failed in [crashed(1), Interruption::TimedOut { idle: false, limit_ms: 1 }] {
        assert_eq!([0, 1].map(|granted| pause_number(&failed, granted)), [Some(1), Some(2)]);
    }
}

#[test]
fn jitter_depends_on_job_and_attempt_alone_and_takes_at_most_half() {
    let pause = Duration::from_secs(10);
    let pauses: Vec<_> = (2..100).map(|attempt| jitter(pause, job_id(), attempt)).collect();
    assert_eq!(pauses, (2..100).map(|attempt| jitter(pause, job_id(), attempt)).collect::<Vec<_>>());
    assert!(pauses.iter().all(|jittered| (pause / 2..=pause).contains(jittered)));
    assert!(pauses.windows(2).any(|pair| pair[0] != pair[1]));
    assert!(jitter(Duration::MAX, job_id(), 2) <= Duration::MAX);
}

#[test]
fn denials_and_interruptions_read_back_what_they_write() {
    for (name, interruption) in kinds() {
        let json = serde_json::to_string(&interruption).unwrap();
        assert_eq!(serde_json::from_str::<Interruption>(&json).unwrap(), interruption, "{name}");
    }
    for denial in [
        Denial::NotRetryable,
        Denial::ChildUnaccountedFor,
        Denial::PolicyForbids,
        Denial::NeedsAHuman,
        Denial::OutOfAttempts { max_attempts: 2 },
    ] {
        let json = serde_json::to_value(denial).unwrap();
        assert_eq!(json["kind"], denial.word());
        assert_eq!(serde_json::from_value::<Denial>(json).unwrap(), denial);
    }
}
