//! Effects as a worker announces them and as people are told of them: what is a permission to act and what is not, what a
//! doubt makes of its job, and what came too late.

use tenure_core::{id::Digest, reason::Reason};
use tenure_proto::v1::{
    self, EffectDisposition, EffectRecovery, EffectState, JobState, appended::Outcome,
    attach_request::Message as Request, new_record::Kind, run_end::How,
};

use crate::{
    fleet::{Fleet, reason},
    worker::{Worker, applied, gone},
};

fn started(key: &str, attempt: u32) -> v1::NewEffectStarted {
    v1::NewEffectStarted {
        key: key.into(),
        attempt,
        recovery: EffectRecovery::Ask.into(),
        mutates: true,
        request: r#"{"command":["git","push"]}"#.into(),
        request_digest: Digest::of(b"git push").0.to_vec().into(),
        ..Default::default()
    }
}

fn done(key: &str, attempt: u32) -> Kind {
    Kind::EffectDone(v1::NewEffectDone {
        key: key.into(),
        attempt,
        output: "pushed".into(),
        truncated: false,
    })
}

fn failed(key: &str, attempt: u32, disposition: EffectDisposition) -> Kind {
    Kind::EffectFailed(v1::NewEffectFailed {
        key: key.into(),
        attempt,
        disposition: disposition.into(),
        exit_code: Some(3),
        error: "no route".into(),
    })
}

fn verdict(key: &str, attempt: u32, verdict: EffectDisposition) -> Kind {
    Kind::EffectReconciled(v1::NewEffectReconciled {
        key: key.into(),
        attempt,
        verdict: verdict.into(),
        value: None,
    })
}

async fn say(worker: &mut Worker, grant: &v1::Grant, n: u64, kinds: Vec<Kind>) -> Outcome {
    let records = kinds.into_iter().map(|kind| v1::NewRecord { kind: Some(kind) }).collect();
    let append = v1::Append { run: grant.run.clone(), n, acknowledged_seq: grant.seq, records };
    worker.say(Request::Append(append)).await;
    worker.hear_appended(n).await
}

async fn announce(worker: &mut Worker, grant: &v1::Grant, n: u64, key: &str) -> Outcome {
    say(worker, grant, n, vec![Kind::EffectStarted(started(key, 1))]).await
}

fn job_of(grant: &v1::Grant) -> String {
    grant.run.clone().unwrap().job_id
}

/// The code that a report is refused with.
fn refused(outcome: Outcome) -> String {
    match outcome {
        Outcome::Refused(refused) => refused.code,
        other => panic!("refused, and not {other:?}"),
    }
}

fn noticed(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Notice(notice) => notice.seq,
        other => panic!("a notice, and not {other:?}"),
    }
}

/// A run of a new job, granted to a worker.
async fn run(fleet: &Fleet, worker: &mut Worker) -> v1::Grant {
    let job = fleet.submit("plain").await;
    worker.want(1).await;
    let grant = worker.hear_grant().await;
    assert_eq!(job_of(&grant), job);
    grant
}

async fn undecided(fleet: &Fleet, job: &str) -> v1::ListUndecidedResponse {
    let request = v1::ListUndecidedRequest { job: job.into(), ..Default::default() };
    fleet.jobs().list_undecided(request).await.unwrap().into_inner()
}

