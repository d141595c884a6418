//! The order of refusals, the settings that a submission takes over, and its bounds.

use jiff::Timestamp;

use super::*;
use crate::{
    chain::value_digest,
    deadline::Deadline,
    declaration::{Declaration, PolicyBundle},
    factory::{person, running, second, start},
    halt::{Scope, StandingHalt},
    id::{HaltId, Run, SessionId},
    limits::{KEY_MAX_BYTES, LABEL_MAX_BYTES, LABELS_MAX},
    money::Micros,
    plan::JobFacts,
    reason::Reason,
    record::{DeadlineSetting, RecordKind},
    refusal::Refusal,
    sending::{Sender, Way},
};

fn everything_refuses() -> RunAdmission {
    let full = Some(Amount { used: 5, limit: 5 });
    RunAdmission {
        halt: Some(StandingHalt {
            scope: Scope::Agent("release-notes".parse().unwrap()),
            id: HaltId(7),
            why: "it spams".to_owned(),
        }),
        deadline: Deadline::new(start(), Some(second(60))),
        now: second(60),
        hops_left: Some(1),
        budget_micros: full,
        runs: full,
        reserve_micros: full,
        quota: Some(Quota { settled: 3, reserved: 2, requested: 1, limit: 5 }),
        concurrency: full,
    }
}

#[test]
fn refusals_of_a_run_come_in_their_order_and_the_first_is_named() {
    let lift: [fn(&mut RunAdmission); 8] = [
        |run| run.halt = None,
        |run| run.now = second(59),
        |run| run.hops_left = Some(2),
        |run| run.budget_micros = Some(Amount { used: 4, limit: 5 }),
        |run| run.runs = Some(Amount { used: 4, limit: 5 }),
        |run| run.reserve_micros = Some(Amount { used: 4, limit: 5 }),
        |run| run.quota = Some(Quota { settled: 3, reserved: 1, requested: 1, limit: 5 }),
        |run| run.concurrency = Some(Amount { used: 4, limit: 5 }),
    ];
    let mut run = everything_refuses();
    let mut words = String::new();
    for lift in lift {
        let refusal = admit_run(&run).unwrap_err();
        words.push_str(&format!("{}: {refusal}\n", refusal.limit().unwrap_or("-")));
        lift(&mut run);
    }
    assert_eq!(admit_run(&run), Ok(()));
    insta::assert_snapshot!(words);
}

#[test]
fn limits_that_nobody_has_set_pass() {
    let run = RunAdmission {
        halt: None,
        deadline: Deadline::new(start(), None),
        now: Timestamp::MAX,
        hops_left: None,
        budget_micros: None,
        runs: None,
        reserve_micros: None,
        quota: None,
        concurrency: None,
    };
    assert_eq!(admit_run(&run), Ok(()));
}

fn submission() -> Submission {
    Submission {
        agent: "release-notes".parse().unwrap(),
        input: b"v1.2.0".to_vec().into(),
        key: None,
        deadline: None,
        labels: [("team".to_owned(), "web".to_owned())].into(),
        priority: None,
        not_before: None,
        traceparent: None,
        layover: None,
    }
}

