//! Ready jobs become runs under a lease.

use std::collections::BTreeSet;

use jiff::ToSpan as _;
use tenure_core::{
    credential::Tenants,
    handover::Cause,
    id::{Attach, Digest, Epoch, Generation, Run, Seq, Term},
    job::State,
    record::{DeadlineSetting, KeptValue, RecordKind},
    recovery::Interruption,
};
use tenure_store::{ClaimRequest, Floors, NewJob, TermRefusal};

use crate::fleet::{DOCUMENT, Fleet, Holder, agent, applied, claim_request, new_job, now};

#[tokio::test]
async fn claim_brings_everything_that_a_grant_needs() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let job =
        fleet.submit_as(NewJob { traceparent: Some("00-aa-bb-01".to_owned()), ..fleet.new_job() }).await;
    let outcome = fleet.claim(&worker, 4).await;
    let [claimed] = &outcome.claimed[..] else { panic!("{outcome:?}") };
    assert_eq!((claimed.job, claimed.session, &claimed.agent), (job.job, job.session, &agent("notes")));
    assert_eq!((claimed.run, claimed.epoch, claimed.generation), (Run(1), Epoch(1), Generation(1)));
    assert_eq!((claimed.attempt, &claimed.cause), (1, &Cause::Dispatch));
    assert_eq!(
        (&claimed.document[..], &claimed.input),
        (DOCUMENT, &KeptValue::Beside(b"the input".to_vec()))
    );
    assert_eq!((claimed.traceparent.as_deref(), claimed.secret_index), (Some("00-aa-bb-01"), 0));
    assert!(claimed.deadline_at.is_some_and(|deadline| deadline > claimed.now));
    assert!(!outcome.full && outcome.refused.is_none());
    let record = &fleet.store.read_records(&fleet.tenant, job.job, Seq(3), &[], 10).await.unwrap().records[0];
    assert_eq!((record.hash, record.seq), (claimed.head.hash, claimed.head.seq));
    assert!(
        matches!(record.parse().unwrap().kind, RecordKind::RunStarted { term, .. } if term == worker.term)
    );
    let row = fleet.store.read_job(&fleet.tenant, job.job).await.unwrap().unwrap();
    assert_eq!((row.state, row.run), (State::Running, Run(1)));
    assert_eq!(fleet.count("SELECT count(*) FROM ready").await, 0);
}

#[tokio::test]
async fn sixteen_racers_on_one_job_make_one_claim() {
    let fleet = Fleet::start().await;
    let mut workers = Vec::new();
    for no in 0..16 {
        workers.push(fleet.attach(&format!("w{no}")).await);
    }
    for _ in 0..10 {
        let job = fleet.submit().await;
        let racers: Vec<_> = workers
            .iter()
            .map(|worker| {
                let (store, request) = (fleet.store.clone(), claim_request(worker, 2));
                tokio::spawn(async move { store.claim_jobs(&request).await.unwrap().claimed })
            })
            .collect();
        let mut winners = Vec::new();
        for racer in racers {
            winners.extend(racer.await.unwrap());
        }
        let [winner] = &winners[..] else { panic!("{} claims of one job", winners.len()) };
        assert_eq!(winner.job, job.job);
        let kinds: Vec<_> = fleet.journal(job.job).await.into_iter().map(|(.., kind)| kind).collect();
        assert_eq!(kinds, ["job_admitted", "plan_frozen", "run_started"]);
    }
    assert_eq!(fleet.count("SELECT count(*) FROM leases").await, 10);
}

#[tokio::test]
async fn urgent_jobs_go_first_and_older_ones_among_equals() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut expected = Vec::new();
    for priority in [1, 3, 0, 1, 2, 3] {
        let job = fleet.submit_as(NewJob { priority, ..fleet.new_job() }).await;
        expected.push((std::cmp::Reverse(priority), expected.len(), job.job));
    }
    expected.sort_unstable();
    let first: Vec<_> = fleet.claim(&worker, 4).await.claimed.iter().map(|claimed| claimed.job).collect();
    let rest: Vec<_> = fleet.claim(&worker, 4).await.claimed.iter().map(|claimed| claimed.job).collect();
    let order: Vec<_> = expected.into_iter().map(|(.., job)| job).collect();
    assert_eq!([first, rest].concat(), order);
}

