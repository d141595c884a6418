//! Jobs that wait: they are woken once, by whichever coordinator is first, and what was waited for is answered from then on.

use std::collections::BTreeSet;

use tenure_core::reason::Reason;
use tenure_proto::v1::{
    self, JobState, ask_wait_response::Answer, attach_request::Message, run_end::How, wait_until::When,
};

use crate::{
    fleet::{Fleet, reason},
    worker::{Worker, applied, end},
};

/// The worker asks about a wait of its run.
async fn ask(fleet: &Fleet, grant: &v1::Grant, name: &str, after_s: i64) -> Result<Answer, tonic::Status> {
    let after = prost_types::Duration { seconds: after_s, nanos: 0 };
    let request = v1::AskWaitRequest {
        run: grant.run.clone(),
        secret: grant.secret.clone(),
        name: name.into(),
        until: Some(v1::WaitUntil { when: Some(When::After(after)) }),
        job_ids: Vec::new(),
    };
    Ok(fleet.workers().ask_wait(request).await?.into_inner().answer.unwrap())
}

async fn announce(fleet: &Fleet, grant: &v1::Grant, name: &str, after_s: i64) -> v1::Wait {
    match ask(fleet, grant, name, after_s).await.unwrap() {
        Answer::Pending(wait) => wait,
        Answer::Over(over) => panic!("it is over: {over:?}"),
    }
}

/// The run ends because it waits.
async fn suspend(worker: &mut Worker, grant: &v1::Grant, wait: v1::Wait) {
    worker.say(Message::EndRun(end(grant, 1, How::Waiting(wait)))).await;
    applied(worker.hear_appended(1).await);
}

#[tokio::test]
async fn four_coordinators_wake_each_of_a_hundred_jobs_once() {
    const JOBS: usize = 100;
    let fleet = Fleet::start().await;
    let _others = [fleet.start_another().await, fleet.start_another().await, fleet.start_another().await];
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let mut jobs = BTreeSet::new();
    for _ in 0..JOBS {
        jobs.insert(fleet.submit("plain").await);
    }
    for _ in 0..JOBS {
        worker.renew(None).await;
        worker.want(1).await;
        let grant = worker.hear_grant().await;
        let wait = announce(&fleet, &grant, "#1", 600).await;
        suspend(&mut worker, &grant, wait).await;
    }
    let pool = fleet.pool().await;
    let due = sqlx::query("UPDATE waits SET until = now()").execute(&pool).await.unwrap();
    assert_eq!(due.rows_affected(), JOBS as u64);
    for job in &jobs {
        fleet.job_in(job, JobState::Ready).await;
        let woken = fleet.kinds(job).await.into_iter().filter(|kind| kind == "woken").count();
        assert_eq!(woken, 1, "{job}");
    }
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM waits").fetch_one(&pool).await.unwrap();
    let queued: i64 = sqlx::query_scalar("SELECT count(*) FROM ready").fetch_one(&pool).await.unwrap();
    assert_eq!((left, queued), (0, JOBS as i64));
}

#[tokio::test]
async fn a_wait_that_was_woken_is_answered_at_once_and_others_of_the_job_are_not() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let wait = announce(&fleet, &grant, "#1", 1).await;
    let until = wait.until;
    suspend(&mut worker, &grant, wait).await;
    worker.want(1).await;
    let next = worker.hear_grant().await;
    assert_eq!((next.run.clone().unwrap().run, next.attempt), (2, 1), "no attempt is used");
    assert!(next.brief.contains("ended on purpose"), "{}", next.brief);
    match ask(&fleet, &next, "#1", 1).await.unwrap() {
        Answer::Over(over) => assert_eq!((over.name.as_str(), over.due), ("#1", until)),
        Answer::Pending(wait) => panic!("it was woken: {wait:?}"),
    }
    assert!(matches!(ask(&fleet, &next, "#2", 60).await.unwrap(), Answer::Pending(_)));
    assert_eq!(reason(ask(&fleet, &grant, "#1", 1).await), Reason::Fenced, "the run before is over");
    assert_eq!(fleet.kinds(&job).await[3..], ["child_gone", "suspended", "woken", "run_started"]);
}

#[tokio::test]
async fn a_wait_beyond_the_sessions_deadline_or_31_days_is_refused_when_it_is_asked_for() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 2).await;
    fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    for after_s in [0, 3_601, 40 * 86_400] {
        assert_eq!(reason(ask(&fleet, &grant, "#1", after_s).await), Reason::WaitOutOfBounds, "{after_s} s");
    }
    assert!(matches!(ask(&fleet, &grant, "#1", 3_000).await.unwrap(), Answer::Pending(_)));
}

