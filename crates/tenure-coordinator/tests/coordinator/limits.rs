//! What runs spend, and what limits of money and of runs make of jobs and submissions, as workers and callers meet it.

use tenure_core::{id::Digest, reason::Reason};
use tenure_proto::v1::{
    self, EffectRecovery, JobState, appended::Outcome, attach_request::Message as Request, new_record::Kind,
    run_end::How,
};

use crate::{
    fleet::{Fleet, reason, submission},
    worker::{Worker, applied},
};

const FRUGAL_AGENT: &str =
    r#"{"command":["true"],"limits":{"budget":"1.00","runs":2},"recovery":{"backoff":{"first":"1ms"}}}"#;

async fn say(worker: &mut Worker, grant: &v1::Grant, n: u64, kind: Kind) -> Outcome {
    let records = vec![v1::NewRecord { kind: Some(kind) }];
    let append = v1::Append { run: grant.run.clone(), n, acknowledged_seq: grant.seq, records };
    worker.say(Request::Append(append)).await;
    worker.hear_appended(n).await
}

fn spent(cost_micros: u64) -> Kind {
    Kind::Spent(v1::NewSpent { tokens: 100, cost_micros, turns: 1 })
}

fn push() -> Kind {
    Kind::EffectStarted(v1::NewEffectStarted {
        key: "push".into(),
        attempt: 1,
        recovery: EffectRecovery::Ask.into(),
        mutates: true,
        request: r#"{"command":["git","push"]}"#.into(),
        request_digest: Digest::of(b"git push").0.to_vec().into(),
        ..Default::default()
    })
}

/// A run of a new job, granted to a worker.
async fn run(fleet: &Fleet, worker: &mut Worker) -> (String, v1::Grant) {
    let job = fleet.submit("frugal").await;
    worker.want(1).await;
    (job, worker.hear_grant().await)
}

#[tokio::test]
async fn an_effect_beyond_the_budget_is_refused_once_in_the_journal_and_its_run_ends_exhausted() {
    for how in [How::ExitCode(0), How::ExitCode(125)] {
        let fleet = Fleet::start().await;
        fleet.apply("frugal", FRUGAL_AGENT).await;
        let mut worker = Worker::start(&fleet, "w1", 0).await;
        let (job, grant) = run(&fleet, &mut worker).await;
        applied(say(&mut worker, &grant, 1, spent(1_200_000)).await);
        for n in [2, 3] {
            let Outcome::Refused(refused) = say(&mut worker, &grant, n, push()).await else { panic!("{n}") };
            assert_eq!(refused.code, Reason::LimitReached.code());
            assert!(refused.message.contains("1.20 of 1.00"), "{}", refused.message);
        }
        applied(worker.end(&grant, 4, how.clone()).await);
        let present = fleet.job_in(&job, JobState::Exhausted).await;
        assert_eq!(present.reason, "budget");
        assert!(present.detail.contains("1.20 of 1.00"), "{}", present.detail);
        let kinds = fleet.kinds(&job).await;
        assert_eq!(kinds[3..], ["spent", "budget_refused", "child_gone", "job_concluded"], "{how:?}");
    }
}

#[tokio::test]
async fn a_spend_that_is_none_changes_no_balance_and_the_run_goes_on() {
    let fleet = Fleet::start().await;
    fleet.apply("frugal", FRUGAL_AGENT).await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let (job, grant) = run(&fleet, &mut worker).await;
    for (n, kind) in [
        (1, Kind::Spent(v1::NewSpent::default())),
        (2, spent(u64::MAX)),
        (3, Kind::Spent(v1::NewSpent { tokens: 1 << 63, ..Default::default() })),
    ] {
        let Outcome::Refused(refused) = say(&mut worker, &grant, n, kind).await else { panic!("{n}") };
        assert_eq!(refused.code, Reason::InvalidArgument.code());
    }
    applied(say(&mut worker, &grant, 4, push()).await);
    assert_eq!(fleet.kinds(&job).await[3..], ["effect_started"]);
}

#[tokio::test]
async fn a_session_that_has_had_its_runs_is_exhausted_and_says_how_many() {
    let fleet = Fleet::start().await;
    fleet.apply("frugal", FRUGAL_AGENT).await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let (job, grant) = run(&fleet, &mut worker).await;
    applied(worker.end(&grant, 1, How::ExitCode(3)).await);
    worker.want(1).await;
    let again = worker.hear_grant().await;
    applied(worker.end(&again, 1, How::ExitCode(3)).await);
    let present = fleet.job_in(&job, JobState::Exhausted).await;
    assert_eq!(present.reason, "runs");
    assert!(present.detail.contains("2 of 2"), "{}", present.detail);
}