#[tokio::test]
async fn only_fitting_jobs_are_claimed() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let requires = |labels: &[&str]| labels.iter().map(|&label| label.to_owned()).collect::<Vec<_>>();
    let fitting = [
        fleet.submit().await,
        fleet.submit_as(NewJob { requires: requires(&["git"]), ..fleet.new_job() }).await,
        fleet.submit_as(NewJob { requires: requires(&["zone=eu", "git"]), ..fleet.new_job() }).await,
    ];
    fleet.submit_as(NewJob { requires: requires(&["git", "gpu"]), ..fleet.new_job() }).await;
    fleet.submit_as(NewJob { requires: requires(&["zone=us"]), ..fleet.new_job() }).await;
    fleet.submit_as(NewJob { agent: agent("another"), ..fleet.new_job() }).await;
    fleet
        .submit_as(NewJob { not_before: Some(now().checked_add(1.hour()).unwrap()), ..fleet.new_job() })
        .await;
    fleet.submit_as(new_job(&"other".parse().unwrap(), b"x")).await;
    let request = ClaimRequest { agents: vec![agent("notes")], ..claim_request(&worker, 10) };
    let claimed = fleet.store.claim_jobs(&request).await.unwrap().claimed;
    let claimed: BTreeSet<_> = claimed.iter().map(|claimed| claimed.job).collect();
    assert_eq!(claimed, fitting.iter().map(|job| job.job).collect());
}

#[tokio::test]
async fn whoever_holds_handlers_is_offered_those_alone_in_exactly_their_version() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let requires = |label: &str| vec![label.to_owned()];
    let of = async |label: &str| {
        fleet.submit_as(NewJob { requires: requires(label), ..fleet.new_job() }).await.job
    };
    let held = of("tenure.handler/notes=2").await;
    of("tenure.handler/notes=1").await;
    of("tenure.handler/other=2").await;
    of("git").await;
    let plain = fleet.submit().await.job;
    let labels = [requires("git"), requires("tenure.handler/notes=2")].concat();
    let claim = async |labels: Vec<String>| {
        let request = ClaimRequest { labels, ..claim_request(&worker, 10) };
        let claimed = fleet.store.claim_jobs(&request).await.unwrap().claimed;
        claimed.into_iter().map(|run| run.job).collect::<Vec<_>>()
    };
    assert_eq!(claim(labels).await, [held]);
    assert_eq!(claim(Vec::new()).await, [plain], "a worker without handlers takes what needs none");
}

#[tokio::test]
async fn limit_is_kept_and_said_to_be_reached() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    for _ in 0..3 {
        fleet.submit().await;
    }
    let outcome = fleet.claim(&worker, 2).await;
    assert_eq!((outcome.claimed.len(), outcome.full), (2, true));
    let outcome = fleet.claim(&worker, 2).await;
    assert_eq!((outcome.claimed.len(), outcome.full), (1, false));
    assert_eq!(fleet.claim(&worker, 0).await.claimed, []);
}

#[tokio::test]
async fn session_whose_deadline_is_reached_is_denied_and_stays_ready() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let late = fleet.submit_as(NewJob { deadline: DeadlineSetting::CeilingS(0), ..fleet.new_job() }).await;
    let in_time = fleet.submit().await;
    let outcome = fleet.claim(&worker, 4).await;
    assert_eq!(outcome.claimed.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [in_time.job]);
    let [denied] = &outcome.denied[..] else { panic!("{outcome:?}") };
    assert_eq!((denied.job, denied.state, denied.head.seq), (late.job, State::Ready, Seq(2)));
    assert_eq!(fleet.journal(late.job).await.len(), 2);
}

#[tokio::test]
async fn overdue_jobs_are_found_page_by_page_also_where_no_worker_wants_them() {
    let fleet = Fleet::start().await;
    let mut jobs: Vec<_> = (0..1_003).map(|_| fleet.new_job()).collect();
    let late = [jobs[7].job, jobs[1_001].job];
    for index in [7, 1_001] {
        jobs[index].deadline = DeadlineSetting::CeilingS(0);
    }
    jobs[8].deadline = DeadlineSetting::None;
    fleet.store.submit_jobs(&jobs).await.unwrap();
    let first = fleet.store.list_overdue_jobs(None).await.unwrap();
    assert_eq!(first.overdue.iter().map(|facts| facts.job).collect::<Vec<_>>(), late[..1]);
    assert_eq!(first.next.as_ref().map(|(_, job)| *job), Some(jobs[999].job));
    let second = fleet.store.list_overdue_jobs(first.next.as_ref()).await.unwrap();
    assert_eq!(second.overdue.iter().map(|facts| facts.job).collect::<Vec<_>>(), late[1..]);
    assert_eq!(second.next, None);
}

