//! The stored form of every kind of record, pinned and read back.

use proptest::prelude::*;

use super::*;
use crate::{
    admission::{Limit, Spend},
    chain::Head,
    factory::{Journal, admitted, crashed, job_id, note, person, run_started, salted, second},
    handover::Cause,
    limits::RECORD_MAX_BYTES,
    money::Micros,
    recovery::Pays,
    verify::{StoredRecord, verify_chain},
};

fn header() -> Header {
    Header {
        tenant: Tenant::default_tenant(),
        job: job_id(),
        generation: Generation(1),
        epoch: Epoch(3),
        run: Run(2),
    }
}

fn seal(drafts: Vec<Draft>) -> Result<Vec<SealedRecord>, SealError> {
    seal_records(&header(), Head::genesis(), second(0), drafts)
}

fn given(key: Option<&str>) -> crate::sending::Given {
    crate::sending::Given {
        child: job_id(),
        session: crate::id::SessionId(job_id().0),
        agent: "reviewer".parse().unwrap(),
        key: key.map(str::to_owned),
    }
}

/// One draft of every kind, with everything that is optional in it given.
fn every_kind() -> Vec<Draft> {
    let interruption = crashed(3);
    let restart = Restart { attempt: 2, pays: Pays::Attempt, not_before: Some(second(5)) };
    let mut drafts = admitted("v1.2.0");
    drafts.extend([
        run_started(Cause::Recovered { previous: Run(1), interruption: interruption.clone(), attempt: 2 }),
        note("read the diff"),
        Draft::with_value(salted("the fleet was busy"), |text| RecordKind::Remembered { text }),
    ]);
    let fetch = || "fetch the order".parse().unwrap();
    drafts.push(Draft::bare(RecordKind::StepStarted { name: fetch() }));
    drafts.push(Draft::with_value(salted("{\"lines\":3}"), |output| RecordKind::StepFinished {
        name: fetch(),
        output,
    }));
    drafts.extend(
        [
            RecordKind::ChildGone { of_epoch: Epoch(3), proof: GoneProof::Observed, by: person() },
            RecordKind::RunInterrupted { of_epoch: Epoch(3), interruption, restart: Some(restart) },
            RecordKind::RecoveryDenied { denial: Denial::OutOfAttempts { max_attempts: 2 } },
            RecordKind::GrantReleased { of_epoch: Epoch(3), reason: "lost".to_owned() },
            RecordKind::DeadlineDenied { elapsed_s: 61, ceiling_s: 60 },
            RecordKind::Sent(given(None)),
            RecordKind::Spawned(given(Some("audit/1"))),
            RecordKind::SendRefused {
                verb: "send".to_owned(),
                agent: "reviewer".parse().unwrap(),
                code: "HOPS_EXHAUSTED".to_owned(),
                detail: "no hop is left".to_owned(),
            },
            RecordKind::Spent { spend: Spend { tokens: 1_200, cost: Micros(35_000), turns: 2 } },
            RecordKind::BudgetRefused { limit: "runs".to_owned(), used: 64, allowed: 64 },
            RecordKind::BudgetReadmitted { limit: "runs".to_owned(), used: 64, allowed: 80 },
            RecordKind::LimitRaised {
                limit: Limit::Runs,
                from: 64,
                to: 80,
                by: person(),
                why: "go on".to_owned(),
            },
            RecordKind::CancelRequested { by: person(), why: "stop".to_owned() },
            RecordKind::RunHandedOver {
                of_epoch: Epoch(3),
                because: HandOver::Drained,
                restart: Some(Restart { attempt: 1, pays: Pays::Run, not_before: None }),
            },
            RecordKind::OperatorActed {
                verb: "recover".to_owned(),
                by: person(),
                why: "go".to_owned(),
                erased: None,
            },
        ]
        .map(Draft::bare),
    );
    drafts.extend(kinds_about_effects());
    drafts.extend(kinds_about_quarantine());
    let restart = Some(Restart { attempt: 1, pays: Pays::Hop, not_before: None });
    drafts.push(Draft::with_value(salted("the other branch"), |note| RecordKind::Steered {
        by: person(),
        note,
        restart,
    }));
    drafts.push(Draft::with_value(salted("done"), |result| RecordKind::JobConcluded {
        outcome: State::Failed,
        reason: Some("execution".to_owned()),
        result: Some(result),
        output_chunks: Some(7),
    }));
    drafts
}

