//! Halts: what they refuse, at every coordinator, until they are lifted.

use tenure_core::reason::Reason;
use tenure_proto::{
    status::status_to_refusal,
    v1::{self, JobState, halt_service_client::HaltServiceClient},
};
use tonic::Status;

use crate::{
    fleet::{Fleet, Way, reason, submission},
    worker::Worker,
};

pub(crate) async fn halt(way: &Way, scope: &str, why: &str) -> Result<v1::ThrowHaltResponse, Status> {
    let request = v1::ThrowHaltRequest { scope: scope.into(), why: why.into() };
    Ok(HaltServiceClient::new(way.clone()).throw_halt(request).await?.into_inner())
}

pub(crate) async fn lift(way: &Way, halt: u64, why: &str) -> Result<v1::Halt, Status> {
    let request = v1::LiftHaltRequest { halt, why: why.into() };
    Ok(HaltServiceClient::new(way.clone()).lift_halt(request).await?.into_inner().halt.unwrap())
}

async fn list(way: &Way, lifted: bool) -> Vec<v1::Halt> {
    let request = v1::ListHaltsRequest { lifted, ..Default::default() };
    HaltServiceClient::new(way.clone()).list_halts(request).await.unwrap().into_inner().halts
}

/// Provokes `HALTED`.
#[tokio::test]
async fn what_a_halt_stands_against_is_refused_at_every_coordinator_and_waits_until_the_lift() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let waiting = fleet.submit("plain").await;
    let thrown = halt(&fleet.channel, "agent plain", " it spams ").await.unwrap().halt.unwrap();
    assert_eq!((thrown.scope.as_str(), thrown.why.as_str()), ("agent plain", "it spams"));
    let (_other, way) = fleet.start_another().await;
    for way in [&fleet.channel, &way] {
        let mut jobs = v1::job_service_client::JobServiceClient::new(way.clone());
        let keyed = v1::Submission { key: Some("k".into()), ..submission("plain") };
        let refused = jobs.submit_job(v1::SubmitJobRequest { submission: Some(keyed) }).await.unwrap_err();
        let refusal = status_to_refusal(&refused).unwrap();
        assert_eq!(refusal.reason, Reason::Halted);
        assert_eq!((&*refusal.details["scope"], &*refusal.details["why"]), ("agent plain", "it spams"));
        assert_eq!(refusal.next, Some(format!("tenure lift {} --why W", thrown.id)));
    }
    worker.want(1).await;
    let job = fleet.job(&waiting).await;
    assert_eq!(job.state(), JobState::Ready);
    assert_eq!(job.halt.map(|halt| (halt.id, halt.scope)), Some((thrown.id, "agent plain".to_owned())));
    assert_eq!(job.next[0], format!("tenure lift {} --why W", thrown.id));
    let lifted = lift(&way, thrown.id, "it stopped").await.unwrap();
    assert_eq!((lifted.lift_why.as_str(), lifted.lifted_at.is_some()), ("it stopped", true));
    assert_eq!(worker.hear_grant().await.run.unwrap().job_id, waiting);
    let keyed = v1::Submission { key: Some("k".into()), ..submission("plain") };
    assert!(!fleet.submit_with(keyed).await.unwrap().already_submitted, "its key was left free");
    assert_eq!(list(&fleet.channel, false).await, []);
    assert_eq!(list(&fleet.channel, true).await.len(), 1);
}

/// Provokes `HALT_NOT_STANDING`.
#[tokio::test]
async fn a_halt_without_a_reason_an_unknown_scope_and_a_lift_of_what_does_not_stand_are_refused() {
    let fleet = Fleet::start().await;
    let way = &fleet.channel;
    assert_eq!(reason(halt(way, "tenant", " ").await), Reason::ReasonMissing);
    assert_eq!(reason(halt(way, "fleet", "all of it").await), Reason::InvalidArgument);
    for scope in ["", "agent", "agent No!", "tenant other", "region eu", "revision abc"] {
        assert_eq!(reason(halt(way, scope, "why not").await), Reason::InvalidArgument, "{scope}");
    }
    assert_eq!(reason(lift(way, 12, "done").await), Reason::HaltNotStanding);
    assert_eq!(list(way, true).await, []);
    let thrown = halt(way, "tenant", "it spams").await.unwrap();
    let again = halt(way, "tenant", "it spams").await.unwrap();
    assert_eq!((thrown.already_standing, again.already_standing), (false, true));
    let id = thrown.halt.unwrap().id;
    assert_eq!(reason(lift(way, id, "").await), Reason::ReasonMissing);
    lift(way, id, "it stopped").await.unwrap();
    assert_eq!(reason(lift(way, id, "once more").await), Reason::HaltNotStanding);
}