/// Provokes `EFFECT_REFUSED`.
#[tokio::test]
async fn an_attempt_is_permitted_once_and_listed_with_its_outcome() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker).await;
    let seq = applied(announce(&mut worker, &grant, 1, "push").await);
    assert_eq!(refused(announce(&mut worker, &grant, 2, "push").await), Reason::EffectRefused.code());
    applied(say(&mut worker, &grant, 3, vec![done("push", 1)]).await);
    assert_eq!(
        refused(say(&mut worker, &grant, 4, vec![done("push", 1)]).await),
        Reason::EffectRefused.code()
    );
    applied(worker.end(&grant, 5, How::ExitCode(0)).await);
    let job = job_of(&grant);
    assert_eq!(fleet.kinds(&job).await[3..], ["effect_started", "effect_done", "job_concluded"]);
    let request = v1::ListEffectsRequest { job: job.clone(), ..Default::default() };
    let listed = fleet.jobs().list_effects(request).await.unwrap().into_inner();
    let [effect] = &listed.effects[..] else { panic!("one effect: {listed:?}") };
    assert_eq!(
        (effect.state(), effect.announced_seq, effect.tool.as_str()),
        (EffectState::Done, seq, "push")
    );
    assert_eq!((effect.value.as_deref(), listed.cursor.as_str()), (Some(&b"pushed"[..]), ""));
    assert_eq!((listed.job_id, fleet.job(&job).await.state()), (job, JobState::Succeeded));
}

#[tokio::test]
async fn a_permission_is_given_again_while_the_lease_bears_it_and_never_after_a_takeover() {
    let fleet = Fleet::start().await;
    let (_other, channel) = fleet.start_another().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker).await;
    let first = applied(announce(&mut worker, &grant, 1, "push").await);
    assert_eq!(applied(announce(&mut worker, &grant, 1, "push").await), first);
    let mut elsewhere = Worker::attach(&channel, &worker.registration).await.unwrap();
    assert_eq!(applied(announce(&mut elsewhere, &grant, 1, "push").await), first);
    let note = applied(elsewhere.note(&grant, 2, "pushed").await);

    fleet.workers().report_gone(gone(&grant)).await.unwrap();
    for channel in [&fleet.channel, &channel] {
        let mut late = Worker::attach(channel, &worker.registration).await.unwrap();
        let told = announce(&mut late, &grant, 1, "push").await;
        let Outcome::Fenced(fenced) = told else { panic!("fenced, and not {told:?}") };
        assert_eq!(fenced.applied_seq, first);
        assert_eq!(applied(late.note(&grant, 2, "pushed").await), note);
    }
}

#[tokio::test]
async fn an_announcement_that_has_not_seen_a_cancel_is_answered_with_it_and_outcomes_are_taken() {
    let fleet = Fleet::start().await;
    let (_other, channel) = fleet.start_another().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker).await;
    let job = job_of(&grant);
    applied(announce(&mut worker, &grant, 1, "push").await);
    fleet.cancel(&job).await.unwrap();
    let notice = noticed(announce(&mut worker, &grant, 2, "pull").await);
    // The other coordinator does not remember the run, and looks.
    let mut elsewhere = Worker::attach(&channel, &worker.registration).await.unwrap();
    assert_eq!(noticed(announce(&mut elsewhere, &grant, 3, "pull").await), notice);
    assert_eq!(noticed(announce(&mut elsewhere, &grant, 4, "pull").await), notice);
    applied(say(&mut elsewhere, &grant, 5, vec![done("push", 1)]).await);
    assert_eq!(fleet.kinds(&job).await[3..], ["effect_started", "cancel_requested", "effect_done"]);
    let knowing = v1::NewEffectStarted { last_notice_seq: notice, ..started("pull", 1) };
    applied(say(&mut elsewhere, &grant, 6, vec![Kind::EffectStarted(knowing)]).await);
}