#[tokio::test]
async fn a_job_that_waits_is_exhausted_when_its_sessions_deadline_is_reached() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let wait = announce(&fleet, &grant, "#1", 600).await;
    suspend(&mut worker, &grant, wait).await;
    let shown = fleet.job_in(&job, JobState::Suspended).await;
    assert_eq!(shown.wait.unwrap().name, "#1");
    let pool = fleet.pool().await;
    sqlx::query("UPDATE sessions SET deadline_at = now()").execute(&pool).await.unwrap();
    assert_eq!(fleet.job_in(&job, JobState::Exhausted).await.reason, "deadline");
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM waits").fetch_one(&pool).await.unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_cancel_of_a_job_that_waits_seals_it_and_leaves_no_wait() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 1).await;
    let job = fleet.submit("plain").await;
    let grant = worker.hear_grant().await;
    let wait = announce(&fleet, &grant, "#1", 600).await;
    suspend(&mut worker, &grant, wait).await;
    fleet.cancel(&job).await.unwrap();
    assert_eq!(fleet.job(&job).await.state(), JobState::Cancelled);
    let pool = fleet.pool().await;
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM waits").fetch_one(&pool).await.unwrap();
    assert_eq!(left, 0);
}

/// The worker asks about a wait for jobs.
async fn ask_for_jobs(fleet: &Fleet, grant: &v1::Grant, jobs: &[String]) -> Result<Answer, tonic::Status> {
    let request = v1::AskWaitRequest {
        run: grant.run.clone(),
        secret: grant.secret.clone(),
        name: "#1".into(),
        until: None,
        job_ids: jobs.to_vec(),
    };
    Ok(fleet.workers().ask_wait(request).await?.into_inner().answer.unwrap())
}

/// Submits a job and has it claimed.
async fn begin(fleet: &Fleet, worker: &mut Worker) -> (String, v1::Grant) {
    // Many of them take longer than a term that nobody renews.
    worker.renew(None).await;
    let job = fleet.submit("plain").await;
    worker.want(1).await;
    let grant = worker.hear_grant().await;
    assert_eq!(grant.run.as_ref().unwrap().job_id, job);
    (job, grant)
}

async fn succeed(worker: &mut Worker, grant: &v1::Grant, result: &str) {
    let report = v1::EndRun { result: Some(result.to_owned().into()), ..end(grant, 1, How::ExitCode(0)) };
    worker.say(Message::EndRun(report)).await;
    applied(worker.hear_appended(1).await);
}

fn over(answer: Answer) -> v1::WaitOver {
    match answer {
        Answer::Over(over) => over,
        Answer::Pending(wait) => panic!("it is not over: {wait:?}"),
    }
}

#[tokio::test]
async fn a_job_that_waits_for_others_is_woken_by_the_last_conclusion_with_what_came_of_each() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let (parent, waiting) = begin(&fleet, &mut worker).await;
    let (mut children, mut grants) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (job, grant) = begin(&fleet, &mut worker).await;
        children.push(job);
        grants.push(grant);
    }
    children.push(fleet.submit("plain").await);
    succeed(&mut worker, &grants[0], "first").await;
    let wait = match ask_for_jobs(&fleet, &waiting, &children).await.unwrap() {
        Answer::Pending(wait) => wait,
        Answer::Over(over) => panic!("two are open: {over:?}"),
    };
    // One concludes before the wait is in the journal.
    succeed(&mut worker, &grants[1], "second").await;
    suspend(&mut worker, &waiting, wait).await;
    assert_eq!(fleet.job(&parent).await.wait.unwrap().jobs, 3);
    fleet.cancel(&children[2]).await.unwrap();
    fleet.job_in(&children[2], JobState::Cancelled).await;
    worker.want(1).await;
    let next = worker.hear_grant().await;
    assert_eq!(next.run.clone().unwrap().job_id, parent);
    for told in ["succeeded; it returned: first", "it returned: second", "cancelled"] {
        assert!(next.brief.contains(told), "{}", next.brief);
    }
    let handover: serde_json::Value = serde_json::from_slice(&next.handover).unwrap();
    assert_eq!(handover["awaited"][1]["result"], "second");
    let told = over(ask_for_jobs(&fleet, &next, &children).await.unwrap());
    let outcomes: Vec<_> = told.jobs.iter().map(|job| (job.job_id.clone(), job.outcome())).collect();
    let expected = [JobState::Succeeded, JobState::Succeeded, JobState::Cancelled];
    assert_eq!(outcomes, children.iter().cloned().zip(expected).collect::<Vec<_>>());
    assert_eq!(told.jobs[0].result.as_deref(), Some(b"first".as_slice()));
    assert_eq!(told.due, None);
}

