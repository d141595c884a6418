//! Workers come, go, and come again.

use tenure_core::reason::Reason;
use tenure_proto::v1::{
    self, attach_request::Message as Request, attach_response::Message as Response, run_end::How,
};

use crate::{
    fleet::{Fleet, reason, submission},
    worker::{Registration, Worker, applied, introduction, register},
};

/// Provokes `DISPLACED`.
#[tokio::test]
async fn a_later_attach_of_the_same_term_displaces_the_first() {
    let fleet = Fleet::start().await;
    let mut first = Worker::start(&fleet, "w1", 1).await;
    let mut second = Worker::attach(&fleet.channel, &first.registration).await.unwrap();
    assert_eq!(second.attach, first.attach + 1);
    assert_eq!(reason::<()>(Err(first.hear_end().await)), Reason::Displaced);
    second.want(1).await;
    fleet.submit("plain").await;
    assert_eq!(second.hear_grant().await.attach, second.attach);
}

#[tokio::test]
async fn a_stream_that_withdrew_its_credits_gets_no_grant_for_a_waiting_job() {
    let fleet = Fleet::start().await;
    let mut leaving = Worker::start(&fleet, "leaving", 2).await;
    leaving.say(Request::Credits(v1::Credits { more: 0, withdrawn: true })).await;
    // What comes after it on the stream is void as well. The messages of a stream are taken in turn, so a renewal that is
    // answered says that they were taken.
    leaving.want(1).await;
    leaving.renew(None).await;
    let waiting = fleet.submit("plain").await;
    leaving.want(1).await;
    leaving.renew(None).await;
    let mut staying = Worker::start(&fleet, "staying", 1).await;
    assert_eq!(staying.hear_grant().await.run.unwrap().job_id, waiting);
    assert_eq!(leaving.grants_so_far().await, 0);
    // It holds for the stream, and the next one of the same worker is granted what it wants.
    let next = fleet.submit("plain").await;
    let mut again = Worker::attach(&fleet.channel, &leaving.registration).await.unwrap();
    again.want(1).await;
    assert_eq!(again.hear_grant().await.run.unwrap().job_id, next);
}

#[tokio::test]
async fn an_attach_elsewhere_displaces_the_first_at_its_next_renewal() {
    let fleet = Fleet::start().await;
    let (_other, channel) = fleet.start_another().await;
    let mut first = Worker::start(&fleet, "w1", 1).await;
    let _second = Worker::attach(&channel, &first.registration).await.unwrap();
    first
        .say(Request::Renew(v1::Renew { echo: first.registration.answer, no: 1, ..Default::default() }))
        .await;
    assert_eq!(reason::<()>(Err(first.hear_end().await)), Reason::Displaced);
}

/// Provokes `ATTACH_REFUSED`.
#[tokio::test]
async fn an_attach_without_the_secret_of_its_registration_is_refused() {
    let fleet = Fleet::start().await;
    let registration = register(&fleet.channel, introduction("w1")).await;
    let forged = Registration { secret: vec![7; 32], ..registration };
    let refused = Worker::attach(&fleet.channel, &forged).await.map(|_| ());
    assert_eq!(reason(refused), Reason::AttachRefused);
}

/// Provokes `TERM_CLOSED`.
#[tokio::test]
async fn an_attach_to_a_term_that_never_was_is_refused() {
    let fleet = Fleet::start().await;
    let registration = register(&fleet.channel, introduction("w1")).await;
    let unknown = Registration { term: registration.term + 1, ..registration };
    let refused = Worker::attach(&fleet.channel, &unknown).await.map(|_| ());
    assert_eq!(reason(refused), Reason::TermClosed);
}

#[tokio::test]
async fn a_worker_that_introduces_itself_wrongly_is_refused_by_field() {
    let fleet = Fleet::start().await;
    let ttl = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    for wrong in [
        v1::RegisterWorkerRequest { name: "no spaces".into(), ..introduction("w1") },
        v1::RegisterWorkerRequest { slots: 0, ..introduction("w1") },
        v1::RegisterWorkerRequest { ttl, ..introduction("w1") },
        v1::RegisterWorkerRequest { fencing: 0, ..introduction("w1") },
        v1::RegisterWorkerRequest { labels: vec!["x".into(); 65], ..introduction("w1") },
    ] {
        let refused = fleet.workers().register_worker(wrong).await;
        assert_eq!(reason(refused), Reason::InvalidArgument);
    }
}