/// Provokes `FENCED`.
#[tokio::test]
async fn the_holder_and_nobody_else_is_told_the_last_attempt_under_a_key() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker).await;
    let request = |key: &str, secret: &prost::bytes::Bytes| v1::ReadEffectRequest {
        run: grant.run.clone(),
        secret: secret.clone(),
        key: key.into(),
    };
    let read = async |key: &str| {
        fleet.workers().read_effect(request(key, &grant.secret)).await.unwrap().into_inner().effect
    };
    assert_eq!(read("push").await, None);
    applied(announce(&mut worker, &grant, 1, "push").await);
    applied(say(&mut worker, &grant, 2, vec![failed("push", 1, EffectDisposition::DidNotHappen)]).await);
    applied(say(&mut worker, &grant, 3, vec![Kind::EffectStarted(started("push", 2))]).await);
    let effect = read("push").await.unwrap();
    assert_eq!((effect.attempt, effect.state(), effect.value), (2, EffectState::Started, None));
    applied(say(&mut worker, &grant, 4, vec![failed("push", 2, EffectDisposition::Landed)]).await);
    let effect = read("push").await.unwrap();
    assert_eq!((effect.state(), effect.disposition()), (EffectState::Failed, EffectDisposition::Landed));
    assert_eq!((effect.exit_code, effect.value.as_deref()), (Some(3), Some(&b"no route"[..])));
    let wrong = fleet.workers().read_effect(request("push", &vec![7; 32].into())).await;
    assert_eq!(reason(wrong), Reason::Fenced);
    fleet.workers().report_gone(gone(&grant)).await.unwrap();
    let late = fleet.workers().read_effect(request("push", &grant.secret)).await;
    assert_eq!(reason(late), Reason::Fenced);
}

/// Provokes `EFFECT_TOO_LARGE`.
#[tokio::test]
async fn what_can_never_be_recorded_is_refused_by_name() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker).await;
    let start = |change: fn(&mut v1::NewEffectStarted)| {
        let mut record = started("push", 1);
        change(&mut record);
        vec![Kind::EffectStarted(record)]
    };
    let note = || Kind::Note(v1::NewNote { text: "a note".into() });
    let cases = [
        (Reason::InvalidArgument, start(|record| record.key.clear())),
        (Reason::InvalidArgument, start(|record| record.attempt = 0)),
        (Reason::InvalidArgument, start(|record| record.recovery = 0)),
        (Reason::InvalidArgument, start(|record| record.request = "no JSON".into())),
        (Reason::InvalidArgument, start(|record| record.request_digest = "short".into())),
        (Reason::EffectTooLarge, start(|record| record.request = vec![b' '; 64 * 1024 + 1].into())),
        (Reason::InvalidArgument, [start(|_| {}), vec![note()]].concat()),
        (Reason::InvalidArgument, vec![done("push", 1), failed("push", 1, EffectDisposition::Landed)]),
        (Reason::InvalidArgument, vec![verdict("push", 1, EffectDisposition::DidNotHappen)]),
        // What lets the next attempt be announced stands right before its announcement.
        (
            Reason::InvalidArgument,
            vec![
                verdict("push", 1, EffectDisposition::DidNotHappen),
                done("pull", 1),
                Kind::EffectStarted(started("push", 2)),
            ],
        ),
        (Reason::EffectRefused, vec![done("push", 1)]),
        (Reason::EffectRefused, start(|record| record.attempt = 2)),
    ];
    for (n, (expected, kinds)) in (1..).zip(cases) {
        let told = say(&mut worker, &grant, n, kinds.clone()).await;
        assert_eq!(refused(told), expected.code(), "{kinds:?}");
    }
    assert_eq!(fleet.kinds(&job_of(&grant)).await.len(), 3);
}

#[tokio::test]
async fn an_outcome_that_comes_too_late_is_kept_once_and_shown_beside_the_doubt() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker).await;
    let job = job_of(&grant);
    applied(announce(&mut worker, &grant, 1, "push").await);
    fleet.workers().report_gone(gone(&grant)).await.unwrap();
    let present = fleet.job(&job).await;
    assert_eq!((present.state(), present.reason.as_str()), (JobState::Quarantined, "effect_in_doubt"));
    assert!(present.detail.contains("\"push\"") && present.detail.contains("ready"), "{}", present.detail);
    let note = Kind::Note(v1::NewNote { text: "beside it".into() });
    for _ in 0..2 {
        let told = say(&mut worker, &grant, 2, vec![note.clone(), done("push", 1)]).await;
        assert!(matches!(told, Outcome::Fenced(_)), "{told:?}");
    }
    let told = undecided(&fleet, &job).await;
    let [effect] = &told.effects[..] else { panic!("one doubt: {told:?}") };
    assert_eq!((effect.key.as_str(), effect.undecided, effect.run), ("push", true, 1));
    let [testimony] = &told.testimonies[..] else { panic!("one testimony: {told:?}") };
    assert_eq!((testimony.state(), testimony.contradicts, testimony.run), (EffectState::Done, false, 1));
    assert_eq!(testimony.value.as_deref(), Some(&b"pushed"[..]));
    assert_eq!(fleet.kinds(&job).await.last().unwrap(), "job_concluded", "nothing was written after it");
}

