//! A job comes into being.

use jiff::{SignedDuration, ToSpan as _};
use tenure_core::{
    credential::Tenants,
    id::{Digest, Seq},
    job::State,
    record::DeadlineSetting,
};
use tenure_store::{NewJob, SubmissionKey, Submitted};

use crate::fleet::{Fleet, Holder, agent, eager_claim, new_job, now};

fn keyed(job: NewJob, key: &str, payload: &str) -> NewJob {
    let key = SubmissionKey { hash: Digest::of(key.as_bytes()), payload: Digest::of(payload.as_bytes()) };
    NewJob { key: Some(key), ..job }
}

#[tokio::test]
async fn submitted_job_is_ready_with_two_records_and_its_deadline() {
    let fleet = Fleet::start().await;
    let job = fleet.new_job();
    let outcomes = fleet.store.submit_jobs(std::slice::from_ref(&job)).await.unwrap();
    let [Submitted::Admitted { deadline_at: Some(deadline), claimed: false, queue_no: Some(_), now }] =
        outcomes[..]
    else {
        panic!("{outcomes:?}")
    };
    assert_eq!(deadline.duration_since(now), SignedDuration::from_secs(3_600));
    let row = fleet.store.read_job(&fleet.tenant, job.job).await.unwrap().unwrap();
    assert_eq!((row.state, row.head.seq, row.agent), (State::Ready, Seq(2), agent("notes")));
    let records = fleet.store.read_records(&fleet.tenant, job.job, Seq(1), &[], 10).await.unwrap().records;
    assert_eq!(
        records.iter().map(|record| &record.kind[..]).collect::<Vec<_>>(),
        ["job_admitted", "plan_frozen"]
    );
    assert_eq!(records[0].value.as_deref(), Some(&b"the input"[..]));
    assert_eq!(records[1].parse().unwrap().seq, Seq(2));
}

#[tokio::test]
async fn deadline_is_absolute_where_it_is_given_and_absent_where_none_is_wanted() {
    let fleet = Fleet::start().await;
    let instant = now().checked_add(90.seconds()).unwrap();
    let jobs = [
        NewJob { deadline: DeadlineSetting::At(instant), ..fleet.new_job() },
        NewJob { deadline: DeadlineSetting::None, ..fleet.new_job() },
        NewJob { deadline: DeadlineSetting::CeilingS(0), ..fleet.new_job() },
    ];
    let outcomes = fleet.store.submit_jobs(&jobs).await.unwrap();
    let deadlines: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Submitted::Admitted { deadline_at, now, .. } => (*deadline_at, *now),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(deadlines[0].0, Some(instant));
    assert_eq!(deadlines[1].0, None);
    assert_eq!(deadlines[2].0, Some(deadlines[2].1), "a ceiling of 0 ends as it begins");
}

#[tokio::test]
async fn session_of_a_delayed_job_starts_with_it_and_the_job_is_not_claimable() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let start = now().checked_add(1.hour()).unwrap();
    let job = fleet.submit_as(NewJob { not_before: Some(start), ..fleet.new_job() }).await;
    let row = fleet.store.read_job(&fleet.tenant, job.job).await.unwrap().unwrap();
    assert_eq!((row.not_before, row.deadline_at), (Some(start), Some(start.checked_add(1.hour()).unwrap())));
    assert_eq!(fleet.claim(&worker, 4).await.claimed, []);
}

#[tokio::test]
async fn same_key_gives_the_same_job_and_another_payload_is_refused() {
    let fleet = Fleet::start().await;
    let first = fleet.submit_as(keyed(fleet.new_job(), "k", "p")).await;
    let again = [
        keyed(fleet.new_job(), "k", "p"),
        keyed(fleet.new_job(), "k", "other"),
        keyed(fleet.new_job(), "another key", "p"),
    ];
    let outcomes = fleet.store.submit_jobs(&again).await.unwrap();
    assert!(matches!(&outcomes[0], Submitted::Existing { job, session, deadline_at: Some(_) }
            if *job == first.job && *session == first.session));
    assert_eq!(outcomes[1], Submitted::KeyReused { job: first.job });
    assert!(matches!(outcomes[2], Submitted::Admitted { .. }));
    assert_eq!(fleet.count("SELECT count(*) FROM jobs").await, 2);
}

#[tokio::test]
async fn first_of_one_key_within_a_batch_is_admitted() {
    let fleet = Fleet::start().await;
    let batch = [
        keyed(fleet.new_job(), "k", "p"),
        keyed(fleet.new_job(), "k", "p"),
        keyed(fleet.new_job(), "k", "q"),
    ];
    let outcomes = fleet.store.submit_jobs(&batch).await.unwrap();
    assert!(matches!(outcomes[0], Submitted::Admitted { .. }), "{outcomes:?}");
    assert!(matches!(outcomes[1], Submitted::Existing { job, .. } if job == batch[0].job), "{outcomes:?}");
    assert_eq!(outcomes[2], Submitted::KeyReused { job: batch[0].job });
}