#[tokio::test]
async fn term_that_may_not_act_claims_nothing_and_is_told_why() {
    let fleet = Fleet::start().await;
    fleet.submit().await;
    let (lapsed, closed) = (fleet.attach("lapsed").await, fleet.attach("closed").await);
    fleet.lapse(&lapsed).await;
    fleet.lapse(&closed).await;
    sqlx::query("UPDATE terms SET closed_at = statement_timestamp() WHERE worker = 'closed'")
        .execute(&fleet.pool)
        .await
        .unwrap();
    let displaced = fleet.attach("displaced").await;
    fleet
        .store
        .attach_worker(&displaced.name, displaced.term, Digest::of(b"displaced"), &Tenants::All)
        .await
        .unwrap()
        .unwrap();
    let request = claim_request(&fleet.attach("w1").await, 4);
    for (request, refusal) in [
        (claim_request(&lapsed, 4), TermRefusal::Lapsed),
        (claim_request(&closed, 4), TermRefusal::Closed),
        (claim_request(&displaced, 4), TermRefusal::Displaced),
        (ClaimRequest { attach: Attach(9), ..request.clone() }, TermRefusal::Displaced),
        (ClaimRequest { term: Term(999), ..request.clone() }, TermRefusal::Unknown),
    ] {
        let outcome = fleet.store.claim_jobs(&request).await.unwrap();
        assert_eq!((outcome.claimed.len(), outcome.refused), (0, Some(refusal)), "{request:?}");
    }
    assert_eq!(fleet.store.claim_jobs(&request).await.unwrap().claimed.len(), 1, "the job is still there");
}

#[tokio::test]
async fn another_generation_claims_nothing() {
    let fleet = Fleet::start().await;
    fleet.submit().await;
    let request = claim_request(&fleet.attach("w1").await, 4);
    let outcome =
        fleet.store.claim_jobs(&ClaimRequest { generation: Generation(2), ..request }).await.unwrap();
    assert_eq!(outcome.claimed, []);
    assert_eq!(fleet.count("SELECT count(*) FROM leases").await, 0);
}

#[tokio::test]
async fn recovered_run_has_the_next_run_and_an_epoch_above_the_settlement() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let first = fleet.run_job(&worker).await;
    assert!(applied(&fleet.append(first.settlement()).await).is_some());
    let claimed = fleet.claim(&worker, 1).await.claimed.remove(0);
    assert_eq!((claimed.run, claimed.epoch, claimed.attempt), (Run(2), Epoch(3), 2));
    let cause = Cause::Recovered { previous: Run(1), interruption: Interruption::WorkerLost, attempt: 2 };
    assert_eq!(claimed.cause, cause);
    let epochs: Vec<_> = fleet.journal(first.job).await.into_iter().map(|(_, epoch, _)| epoch).collect();
    assert_eq!(epochs, [0, 0, 1, 2, 2, 3]);
}

#[tokio::test]
async fn time_never_goes_back_along_the_chain() {
    let fleet = Fleet::start().await;
    let job = fleet.submit().await;
    let worker = fleet.attach("w1").await;
    let early = now().checked_sub(1.hour()).unwrap();
    let request = ClaimRequest { at: early, ..claim_request(&worker, 1) };
    let claimed = fleet.store.claim_jobs(&request).await.unwrap().claimed.remove(0);
    assert_eq!(claimed.head_at, job.records[1].at);
}

#[tokio::test]
async fn floors_follow_the_queue_with_some_slack_and_jobs_below_are_found_by_a_full_pass() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    sqlx::query("SELECT setval('queue_numbers', 5000)").execute(&fleet.pool).await.unwrap();
    fleet.submit().await;
    let floors = fleet.claim(&worker, 4).await.floors;
    assert_eq!(floors, Floors([0, 4_001, 0, 0]), "only the priority that something was found at");
    let below = fleet.submit().await;
    sqlx::query("UPDATE ready SET queue_no = 4000").execute(&fleet.pool).await.unwrap();
    let request = ClaimRequest { floors, ..claim_request(&worker, 4) };
    assert_eq!(fleet.store.claim_jobs(&request).await.unwrap().claimed, []);
    let found = fleet.claim(&worker, 4).await.claimed;
    assert_eq!(found.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [below.job]);
}