fn declaration() -> Declaration {
    Declaration::parse(br#"{"command":["notes"],"input-limit":"1 KiB","requires":["git"]}"#).unwrap()
}

fn admit(submission: Submission) -> Result<Admitted, Refusal> {
    admit_submission(submission, &declaration(), None, start())
}

#[test]
fn what_a_submission_does_not_say_its_agent_says_then_the_tenant_then_the_default() {
    let admitted = admit(submission()).unwrap();
    assert_eq!(admitted.deadline, DeadlineSetting::CeilingS(3_600));
    assert_eq!((admitted.deadline_at, admitted.started_at), (Some(second(3_600)), start()));
    assert_eq!((admitted.priority, admitted.hops, admitted.run_cap), (1, 8, 64));
    assert_eq!(admitted.requires, ["git"]);
    let bundle = PolicyBundle::parse(br#"{"limits":{"deadline":"2h","hops":3}}"#).unwrap();
    let admitted = admit_submission(submission(), &declaration(), Some(&bundle), start()).unwrap();
    assert_eq!((admitted.deadline, admitted.hops), (DeadlineSetting::CeilingS(7_200), 3));
    assert_eq!(admitted.bundle, Some(bundle.digest()));
    assert_eq!((admitted.run_cap, admitted.budget), (64, Micros(5_000_000)));
    let bundle = PolicyBundle::parse(br#"{"limits":{"budget":"2.50","runs":5}}"#).unwrap();
    let admitted = admit_submission(submission(), &declaration(), Some(&bundle), start()).unwrap();
    assert_eq!((admitted.run_cap, admitted.budget), (5, Micros(2_500_000)));
    let frugal = br#"{"command":["notes"],"limits":{"budget":"0.10"}}"#;
    let frugal = Declaration::parse(frugal).unwrap();
    let admitted = admit_submission(submission(), &frugal, Some(&bundle), start()).unwrap();
    assert_eq!((admitted.run_cap, admitted.budget), (5, Micros(100_000)));
    let bundle = PolicyBundle::parse(br#"{"limits":{"deadline":"2h","hops":3}}"#).unwrap();
    let hasty = Submission { deadline: Some(DeadlineSetting::CeilingS(5)), ..submission() };
    let admitted = admit_submission(hasty, &declaration(), Some(&bundle), start()).unwrap();
    assert_eq!(admitted.deadline, DeadlineSetting::CeilingS(5));
}

#[test]
fn a_delayed_session_starts_when_it_was_asked_to_and_a_past_start_is_now() {
    let delayed = admit(Submission { not_before: Some(second(600)), ..submission() }).unwrap();
    assert_eq!((delayed.not_before, delayed.started_at), (Some(second(600)), second(600)));
    assert_eq!(delayed.deadline_at, Some(second(4_200)));
    let past = admit(Submission { not_before: Some(second(-1)), ..submission() }).unwrap();
    assert_eq!((past.not_before, past.started_at), (None, start()));
}

#[test]
fn what_is_beyond_a_bound_is_refused_naming_the_field() {
    let cases: Vec<(&str, Reason, Submission)> = vec![
        ("input", Reason::InputTooLarge, Submission { input: vec![0; 1_025].into(), ..submission() }),
        ("key", Reason::InvalidArgument, Submission { key: Some(String::new()), ..submission() }),
        (
            "key",
            Reason::InvalidArgument,
            Submission { key: Some("k".repeat(KEY_MAX_BYTES + 1)), ..submission() },
        ),
        ("priority", Reason::InvalidArgument, Submission { priority: Some(4), ..submission() }),
        (
            "labels",
            Reason::InvalidArgument,
            Submission { labels: [(" ".to_owned(), String::new())].into(), ..submission() },
        ),
        (
            "labels",
            Reason::InvalidArgument,
            Submission { labels: [("k".to_owned(), "v".repeat(LABEL_MAX_BYTES + 1))].into(), ..submission() },
        ),
        (
            "labels",
            Reason::InvalidArgument,
            Submission {
                labels: (0..=LABELS_MAX).map(|n| (n.to_string(), String::new())).collect(),
                ..submission()
            },
        ),
        (
            "traceparent",
            Reason::InvalidArgument,
            Submission { traceparent: Some("00-ä".to_owned()), ..submission() },
        ),
        (
            "deadline",
            Reason::InvalidArgument,
            Submission { deadline: Some(DeadlineSetting::CeilingS(u64::MAX)), ..submission() },
        ),
        (
            "deadline",
            Reason::InvalidArgument,
            Submission { deadline: Some(DeadlineSetting::At(second(-1))), ..submission() },
        ),
        (
            "not_before",
            Reason::InvalidArgument,
            Submission { not_before: Some(Timestamp::MAX), ..submission() },
        ),
    ];
    for (field, reason, given) in cases {
        let refusal = admit(given).expect_err(field);
        assert_eq!((refusal.reason, &*refusal.details["field"]), (reason, field), "{refusal}");
    }
    assert!(admit(Submission { input: vec![0; 1_024].into(), ..submission() }).is_ok());
}

#[test]
fn a_deadline_that_is_already_reached_is_let_in_and_denies_the_first_run() {
    let zero = Submission { deadline: Some(DeadlineSetting::CeilingS(0)), ..submission() };
    assert_eq!(admit(zero).unwrap().deadline_at, Some(start()));
    let now = Submission { deadline: Some(DeadlineSetting::At(start())), ..submission() };
    assert_eq!(admit(now).unwrap().deadline_at, Some(start()));
}

#[test]
fn the_payload_is_what_the_submitter_gave_and_nothing_else() {
    let payload = |given: Submission| admit(given).unwrap().submission.payload_digest();
    let plain = payload(submission());
    let retried = Submission {
        key: Some("release-1".to_owned()),
        traceparent: Some("00-abc".to_owned()),
        ..submission()
    };
    assert_eq!(payload(retried), plain);
    for other in [
        Submission { input: b"v1.2.1".to_vec().into(), ..submission() },
        Submission { agent: "other".parse().unwrap(), ..submission() },
        Submission { labels: [].into(), ..submission() },
        Submission { priority: Some(2), ..submission() },
        Submission { deadline: Some(DeadlineSetting::CeilingS(3_600)), ..submission() },
        Submission { not_before: Some(second(5)), ..submission() },
    ] {
        assert_ne!(payload(other.clone()), plain, "{other:?}");
    }
}

#[test]
fn an_admitted_job_begins_with_its_admission_and_its_frozen_plan() {
    let admitted = admit(Submission { key: Some("k".to_owned()), ..submission() }).unwrap();
    let drafts = admitted.drafts(SessionId(crate::factory::job_id().0), person(), [9; 16]);
    let RecordKind::JobAdmitted { input, key, declaration: digest, .. } = &drafts[0].kind else { panic!() };
    assert_eq!((input.sha256, input.bytes), (value_digest(&[9; 16], b"v1.2.0"), 6));
    assert_eq!((*key, *digest), (admitted.submission.key_digest(), declaration().digest()));
    let RecordKind::PlanFrozen { recovery, hops, .. } = &drafts[1].kind else { panic!() };
    assert_eq!((recovery, *hops), (&admitted.recovery, 8));
    assert_eq!(drafts.len(), 2);
}

#[test]
fn what_is_sent_shares_the_session_of_its_giver_and_what_is_spawned_has_limits_of_its_own() {
    let giver = Sender { job: crate::factory::job_id(), run: Run(2), agent: "analyst".parse().unwrap() };
    let facts = JobFacts { hops_left: 3, deadline_at: Some(second(60)), ..running() };
    let give = |way| {
        let (agent, sender) = (submission().agent, giver.clone());
        let gift = Gift { agent, body: b"v1".to_vec(), way, sender, priority: 2, traceparent: None };
        admit_gift(gift, &facts, &declaration(), None, start()).unwrap()
    };
    let (sent, spawned) = (give(Way::Send), give(Way::Spawn));
    assert_eq!((sent.hops, sent.deadline), (2, DeadlineSetting::At(second(60))));
    let own = admit(submission()).unwrap();
    assert_eq!((spawned.hops, spawned.deadline), (own.hops, own.deadline));
    for admitted in [sent, spawned] {
        assert_eq!((admitted.priority, &admitted.sender), (2, &Some(giver.clone())));
        let drafts = admitted.drafts(SessionId(crate::factory::job_id().0), person(), [9; 16]);
        let RecordKind::JobAdmitted { sender, .. } = &drafts[0].kind else { panic!() };
        assert_eq!(sender.as_deref(), Some(&giver));
    }
}