#[tokio::test]
async fn testimony_against_the_journal_is_shown_where_nothing_is_in_doubt() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker).await;
    let job = job_of(&grant);
    applied(announce(&mut worker, &grant, 1, "push").await);
    applied(say(&mut worker, &grant, 2, vec![failed("push", 1, EffectDisposition::DidNotHappen)]).await);
    fleet.workers().report_gone(gone(&grant)).await.unwrap();
    let told = say(&mut worker, &grant, 3, vec![done("push", 1)]).await;
    assert!(matches!(told, Outcome::Fenced(_)), "{told:?}");
    let told = undecided(&fleet, &job).await;
    let [testimony] = &told.testimonies[..] else { panic!("one testimony: {told:?}") };
    assert_eq!((testimony.contradicts, testimony.key.as_str()), (true, "push"));
    assert_eq!((told.effects.len(), told.testimony_count), (0, 1));
}

#[tokio::test]
async fn what_can_never_be_kept_keeps_no_run_from_being_told_that_it_is_over() {
    let fleet = Fleet::start().await;
    let pool = fleet.pool().await;
    sqlx::query("ALTER TABLE testimony ADD CONSTRAINT no_poison CHECK (key <> 'poison')")
        .execute(&pool)
        .await
        .unwrap();
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let mut grants = Vec::new();
    for key in ["push", "poison", "pull"] {
        let grant = run(&fleet, &mut worker).await;
        applied(announce(&mut worker, &grant, 1, key).await);
        fleet.workers().report_gone(gone(&grant)).await.unwrap();
        grants.push((grant, key));
    }
    // They arrive together, so that one round may have them all.
    for (grant, key) in &grants {
        let records = vec![v1::NewRecord { kind: Some(done(key, 1)) }];
        let append = v1::Append { run: grant.run.clone(), n: 2, acknowledged_seq: grant.seq, records };
        worker.say(Request::Append(append)).await;
    }
    let mut kept = Vec::new();
    for _ in &grants {
        let told = worker.hear_appended(2).await;
        assert!(matches!(told, Outcome::Fenced(_)), "{told:?}");
    }
    for (grant, key) in &grants {
        let told = undecided(&fleet, &job_of(grant)).await;
        kept.extend(told.testimonies.iter().map(|_| *key));
    }
    assert_eq!(kept, ["push", "pull"]);
}

#[tokio::test]
async fn only_what_a_later_run_can_settle_goes_to_a_later_run() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    for (recovery, state) in [
        (EffectRecovery::Probe, JobState::Ready),
        (EffectRecovery::Retry, JobState::Ready),
        (EffectRecovery::Idempotent, JobState::Ready),
        (EffectRecovery::Ask, JobState::Quarantined),
    ] {
        let grant = run(&fleet, &mut worker).await;
        let start = v1::NewEffectStarted { recovery: recovery.into(), ..started("push", 1) };
        applied(say(&mut worker, &grant, 1, vec![Kind::EffectStarted(start)]).await);
        fleet.workers().report_gone(gone(&grant)).await.unwrap();
        let job = job_of(&grant);
        assert_eq!(fleet.job(&job).await.state(), state, "{recovery:?}");
        assert_eq!(undecided(&fleet, &job).await.effects[0].undecided, state == JobState::Quarantined);
        if state == JobState::Ready {
            // The next run does not ask for it, and the job is not called a success.
            worker.want(1).await;
            let again = worker.hear_grant().await;
            assert_eq!(job_of(&again), job);
            applied(worker.end(&again, 1, How::ExitCode(0)).await);
            assert_eq!(fleet.job(&job).await.state(), JobState::Quarantined, "{recovery:?}");
        }
    }
}

