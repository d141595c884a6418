//! What people do about a job that is set aside, has stopped, or is not worth it: answering what is in doubt, having it
//! judged again, having it go on, giving it up. Each is journaled with who and why, or refused and nothing is written.

use tenure_core::{id::Digest, limits::EFFECT_OUTPUT_MAX_BYTES, reason::Reason};
use tenure_proto::v1::{
    self, EffectDisposition, EffectRecovery, EffectState, JobState, attach_request::Message as Request,
    new_record::Kind, order::Order, reconcile_effect_request::Answer, renewed::Outcome as Renewal,
    run_end::How,
};
use tonic::Status;

use crate::{
    fleet::{Fleet, reason},
    worker::{Worker, applied, end, gone},
};

/// An agent whose exit code 65 is final.
const FINAL: &str = r#"{"command":["true"],"final-exit-codes":[65]}"#;

async fn announce(worker: &mut Worker, grant: &v1::Grant, n: u64, key: &str) {
    let started = v1::NewEffectStarted {
        key: key.into(),
        attempt: 1,
        recovery: EffectRecovery::Ask.into(),
        mutates: true,
        compensation: v1::EffectCompensation::Unnecessary.into(),
        request: r#"{"command":["git","push"]}"#.into(),
        request_digest: Digest::of(b"git push").0.to_vec().into(),
        ..Default::default()
    };
    let records = vec![v1::NewRecord { kind: Some(Kind::EffectStarted(started)) }];
    let append = v1::Append { run: grant.run.clone(), n, acknowledged_seq: grant.seq, records };
    worker.say(Request::Append(append)).await;
    applied(worker.hear_appended(n).await);
}

/// A job of an agent, its run granted.
async fn run(fleet: &Fleet, worker: &mut Worker, agent: &str) -> (String, v1::Grant) {
    let job = fleet.submit(agent).await;
    worker.want(1).await;
    (job, worker.hear_grant().await)
}

/// A job that is set aside with these keys in doubt, after a run that ended so.
async fn set_aside(fleet: &Fleet, worker: &mut Worker, keys: &[&str], how: How) -> String {
    let (job, grant) = run(fleet, worker, "final").await;
    let mut n = 0;
    for key in keys {
        n += 1;
        announce(worker, &grant, n, key).await;
    }
    let succeeds = how == How::ExitCode(0);
    let mut over = end(&grant, n + 1, how);
    over.result = succeeds.then(|| "v1.2".into());
    worker.say(Request::EndRun(over)).await;
    applied(worker.hear_appended(n + 1).await);
    assert_eq!(fleet.job(&job).await.state(), JobState::Quarantined);
    job
}

async fn reconcile(
    fleet: &Fleet,
    job: &str,
    key: &str,
    answer: Answer,
    why: &str,
) -> Result<v1::Job, Status> {
    let (job, key, why) = (job.to_owned(), key.to_owned(), why.to_owned());
    let request = v1::ReconcileEffectRequest { job, key, answer: Some(answer), why };
    Ok(fleet.jobs().reconcile_effect(request).await?.into_inner().job.unwrap())
}

fn not_done() -> Answer {
    Answer::NotDone(v1::EffectNotDone {})
}

async fn reopen(fleet: &Fleet, job: &str) -> Result<v1::Job, Status> {
    let request = v1::ReopenJobRequest { job: job.into(), why: "answered".into(), accept_declaration: None };
    Ok(fleet.jobs().reopen_job(request).await?.into_inner().job.unwrap())
}

async fn resume(fleet: &Fleet, job: &str) -> Result<v1::Job, Status> {
    let request = v1::ResumeJobRequest { job: job.into(), why: "mended".into() };
    Ok(fleet.jobs().resume_job(request).await?.into_inner().job.unwrap())
}

async fn abandon(fleet: &Fleet, job: &str) -> Result<v1::AbandonJobResponse, Status> {
    let request = v1::AbandonJobRequest { job: job.into(), why: "not worth it".into() };
    Ok(fleet.jobs().abandon_job(request).await?.into_inner())
}

async fn start() -> (Fleet, Worker) {
    let fleet = Fleet::start().await;
    fleet.apply("final", FINAL).await;
    let worker = Worker::start(&fleet, "w1", 0).await;
    (fleet, worker)
}