#[tokio::test]
async fn no_session_is_opened_once_the_reserve_is_spent_and_a_key_that_was_used_is_answered_all_the_same() {
    let fleet = Fleet::start().await;
    let bundle = r#"{"limits":{"reserve":"0.50"}}"#;
    let agents = vec![v1::AgentDeclaration { name: "frugal".into(), document: FRUGAL_AGENT.into() }];
    let request = v1::ApplyAgentsRequest { agents, bundle: bundle.into(), ..Default::default() };
    fleet.agents().apply_agents(request).await.unwrap();
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let keyed = v1::Submission { key: Some("k".into()), ..submission("frugal") };
    let first = fleet.submit_with(keyed.clone()).await.unwrap();
    let grant = worker.hear_grant().await;
    applied(say(&mut worker, &grant, 1, spent(499_999)).await);
    fleet.submit_with(submission("frugal")).await.unwrap();
    applied(say(&mut worker, &grant, 2, spent(1)).await);
    assert_eq!(reason(fleet.submit_with(submission("frugal")).await), Reason::LimitReached);
    // What runs already goes on: its own budget is another matter.
    applied(say(&mut worker, &grant, 3, push()).await);
    let again = fleet.submit_with(keyed).await.unwrap();
    assert_eq!((again.job_id, again.already_submitted), (first.job_id, true));
}

async fn raise(
    fleet: &Fleet,
    target: &str,
    limit: &str,
    value: &str,
) -> Result<v1::RaiseLimitResponse, tonic::Status> {
    let [target, limit, value, why] = [target, limit, value, "it is nearly done"].map(str::to_owned);
    let request = v1::RaiseLimitRequest { target, limit, value, why };
    Ok(fleet.jobs().raise_limit(request).await?.into_inner())
}

async fn resume(fleet: &Fleet, job: &str) -> Result<v1::ResumeJobResponse, tonic::Status> {
    let request = v1::ResumeJobRequest { job: job.into(), why: "raised".into() };
    Ok(fleet.jobs().resume_job(request).await?.into_inner())
}

#[tokio::test]
async fn a_job_goes_on_once_its_limit_is_raised_enough_and_nothing_is_journaled_where_it_is_not() {
    let fleet = Fleet::start().await;
    fleet.apply("frugal", FRUGAL_AGENT).await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let (job, grant) = run(&fleet, &mut worker).await;
    applied(say(&mut worker, &grant, 1, spent(1_200_000)).await);
    assert!(matches!(say(&mut worker, &grant, 2, push()).await, Outcome::Refused(_)));
    applied(worker.end(&grant, 3, How::ExitCode(125)).await);
    fleet.job_in(&job, JobState::Exhausted).await;
    let before = fleet.kinds(&job).await;
    assert_eq!(reason(raise(&fleet, &job, "budget", "1.19").await), Reason::InvalidArgument);
    assert_eq!(reason(raise(&fleet, &job, "budget", "-5").await), Reason::InvalidArgument);
    assert_eq!(reason(resume(&fleet, &job).await), Reason::LimitReached);
    assert_eq!(fleet.kinds(&job).await, before);
    // Enough for nothing: it is raised, and refused again.
    let raised = raise(&fleet, &job, "budget", "1.20").await.unwrap();
    assert_eq!(
        raised.session.unwrap().budget_micros,
        Some(v1::UsedAmount { used: 1_200_000, allowed: 1_200_000 })
    );
    assert_eq!(reason(resume(&fleet, &job).await), Reason::LimitReached);
    let session = fleet.job(&job).await.session_id;
    let raised = raise(&fleet, &session, "budget", "2.00").await.unwrap();
    assert_eq!((raised.job_id, raised.unchanged), (job.clone(), false));
    assert!(raise(&fleet, &session, "budget", "2.00").await.unwrap().unchanged);
    resume(&fleet, &job).await.unwrap();
    let kinds = fleet.kinds(&job).await;
    assert_eq!(kinds[before.len()..], ["limit_raised", "limit_raised", "resumed", "budget_readmitted"]);
    worker.want(1).await;
    let again = worker.hear_grant().await;
    applied(say(&mut worker, &again, 1, push()).await);
    let request = v1::GetSessionRequest { session };
    let session = fleet.jobs().get_session(request).await.unwrap().into_inner().session.unwrap();
    assert_eq!(session.runs, Some(v1::UsedAmount { used: 2, allowed: 2 }));
    assert_eq!((session.tokens, session.turns, session.job_count), (100, 1, 1));
    assert_eq!(session.jobs[0].id, job);
}

#[tokio::test]
async fn hops_are_raised_for_a_job_and_runs_for_its_session() {
    let fleet = Fleet::start().await;
    let job = fleet.submit("plain").await;
    let session = fleet.job(&job).await.session_id;
    assert_eq!(reason(raise(&fleet, &session, "hops", "12").await), Reason::InvalidArgument);
    let raised = raise(&fleet, &job, "hops", "12").await.unwrap().session.unwrap();
    assert_eq!(raised.jobs[0].hops_left, 12);
    let raised = raise(&fleet, &session, "runs", "100").await.unwrap().session.unwrap();
    assert_eq!(raised.runs, Some(v1::UsedAmount { used: 0, allowed: 100 }));
    assert_eq!(
        reason(raise(&fleet, "018f0000-0000-7000-8000-000000000000", "runs", "5").await),
        Reason::JobNotFound
    );
}
