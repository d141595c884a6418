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