#[tokio::test]
async fn jobs_that_have_concluded_already_are_answered_at_once_and_unknown_ones_are_refused() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let (_, waiting) = begin(&fleet, &mut worker).await;
    let (child, grant) = begin(&fleet, &mut worker).await;
    succeed(&mut worker, &grant, "all of it").await;
    let told = over(ask_for_jobs(&fleet, &waiting, std::slice::from_ref(&child)).await.unwrap());
    assert_eq!((told.jobs[0].outcome(), told.jobs[0].result_bytes), (JobState::Succeeded, 9));
    let unknown = "0193a7c2-1111-7000-8000-00000000abcd".to_owned();
    let refused = ask_for_jobs(&fleet, &waiting, &[child, unknown]).await;
    assert_eq!(reason(refused), Reason::JobNotFound);
    let itself = waiting.run.clone().unwrap().job_id;
    assert_eq!(reason(ask_for_jobs(&fleet, &waiting, &[itself]).await), Reason::InvalidArgument);
}

#[tokio::test]
async fn an_expired_wait_for_jobs_stays_suspended_until_a_person_has_it_go_on() {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let (parent, waiting) = begin(&fleet, &mut worker).await;
    let (child, _) = begin(&fleet, &mut worker).await;
    let Answer::Pending(wait) = ask_for_jobs(&fleet, &waiting, &[child]).await.unwrap() else {
        panic!("the child is open")
    };
    suspend(&mut worker, &waiting, wait).await;
    let resume = || v1::ResumeJobRequest { job: parent.clone(), why: "looked".into() };
    assert_eq!(reason(fleet.jobs().resume_job(resume()).await), Reason::VerbNotAllowed);
    let pool = fleet.pool().await;
    sqlx::query("UPDATE waits SET until = now()").execute(&pool).await.unwrap();
    let shown = fleet.job(&parent).await;
    assert_eq!((shown.state(), shown.wait.unwrap().expired), (JobState::Suspended, true));
    assert!(shown.next[0].starts_with("tenure resume "), "{:?}", shown.next);
    fleet.jobs().resume_job(resume()).await.unwrap();
    worker.want(1).await;
    let next = worker.hear_grant().await;
    assert_eq!(next.run.unwrap().job_id, parent);
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM awaited").fetch_one(&pool).await.unwrap();
    assert_eq!(left, 0, "no row of it is left behind");
}

/// What the indexes of the awaited gave while one parent waited for so many children.
async fn read_by_a_fan_in(children: usize) -> i64 {
    let fleet = Fleet::start().await;
    let mut worker = Worker::start(&fleet, "w1", 0).await;
    let (parent, waiting) = begin(&fleet, &mut worker).await;
    let (mut jobs, mut grants) = (Vec::new(), Vec::new());
    for _ in 0..children {
        let (job, grant) = begin(&fleet, &mut worker).await;
        jobs.push(job);
        grants.push(grant);
    }
    let Answer::Pending(wait) = ask_for_jobs(&fleet, &waiting, &jobs).await.unwrap() else {
        panic!("nothing has concluded")
    };
    suspend(&mut worker, &waiting, wait).await;
    for grant in &grants {
        worker.renew(None).await;
        succeed(&mut worker, grant, "done").await;
    }
    fleet.job_in(&parent, JobState::Ready).await;
    let pool = fleet.pool().await;
    sqlx::query("SELECT pg_stat_force_next_flush()").execute(&pool).await.unwrap();
    let read =
        "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes WHERE relname = 'awaited'";
    let mut last = 0;
    tenure_testkit::wait_for(
        "every connection to have said what it read",
        crate::fleet::PATIENCE,
        async || {
            let now: i64 = sqlx::query_scalar(read).fetch_one(&pool).await.unwrap();
            let settled = now > 0 && now == last;
            last = now;
            if settled { Ok(()) } else { Err(now) }
        },
    )
    .await;
    last
}

#[tokio::test]
async fn the_cost_of_a_fan_in_grows_with_the_number_of_children_and_not_with_its_square() {
    let (few, many) = (read_by_a_fan_in(40).await, read_by_a_fan_in(160).await);
    assert!(many < few.max(40) * 8, "40 children read {few} entries, and 160 read {many}");
}