#[tokio::test]
async fn an_answer_is_journaled_with_who_and_why_and_what_was_said_is_read_back_by_the_next_run() {
    let (fleet, mut worker) = start().await;
    let job = set_aside(&fleet, &mut worker, &["push", "mail"], How::ExitCode(65)).await;
    let answered = reconcile(&fleet, &job, "push", Answer::Done("abc123".into()), "asked the remote").await;
    assert_eq!(answered.unwrap().state(), JobState::Quarantined, "an answer changes no state");
    let records = fleet.records(&job).await;
    let [acted, reconciled] = &records[records.len() - 2..] else { panic!("{records:?}") };
    let text = |record: &v1::Record| String::from_utf8(record.bytes.to_vec()).unwrap();
    assert!(text(acted).contains(r#""verb":"reconcile","by":{"actor":"#), "{}", text(acted));
    assert!(text(acted).contains(r#""why":"asked the remote""#), "{}", text(acted));
    assert!(text(reconciled).contains(r#""verdict":"landed""#), "{}", text(reconciled));
    assert_eq!(reconciled.value.as_deref(), Some(&b"abc123"[..]));

    let still = reopen(&fleet, &job).await.unwrap();
    assert_eq!(still.state(), JobState::Quarantined, "one doubt is left");
    reconcile(&fleet, &job, "mail", not_done(), "no mail arrived").await.unwrap();
    let failed = reopen(&fleet, &job).await.unwrap();
    assert_eq!((failed.state(), failed.reason.as_str()), (JobState::Failed, "execution"));
    assert!(failed.next[0].starts_with("tenure resume"), "{:?}", failed.next);

    assert_eq!(resume(&fleet, &job).await.unwrap().state(), JobState::Ready);
    worker.want(1).await;
    let grant = worker.hear_grant().await;
    assert!(grant.brief.contains("> mended"), "{}", grant.brief);
    let read = async |key: &str| {
        let request =
            v1::ReadEffectRequest { run: grant.run.clone(), secret: grant.secret.clone(), key: key.into() };
        fleet.workers().read_effect(request).await.unwrap().into_inner().effect.unwrap()
    };
    let push = read("push").await;
    assert_eq!((push.state(), push.disposition()), (EffectState::Reconciled, EffectDisposition::Landed));
    assert_eq!(push.value.as_deref(), Some(&b"abc123"[..]));
    assert_eq!(read("mail").await.disposition(), EffectDisposition::DidNotHappen);
}

/// Provokes `EFFECT_NOT_FOUND`. Provokes `EFFECT_DECIDED`.
#[tokio::test]
async fn what_cannot_be_answered_is_refused_and_nothing_is_written() {
    let (fleet, mut worker) = start().await;
    let job = set_aside(&fleet, &mut worker, &["push", "mail"], How::ExitCode(65)).await;
    reconcile(&fleet, &job, "mail", not_done(), "no mail arrived").await.unwrap();
    let before = fleet.records(&job).await.len();
    let large = Answer::Done(vec![b'x'; EFFECT_OUTPUT_MAX_BYTES + 1].into());
    let cases = [
        (Reason::EffectNotFound, "pull", not_done(), "looked"),
        (Reason::EffectDecided, "mail", Answer::Done("sent".into()), "looked again"),
        (Reason::EffectTooLarge, "push", large, "looked"),
        (Reason::ReasonMissing, "push", not_done(), " \n"),
        (Reason::InvalidArgument, "", not_done(), "looked"),
    ];
    for (expected, key, answer, why) in cases {
        assert_eq!(reason(reconcile(&fleet, &job, key, answer, why).await), expected);
    }
    let unanswered = v1::ReconcileEffectRequest {
        job: job.clone(),
        key: "push".into(),
        answer: None,
        why: "looked".into(),
    };
    assert_eq!(reason(fleet.jobs().reconcile_effect(unanswered).await), Reason::InvalidArgument);
    let blank = v1::ReopenJobRequest { job: job.clone(), ..Default::default() };
    assert_eq!(reason(fleet.jobs().reopen_job(blank).await), Reason::ReasonMissing);
    assert_eq!(fleet.records(&job).await.len(), before);
    let largest = Answer::Done(vec![b'x'; EFFECT_OUTPUT_MAX_BYTES].into());
    reconcile(&fleet, &job, "push", largest, "looked").await.unwrap();
}

#[tokio::test]
async fn a_success_that_was_kept_stands_once_the_doubts_are_answered_unless_something_did_not_happen() {
    let (fleet, mut worker) = start().await;
    let job = set_aside(&fleet, &mut worker, &["push"], How::ExitCode(0)).await;
    reconcile(&fleet, &job, "push", Answer::Done("abc123".into()), "looked").await.unwrap();
    assert_eq!(reopen(&fleet, &job).await.unwrap().state(), JobState::Succeeded);
    let request = v1::GetResultRequest { job: job.clone(), ..Default::default() };
    assert_eq!(fleet.jobs().get_result(request).await.unwrap().into_inner().result, "v1.2");

    let job = set_aside(&fleet, &mut worker, &["push", "mail"], How::ExitCode(0)).await;
    reconcile(&fleet, &job, "push", not_done(), "looked").await.unwrap();
    // It is set aside once more on the way, and what was said before is not forgotten.
    assert_eq!(reopen(&fleet, &job).await.unwrap().state(), JobState::Quarantined);
    reconcile(&fleet, &job, "mail", Answer::Done("sent".into()), "looked").await.unwrap();
    assert_eq!(reopen(&fleet, &job).await.unwrap().state(), JobState::Ready);
    worker.want(1).await;
    let grant = worker.hear_grant().await;
    assert_eq!(grant.run.unwrap().job_id, job);
}

#[tokio::test]
async fn a_cancel_that_stands_is_carried_out_when_the_job_is_reopened() {
    let (fleet, mut worker) = start().await;
    let (job, grant) = run(&fleet, &mut worker, "final").await;
    announce(&mut worker, &grant, 1, "push").await;
    fleet.cancel(&job).await.unwrap();
    let mut over = end(&grant, 2, How::Cancel(v1::CancelObserved {}));
    over.last_notice_seq = fleet.job(&job).await.head_seq;
    worker.say(Request::EndRun(over)).await;
    applied(worker.hear_appended(2).await);
    assert_eq!(fleet.job(&job).await.state(), JobState::Quarantined);
    reconcile(&fleet, &job, "push", not_done(), "looked").await.unwrap();
    assert_eq!(reopen(&fleet, &job).await.unwrap().state(), JobState::Cancelled);
}

#[tokio::test]
async fn a_job_that_is_given_up_is_sealed_once_its_run_has_seen_the_notice_and_the_first_asker_stands() {
    let (fleet, mut worker) = start().await;
    let (_other, channel) = fleet.start_another().await;
    let (job, grant) = run(&fleet, &mut worker, "final").await;
    announce(&mut worker, &grant, 1, "push").await;
    fleet.cancel(&job).await.unwrap();
    let asked = abandon(&fleet, &job).await.unwrap();
    assert!(!asked.already_requested);
    let asked = asked.job.unwrap();
    assert!(asked.abandon_requested && asked.state() == JobState::Running, "{asked:?}");
    assert!(abandon(&fleet, &job).await.unwrap().already_requested);
    let mut elsewhere = Worker::attach(&channel, &worker.registration).await.unwrap();
    let renewed = elsewhere.renew(Some(vec![grant.run.clone().unwrap()])).await;
    assert!(matches!(renewed.outcome, Some(Renewal::Renewed(_))), "{renewed:?}");
    let Some(Order::Notice(notice)) = &renewed.orders[0].order else { panic!("a notice: {renewed:?}") };
    assert_eq!((notice.kind.as_str(), notice.seq), ("abandon_requested", asked.head_seq));
    // The cancel alone was seen.
    let mut over = end(&grant, 2, How::Cancel(v1::CancelObserved {}));
    over.last_notice_seq = notice.seq - 1;
    elsewhere.say(Request::EndRun(over.clone())).await;
    let unseen = elsewhere.hear_appended(2).await;
    assert_eq!(unseen, v1::appended::Outcome::Notice(notice.clone()));
    over.last_notice_seq = notice.seq;
    elsewhere.say(Request::EndRun(over)).await;
    applied(elsewhere.hear_appended(2).await);
    assert_eq!(fleet.job(&job).await.state(), JobState::Abandoned, "whatever is in doubt");
    assert_eq!(reason(abandon(&fleet, &job).await), Reason::VerbNotAllowed);
}

#[tokio::test]
async fn a_run_that_does_not_answer_an_abandon_in_time_loses_the_job_and_is_fenced() {
    let (fleet, mut worker) = start().await;
    let (job, grant) = run(&fleet, &mut worker, "final").await;
    abandon(&fleet, &job).await.unwrap();
    // Its agent has the default stop-grace of 10 s: 24 s are not enough.
    let age = async |seconds: i64| {
        sqlx::query("UPDATE leases SET abandoned_at = now() - make_interval(secs => $1)")
            .bind(seconds as f64)
            .execute(&fleet.pool().await)
            .await
            .unwrap();
    };
    age(20).await;
    assert_eq!(applied(worker.note(&grant, 1, "still here").await), grant.seq + 2);
    age(26).await;
    fleet.job_in(&job, JobState::Abandoned).await;
    let late = worker.end(&grant, 2, How::ExitCode(0)).await;
    assert!(matches!(late, v1::appended::Outcome::Sealed(_)), "{late:?}");
    let known = fleet.workers().report_gone(gone(&grant)).await.unwrap().into_inner();
    assert!(known.already_known);
}

/// Provokes `LIMIT_REACHED`. Provokes `PLAN_MISSING`.
#[tokio::test]
async fn resuming_is_refused_by_a_limit_and_where_nothing_ever_started_and_changes_nothing_then() {
    let (fleet, mut worker) = start().await;
    let (job, grant) = run(&fleet, &mut worker, "final").await;
    applied(worker.end(&grant, 1, How::ExitCode(65)).await);
    assert_eq!(fleet.job(&job).await.state(), JobState::Failed);
    let before = fleet.records(&job).await.len();
    let pool = fleet.pool().await;
    let deadline = async |when: &str| {
        let sql = format!("UPDATE sessions SET deadline_at = {when}");
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap();
    };
    deadline("started_at + interval '1 microsecond'").await;
    assert_eq!(reason(resume(&fleet, &job).await), Reason::LimitReached);
    deadline("now() + interval '1 hour'").await;
    sqlx::query("UPDATE journal SET kind = 'note' WHERE kind = 'plan_frozen'").execute(&pool).await.unwrap();
    assert_eq!(reason(resume(&fleet, &job).await), Reason::PlanMissing);
    assert_eq!(fleet.records(&job).await.len(), before);
    sqlx::query("UPDATE journal SET kind = 'plan_frozen' WHERE seq = 2").execute(&pool).await.unwrap();
    assert_eq!(resume(&fleet, &job).await.unwrap().state(), JobState::Ready);
    assert_eq!(reason(resume(&fleet, &job).await), Reason::VerbNotAllowed);
}

#[tokio::test]
async fn a_job_whose_chain_does_not_verify_is_neither_resumed_nor_reopened() {
    let (fleet, mut worker) = start().await;
    let (failed, grant) = run(&fleet, &mut worker, "final").await;
    applied(worker.end(&grant, 1, How::ExitCode(65)).await);
    let aside = set_aside(&fleet, &mut worker, &["push"], How::ExitCode(65)).await;
    reconcile(&fleet, &aside, "push", not_done(), "looked").await.unwrap();
    let pool = fleet.pool().await;
    // One byte of white space more, which changes nothing that is read.
    sqlx::query("UPDATE journal SET bytes = bytes || '\\x20'::bytea WHERE seq = 3")
        .execute(&pool)
        .await
        .unwrap();
    assert_eq!(reason(resume(&fleet, &failed).await), Reason::ChainBroken);
    assert_eq!(reason(reopen(&fleet, &aside).await), Reason::ChainBroken);
    sqlx::query("UPDATE journal SET bytes = substr(bytes, 1, octet_length(bytes) - 1) WHERE seq = 3")
        .execute(&pool)
        .await
        .unwrap();
    assert_eq!(resume(&fleet, &failed).await.unwrap().state(), JobState::Ready);
}