/// The life of an effect with everything that can become of it, a group of effects, and undoing.
fn kinds_about_effects() -> Vec<Draft> {
    let push = || "git/push".parse::<EffectKey>().unwrap();
    let settled = |outcome, invariant: Option<&str>| RecordKind::GroupSettled {
        name: "order 7".parse().unwrap(),
        outcome,
        members: vec![push()],
        invariant: invariant.map(str::to_owned),
    };
    vec![
        Draft::bare(RecordKind::GroupOpened { name: "order 7".parse().unwrap() }),
        Draft {
            request: Some(Digest::of(b"git push")),
            ..Draft::with_value(salted("git push"), |request| RecordKind::EffectStarted {
                key: push(),
                attempt: 1,
                recovery: EffectRecovery::Probe,
                mutates: true,
                tool: "git".to_owned(),
                compensation: Compensation::Undo,
                request,
            })
        },
        Draft::with_value(salted("abc123"), |output| RecordKind::EffectDone {
            key: push(),
            attempt: 1,
            output,
            truncated: true,
        }),
        Draft::with_value(salted("no route"), |error| RecordKind::EffectFailed {
            key: push(),
            attempt: 2,
            disposition: Disposition::InDoubt,
            exit_code: Some(128),
            error,
        }),
        Draft::with_value(salted("abc123"), |value| RecordKind::EffectReconciled {
            key: push(),
            attempt: 2,
            verdict: Disposition::Landed,
            by: person(),
            value: Some(value),
        }),
        Draft::bare(RecordKind::EffectsUnasked { keys: vec![push()], count: 7 }),
        Draft::bare(settled(GroupOutcome::Committed, None)),
        Draft::bare(settled(GroupOutcome::Reversed, Some("the order still stands"))),
        Draft::bare(RecordKind::UnwindStarted {
            instead_of: State::Failed,
            reason: Some("execution".to_owned()),
            detail: Some("it exited with 65".to_owned()),
            steps: 3,
        }),
    ]
}

/// A job that is set aside, and what a person does about it and about any other.
fn kinds_about_quarantine() -> Vec<Draft> {
    let why = || "asked the remote".to_owned();
    let changed = ChangedDeclaration {
        what: HeldTo::Bundle,
        admitted: Digest::of(b"admitted"),
        present: Some(Digest::of(b"present")),
    };
    let kinds = [
        RecordKind::QuarantineDecided {
            effects: vec![EffectRef { key: "git/push".parse().unwrap(), attempt: 2 }],
            count: 1,
            instead_of: State::Failed,
            reason: Some("execution".to_owned()),
            changed: Some(changed),
        },
        RecordKind::Reopened {
            by: person(),
            why: why(),
            declaration: Some(Digest::of(b"present")),
            bundle: Some(Digest::of(b"bundle")),
        },
        RecordKind::Resumed { by: person(), why: why() },
        RecordKind::OperatorActed {
            verb: "erase".to_owned(),
            by: person(),
            why: why(),
            erased: Some(ErasedPart::Output),
        },
        RecordKind::AbandonRequested { by: person(), why: why() },
        RecordKind::LayoverBooked { until: second(900), waiting_for: "the review".to_owned() },
        RecordKind::Suspended {
            wait: Wait { name: "#1".parse().unwrap(), until: second(900), jobs: vec![job_id()] },
        },
        RecordKind::Woken {
            wait: Seq(4),
            name: "#1".parse().unwrap(),
            due: Some(second(900)),
            outcomes: Some(salted("[]").reference()),
        },
    ];
    kinds.map(Draft::bare).into()
}