#[tokio::test]
async fn delayed_job_becomes_claimable_when_it_is_due_and_not_before() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (soon, later) = (now().checked_add(1.hour()).unwrap(), now().checked_add(2.hours()).unwrap());
    let due = fleet.submit_as(NewJob { not_before: Some(soon), ..fleet.new_job() }).await;
    fleet.submit_as(NewJob { not_before: Some(later), ..fleet.new_job() }).await;
    let report = fleet.store.release_due_jobs().await.unwrap();
    assert_eq!((report.released, report.next_at), (0, Some(soon)));
    sqlx::query("UPDATE ready SET not_before = not_before - interval '61 minutes'")
        .execute(&fleet.pool)
        .await
        .unwrap();
    let report = fleet.store.release_due_jobs().await.unwrap();
    assert_eq!(report.released, 1);
    assert!(report.next_at.is_some_and(|next| next > report.now));
    let claimed = fleet.claim(&worker, 4).await.claimed;
    assert_eq!(claimed.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [due.job]);
}

#[tokio::test]
async fn restart_with_backoff_is_claimable_only_once_it_is_due() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let holder: Holder = fleet.run_job(&worker).await;
    let mut settlement = holder.settlement();
    let later = now().checked_add(1.hour()).unwrap();
    if let tenure_core::plan::ReadyChange::Insert { not_before, .. } = &mut settlement.changes.ready {
        *not_before = Some(later);
    }
    fleet.append(settlement).await;
    assert_eq!(fleet.claim(&worker, 1).await.claimed, []);
    assert_eq!(fleet.store.release_due_jobs().await.unwrap().next_at, Some(later));
}

/// A cause of a newer release, say. Whoever can read it may still claim it.
#[tokio::test]
async fn job_that_cannot_be_read_is_left_and_does_not_stand_before_the_next() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (first, second, third) = (fleet.submit().await, fleet.submit().await, fleet.submit().await);
    sqlx::query("UPDATE ready SET cause = '{\"kind\": \"unheard_of\"}' WHERE job IN ($1, $2)")
        .bind(first.job.0)
        .bind(second.job.0)
        .execute(&fleet.pool)
        .await
        .unwrap();
    for _ in [&first, &second] {
        let outcome = fleet.claim(&worker, 1).await;
        assert!(outcome.claimed.is_empty() && outcome.full, "{outcome:?}");
    }
    let outcome = fleet.claim(&worker, 1).await;
    assert_eq!(outcome.claimed.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [third.job]);
    assert!(!fleet.claim(&worker, 1).await.full, "there is nothing more for this release");
    assert_eq!(fleet.count("SELECT count(*) FROM ready").await, 2);
    // Ready again under another number, in a form that is known.
    sqlx::query(
        "UPDATE ready SET cause = '{\"kind\": \"dispatch\"}', queue_no = nextval('queue_numbers') WHERE job = $1",
    )
    .bind(first.job.0)
    .execute(&fleet.pool)
    .await
    .unwrap();
    assert_eq!(fleet.claim(&worker, 4).await.claimed.len(), 1);
}

#[tokio::test]
async fn readable_job_is_claimed_beside_one_that_is_not() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (_unreadable, readable) = (fleet.submit().await, fleet.submit().await);
    sqlx::query("UPDATE ready SET cause = '{}' WHERE queue_no = (SELECT min(queue_no) FROM ready)")
        .execute(&fleet.pool)
        .await
        .unwrap();
    let claimed = fleet.claim(&worker, 4).await.claimed;
    assert_eq!(claimed.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [readable.job]);
}

/// Admission writes both records in one statement: a journal that lost its second one is no job that may be worked on.
#[tokio::test]
async fn job_without_a_frozen_plan_is_not_claimed_and_does_not_stand_before_the_next() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (unfrozen, whole) = (fleet.submit().await, fleet.submit().await);
    let rename = "UPDATE journal SET kind = $2 WHERE job = $1 AND seq = 2";
    sqlx::query(rename).bind(unfrozen.job.0).bind("note").execute(&fleet.pool).await.unwrap();
    let outcome = fleet.claim(&worker, 4).await;
    assert_eq!(outcome.claimed.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [whole.job]);
    assert_eq!(outcome.denied, []);
    let state = "SELECT count(*) FROM jobs WHERE state = 'ready' AND run = 0";
    assert_eq!(fleet.count(state).await, 1, "it was not changed");
}