#[tokio::test]
async fn a_run_goes_on_through_another_coordinator() {
    let fleet = Fleet::start().await;
    let (_other, channel) = fleet.start_another().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    applied(worker.note(&grant, 1, "through the first").await);
    let mut moved = Worker::attach(&channel, &worker.registration).await.unwrap();
    applied(moved.note(&grant, 2, "through the second").await);
    applied(moved.end(&grant, 3, How::ExitCode(0)).await);
    let kinds = fleet.kinds(&job).await;
    assert_eq!(kinds[3..], ["note", "note", "job_concluded"]);
}

#[tokio::test]
async fn a_lost_grant_is_given_back_without_an_attempt() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let lost = worker.hear_grant().await.run.unwrap();
    let pool = fleet.pool().await;
    sqlx::query("UPDATE leases SET granted_at = granted_at - interval '1 minute'")
        .execute(&pool)
        .await
        .unwrap();
    worker.renew(Some(vec![lost.clone()])).await;
    worker.renew(Some(Vec::new())).await;
    let named = worker
        .hear(|message| match message {
            Response::LostGrants(lost) => Some(lost.runs.clone()),
            _ => None,
        })
        .await;
    assert_eq!(named.as_slice(), std::slice::from_ref(&lost));
    worker.say(Request::NotMine(v1::NotMine { run: Some(lost.clone()) })).await;
    worker.want(1).await;
    let again = worker.hear_grant().await;
    assert_eq!((again.attempt, again.brief.as_str()), (1, ""));
    assert!(again.run.unwrap().epoch > lost.epoch);
    assert!(fleet.kinds(&job).await.contains(&"grant_released".to_owned()));
}

#[tokio::test]
async fn a_renewal_whose_echo_is_too_old_is_answered_deaf_and_renews_nothing() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let answer = std::mem::replace(&mut worker.registration.answer, 1);
    let deaf = worker.renew(None).await;
    assert!(matches!(deaf.outcome, Some(v1::renewed::Outcome::Deaf(_))), "{deaf:?}");
    assert!(deaf.answer > answer);
    let renewed = worker.renew(None).await;
    assert_eq!(renewed.no, 7);
    assert!(matches!(renewed.outcome, Some(v1::renewed::Outcome::Renewed(_))), "{renewed:?}");
}

#[tokio::test]
async fn workers_are_listed_with_what_they_hold() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    register(&fleet.channel, introduction("w2")).await;
    fleet.submit("plain").await;
    worker.hear_grant().await;
    let request = v1::ListWorkersRequest { limit: 1, ..Default::default() };
    let first = fleet.workers().list_workers(request).await.unwrap().into_inner();
    let request = v1::ListWorkersRequest { limit: 1, cursor: first.cursor };
    let second = fleet.workers().list_workers(request).await.unwrap().into_inner();
    let told = |page: &[v1::Worker]| {
        page.iter().map(|worker| (worker.name.clone(), worker.leases)).collect::<Vec<_>>()
    };
    assert_eq!(told(&first.workers), [("w1".to_owned(), 1)]);
    assert_eq!(told(&second.workers), [("w2".to_owned(), 0)]);
}

#[tokio::test]
async fn a_worker_that_attaches_again_is_asked_about_grants_that_it_does_not_name() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    fleet.submit("plain").await;
    let lost = worker.hear_grant().await.run.unwrap();
    let pool = fleet.pool().await;
    sqlx::query("UPDATE leases SET granted_at = granted_at - interval '1 minute'")
        .execute(&pool)
        .await
        .unwrap();
    let mut again = Worker::attach(&fleet.channel, &worker.registration).await.unwrap();
    let named = again
        .hear(|message| match message {
            Response::LostGrants(lost) => Some(lost.runs.clone()),
            _ => None,
        })
        .await;
    assert_eq!(named, [lost]);
}

#[tokio::test]
async fn workers_of_two_coordinators_never_get_the_same_job() {
    const JOBS: usize = 60;
    let fleet = Fleet::start().await;
    let (_other, channel) = fleet.start_another().await;
    let here =
        register(&fleet.channel, v1::RegisterWorkerRequest { slots: 100, ..introduction("here") }).await;
    let there = register(&channel, v1::RegisterWorkerRequest { slots: 100, ..introduction("there") }).await;
    let request = v1::SubmitJobsRequest { submissions: vec![submission("plain"); JOBS] };
    fleet.jobs().submit_jobs(request).await.unwrap();
    let mut here = Worker::attach(&fleet.channel, &here).await.unwrap();
    let mut there = Worker::attach(&channel, &there).await.unwrap();
    for _ in 0..10 {
        here.want(3).await;
        there.want(3).await;
    }
    let mut granted = Vec::new();
    for _ in 0..JOBS / 2 {
        granted.push(here.hear_grant().await.run.unwrap().job_id);
        granted.push(there.hear_grant().await.run.unwrap().job_id);
    }
    granted.sort();
    granted.dedup();
    assert_eq!(granted.len(), JOBS);
}