#[tokio::test]
async fn racing_submissions_of_the_same_keys_in_opposite_order_make_one_job_each() {
    let fleet = Fleet::start().await;
    let keys: Vec<_> = (0..40).map(|no| format!("key {no}")).collect();
    let submit = |reversed: bool| {
        let mut batch: Vec<_> = keys.iter().map(|key| keyed(fleet.new_job(), key, "p")).collect();
        if reversed {
            batch.reverse();
        }
        let store = fleet.store.clone();
        tokio::spawn(async move { store.submit_jobs(&batch).await })
    };
    let racers: Vec<_> = (0..8).map(|no| submit(no % 2 == 1)).collect();
    let mut admitted = 0;
    for racer in racers {
        let outcomes = racer.await.unwrap().unwrap();
        admitted += outcomes.iter().filter(|outcome| matches!(outcome, Submitted::Admitted { .. })).count();
    }
    assert_eq!(admitted, 40);
    assert_eq!(fleet.count("SELECT count(*) FROM jobs").await, 40);
    assert_eq!(fleet.count("SELECT count(*) FROM sessions").await, 40);
    assert_eq!(fleet.count("SELECT count(*) FROM journal").await, 80);
}

#[tokio::test]
async fn submission_that_is_sent_again_is_answered_with_itself() {
    let fleet = Fleet::start().await;
    let job = fleet.submit().await;
    let outcomes = fleet.store.submit_jobs(std::slice::from_ref(&job)).await.unwrap();
    assert!(matches!(outcomes[0], Submitted::Existing { job: id, .. } if id == job.job), "{outcomes:?}");
    assert_eq!(fleet.journal(job.job).await.len(), 2);
}

#[tokio::test]
async fn eager_claim_stores_the_run_with_the_job() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut job = fleet.new_job();
    job.claim = Some(eager_claim(&job, &worker));
    let outcomes = fleet.store.submit_jobs(std::slice::from_ref(&job)).await.unwrap();
    assert!(matches!(outcomes[0], Submitted::Admitted { claimed: true, queue_no: None, .. }), "{outcomes:?}");
    let row = fleet.store.read_job(&fleet.tenant, job.job).await.unwrap().unwrap();
    let lease = row.lease.unwrap();
    assert_eq!(
        (row.state, row.run.0, lease.live, lease.worker),
        (State::Running, 1, true, worker.name.clone())
    );
    assert_eq!(fleet.claim(&worker, 1).await.claimed, [], "it is not in the queue");
    let record = &job.claim.unwrap().record;
    let mut holder = Holder {
        tenant: job.tenant,
        job: job.job,
        generation: job.generation,
        epoch: record.epoch,
        run: record.run,
        head: tenure_core::chain::Head { seq: record.seq, hash: record.hash },
        n: 0,
    };
    let outcome = fleet.append(holder.notes(&["on it"])).await;
    assert_eq!(crate::fleet::applied(&outcome), Some(Seq(4)));
}

#[tokio::test]
async fn eager_claim_that_its_term_refuses_leaves_a_ready_job() {
    let fleet = Fleet::start().await;
    let (lapsed, displaced) = (fleet.attach("lapsed").await, fleet.attach("displaced").await);
    fleet.lapse(&lapsed).await;
    fleet
        .store
        .attach_worker(&displaced.name, displaced.term, Digest::of(b"displaced"), &Tenants::All)
        .await
        .unwrap()
        .unwrap();
    let mut jobs = [fleet.new_job(), fleet.new_job(), fleet.new_job()];
    jobs[0].claim = Some(eager_claim(&jobs[0], &lapsed));
    jobs[1].claim = Some(eager_claim(&jobs[1], &displaced));
    let worker = fleet.attach("w1").await;
    jobs[2].deadline = DeadlineSetting::CeilingS(0);
    jobs[2].claim = Some(eager_claim(&jobs[2], &worker));
    let outcomes = fleet.store.submit_jobs(&jobs).await.unwrap();
    for (job, outcome) in jobs.iter().zip(&outcomes) {
        assert!(
            matches!(outcome, Submitted::Admitted { claimed: false, queue_no: Some(_), .. }),
            "{outcome:?}"
        );
        assert_eq!(fleet.journal(job.job).await.len(), 2);
    }
    assert_eq!(fleet.count("SELECT count(*) FROM leases").await, 0);
}

#[tokio::test]
async fn another_tenants_key_is_another_key() {
    let fleet = Fleet::start().await;
    fleet.submit_as(keyed(fleet.new_job(), "k", "p")).await;
    let other = keyed(new_job(&"other".parse().unwrap(), b"x"), "k", "q");
    let outcomes = fleet.store.submit_jobs(std::slice::from_ref(&other)).await.unwrap();
    assert!(matches!(outcomes[0], Submitted::Admitted { .. }), "{outcomes:?}");
    assert_eq!(fleet.store.read_job(&fleet.tenant, other.job).await.unwrap(), None);
}