#[test]
fn the_stored_form_of_every_kind_is_pinned() {
    let sealed = seal(every_kind()).unwrap();
    let lines: Vec<_> =
        sealed.iter().map(|record| String::from_utf8(record.bytes.clone()).unwrap()).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_kind_reads_back_what_was_written() {
    let drafts = every_kind();
    for (sealed, draft) in seal(drafts.clone()).unwrap().iter().zip(drafts) {
        let read: Record = serde_json::from_slice(&sealed.bytes).unwrap();
        assert_eq!(read.kind, draft.kind);
        assert_eq!((read.seq, read.epoch, read.run, read.at), (sealed.seq, Epoch(3), Run(2), second(0)));
        assert_eq!(sealed.kind, draft.kind.name());
        assert_eq!(serde_json::to_vec(&read).unwrap(), sealed.bytes);
    }
}

#[test]
fn every_kind_is_stored_under_its_name() {
    for draft in every_kind() {
        let json = serde_json::to_value(&draft.kind).unwrap();
        assert_eq!(json["kind"], draft.kind.name());
    }
}

#[test]
fn values_never_stand_inside_the_hashed_bytes() {
    for record in seal(every_kind()).unwrap() {
        if let Some(value) = &record.value {
            let inside = record.bytes.windows(value.value.len()).any(|window| window == value.value);
            assert!(!inside, "{}", record.kind);
        }
    }
}

#[test]
fn the_time_of_a_record_has_whole_microseconds() {
    let at = second(1) + jiff::SignedDuration::from_nanos(1_999);
    let sealed = seal_records(&header(), Head::genesis(), at, vec![note("now")]).unwrap();
    let read: Record = serde_json::from_slice(&sealed[0].bytes).unwrap();
    assert_eq!((read.at, sealed[0].at), (second(1) + jiff::SignedDuration::from_micros(1), read.at));
}

#[test]
fn a_group_takes_consecutive_positions_and_each_hash_covers_the_one_before() {
    let sealed = seal(every_kind()).unwrap();
    let mut head = Head::genesis();
    for record in &sealed {
        head = head.extend(&record.bytes);
        assert_eq!((record.seq, record.hash), (head.seq, head.hash));
    }
    assert_eq!(head.seq.0, sealed.len() as u64);
}

#[test]
fn what_is_too_large_is_refused_naming_both_sizes() {
    let large = SaltedValue { value: vec![b'x'; 256 * 1024 + 1], salt: [0; 16] };
    let error = seal(vec![Draft::with_value(large, |text| RecordKind::Note { text })]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the value beside the note record has 262145 bytes, and at most 262144 are taken"
    );
    let why = "x".repeat(RECORD_MAX_BYTES);
    let error = seal(vec![Draft::bare(RecordKind::CancelRequested { by: person(), why })]).unwrap_err();
    assert!(matches!(error, SealError::RecordTooLarge { kind: "cancel_requested", .. }), "{error}");
}

#[test]
fn notices_are_kinds_that_exist_or_will() {
    assert!(NOTICE_KINDS.contains(&RecordKind::CancelRequested { by: person(), why: String::new() }.name()));
}

proptest! {
    #[test]
    fn whatever_is_written_verifies(
        groups in prop::collection::vec(prop::collection::vec(".{0,40}", 1..5), 1..6),
    ) {
        let mut journal = Journal::of(job_id()).write(0, 0, admitted("input"));
        for (epoch, texts) in (1..).zip(&groups) {
            let drafts = texts.iter().map(|text| note(text)).collect();
            journal = journal.write(epoch, u32::try_from(epoch).unwrap(), drafts);
        }
        let head = journal.head();
        let rows = journal.records.iter().map(|record| StoredRecord {
            seq: record.seq,
            bytes: record.bytes.clone(),
            hash: record.hash,
            value: record.value.as_ref().map(|value| value.value.clone()),
            salt: record.value.as_ref().map(|value| value.salt.to_vec()),
        });
        let verified = verify_chain(rows, Some(head), &Tenant::default_tenant(), job_id()).unwrap();
        prop_assert_eq!(verified.head, head);
        prop_assert_eq!(verified.values_erased, 0);
    }
}