#[tokio::test]
async fn a_success_with_something_in_doubt_is_set_aside_with_its_result() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let reads =
        v1::NewEffectStarted { mutates: false, recovery: EffectRecovery::Retry.into(), ..started("look", 1) };
    for (kinds, state) in
        [(vec![started("push", 1)], JobState::Quarantined), (vec![reads], JobState::Succeeded)]
    {
        let grant = run(&fleet, &mut worker).await;
        let mut n = 0;
        for kind in kinds {
            n += 1;
            applied(say(&mut worker, &grant, n, vec![Kind::EffectStarted(kind)]).await);
        }
        let mut end = crate::worker::end(&grant, n + 1, How::ExitCode(0));
        end.result = Some("v1.2".into());
        worker.say(Request::EndRun(end)).await;
        applied(worker.hear_appended(n + 1).await);
        let job = job_of(&grant);
        assert_eq!(fleet.job(&job).await.state(), state);
        let last = fleet.records(&job).await.pop().unwrap();
        assert_eq!((last.kind.as_str(), last.value.as_deref()), ("job_concluded", Some(&b"v1.2"[..])));
    }
}

#[tokio::test]
async fn a_cancel_is_no_cancel_while_something_is_in_doubt_or_nobody_can_undo_it() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let unnecessary = v1::EffectCompensation::Unnecessary;
    let undeclared = v1::EffectCompensation::Unspecified;
    for (compensation, ended, state, because) in [
        (undeclared, true, JobState::Quarantined, "not_unwound"),
        (unnecessary, true, JobState::Cancelled, ""),
        (unnecessary, false, JobState::Quarantined, "effect_in_doubt"),
    ] {
        let grant = run(&fleet, &mut worker).await;
        let job = job_of(&grant);
        let start = v1::NewEffectStarted { compensation: compensation.into(), ..started("push", 1) };
        applied(say(&mut worker, &grant, 1, vec![Kind::EffectStarted(start)]).await);
        if ended {
            applied(say(&mut worker, &grant, 2, vec![done("push", 1)]).await);
        }
        fleet.cancel(&job).await.unwrap();
        let mut end = crate::worker::end(&grant, 3, How::Cancel(v1::CancelObserved {}));
        end.last_notice_seq = fleet.job(&job).await.head_seq;
        worker.say(Request::EndRun(end)).await;
        applied(worker.hear_appended(3).await);
        let present = fleet.job(&job).await;
        assert_eq!((present.state(), present.reason.as_str()), (state, because), "{compensation:?}, {ended}");
        assert_eq!(present.detail.contains("\"push\""), state == JobState::Quarantined, "{}", present.detail);
    }
}

#[tokio::test]
async fn keys_that_a_successful_run_never_asked_for_are_written_down_before_its_end() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let grant = run(&fleet, &mut worker).await;
    let mut end = crate::worker::end(&grant, 1, How::ExitCode(1));
    end.unasked_keys = vec!["push/monday".into()];
    end.unasked_count = 3;
    worker.say(Request::EndRun(end.clone())).await;
    assert_eq!(refused(worker.hear_appended(1).await), Reason::InvalidArgument.code());
    end.n = 2;
    end.end = Some(v1::RunEnd { how: Some(How::ExitCode(0)) });
    worker.say(Request::EndRun(end)).await;
    applied(worker.hear_appended(2).await);
    let records = fleet.records(&job_of(&grant)).await;
    assert_eq!(records[3].kind, "effects_unasked");
    let warning = String::from_utf8(records[3].bytes.to_vec()).unwrap();
    assert!(warning.contains(r#""keys":["push/monday"],"count":3"#), "{warning}");
    assert_eq!(records[4].kind, "job_concluded");
}
