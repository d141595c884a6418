//! Workers' terms: registered, attached, renewed, closed; and a renewal against a closing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, ToSpan as _};
use sqlx::{Acquire as _, Executor as _};
use tenure_core::{
    credential::Tenants,
    id::{Attach, Digest, Epoch, Generation, JobId, Seq, Term},
};
use tenure_store::{ClosableTerm, LapsedPage, Renewal, Store, TermRefusal};
use tenure_testkit::wait_for;
use uuid::Uuid;

use crate::fleet::{Fleet, Holder, Worker, claim_request, patient_store};

/// As wide as nobody's watch would allow; for tests that are about something else.
const ANY_CLOCK: Duration = Duration::from_secs(3_600);

fn closable(worker: &Worker) -> ClosableTerm {
    ClosableTerm { worker: worker.name.clone(), term: worker.term, tolerance: ANY_CLOCK }
}

async fn renew(store: &Store, worker: &Worker) -> Renewal {
    store.renew_term(&worker.name, worker.term, worker.attach, worker.answer).await.unwrap()
}

async fn close(store: &Store, workers: &[&Worker]) -> Vec<Term> {
    let now = store.read_clock().await.unwrap();
    let which: Vec<_> = workers.iter().map(|worker| closable(worker)).collect();
    store.close_lapsed_terms(now, &which).await.unwrap().into_iter().map(|closed| closed.term).collect()
}

#[tokio::test]
async fn every_registration_has_a_higher_number_and_starts_without_an_attach() {
    let fleet = Fleet::start().await;
    let (first, second) = (fleet.attach("w1").await, fleet.attach("w1").await);
    assert!(second.term > first.term);
    assert_eq!((first.attach, second.attach), (Attach(1), Attach(1)));
    let listed = fleet.store.list_workers(&Tenants::All, None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|row| row.term).collect::<Vec<_>>(), [first.term, second.term]);
    let rest = fleet.store.list_workers(&Tenants::All, Some((&first.name, first.term)), 10).await.unwrap();
    assert_eq!(rest.iter().map(|row| row.term).collect::<Vec<_>>(), [second.term]);
}

#[tokio::test]
async fn attach_needs_the_secret_and_displaces_the_one_before() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let refused = fleet
        .store
        .attach_worker(&worker.name, worker.term, Digest::of(b"guessed"), &Tenants::All)
        .await
        .unwrap();
    assert_eq!(refused, Err(TermRefusal::WrongSecret));
    let unknown =
        fleet.store.attach_worker(&worker.name, Term(999), Digest::of(b"w1"), &Tenants::All).await.unwrap();
    assert_eq!(unknown, Err(TermRefusal::Unknown));
    let narrow = Tenants::one("other".parse().unwrap());
    let elsewhere =
        fleet.store.attach_worker(&worker.name, worker.term, Digest::of(b"w1"), &narrow).await.unwrap();
    assert_eq!(elsewhere, Err(TermRefusal::OtherTenants));
    assert!(matches!(renew(&fleet.store, &worker).await, Renewal::Renewed { .. }), "it displaced nobody");
    let again = fleet
        .store
        .attach_worker(&worker.name, worker.term, Digest::of(b"w1"), &Tenants::All)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((again.attach, again.slots, again.ttl), (Attach(2), 4, Duration::from_secs(30)));
    assert_eq!(renew(&fleet.store, &worker).await, Renewal::Displaced);
    fleet.lapse(&worker).await;
    close(&fleet.store, &[&worker]).await;
    let closed =
        fleet.store.attach_worker(&worker.name, worker.term, Digest::of(b"w1"), &Tenants::All).await.unwrap();
    assert_eq!(closed, Err(TermRefusal::Closed));
}

#[tokio::test]
async fn renewal_lasts_one_ttl_from_the_databases_time_and_its_numbers_rise() {
    let fleet = Fleet::start().await;
    let mut worker = fleet.attach("w1").await;
    for _ in 0..3 {
        let Renewal::Renewed { answer, now, expires_at, standing } = renew(&fleet.store, &worker).await
        else {
            panic!("not renewed")
        };
        assert_eq!(expires_at.duration_since(now), SignedDuration::from_secs(30));
        assert!(answer > worker.answer && standing.is_empty());
        worker.answer = answer;
    }
}

#[tokio::test]
async fn worker_that_does_not_hear_is_answered_and_not_renewed() {
    let fleet = Fleet::start().await;
    let mut worker = fleet.attach("w1").await;
    let expires_at = fleet.store.list_workers(&Tenants::All, None, 1).await.unwrap()[0].expires_at;
    worker.answer -= 31_000_000;
    let Renewal::Deaf { answer } = renew(&fleet.store, &worker).await else { panic!("it was renewed") };
    assert_eq!(fleet.store.list_workers(&Tenants::All, None, 1).await.unwrap()[0].expires_at, expires_at);
    worker.answer = answer;
    assert!(matches!(renew(&fleet.store, &worker).await, Renewal::Renewed { .. }), "it hears by now");
}

#[tokio::test]
async fn renewal_names_every_cancel_that_stands_at_a_living_run() {
    let fleet = Fleet::start().await;
    let (worker, other) = (fleet.attach("w1").await, fleet.attach("w2").await);
    let mut cancelled = fleet.run_job(&worker).await;
    fleet.run_job(&worker).await;
    let mut elsewhere = fleet.run_job(&other).await;
    let mut ended = fleet.run_job(&worker).await;
    for holder in [&mut cancelled, &mut elsewhere, &mut ended] {
        fleet.append(holder.cancel_notice()).await;
    }
    fleet.append(ended.success()).await;
    let Renewal::Renewed { standing, .. } = renew(&fleet.store, &worker).await else { panic!("not renewed") };
    let [standing] = &standing[..] else { panic!("{standing:?}") };
    assert_eq!((standing.job, standing.epoch, standing.notice), (cancelled.job, Epoch(1), Seq(4)));
    assert_eq!((standing.kind, standing.generation), ("cancel_requested", Generation(1)));
}

#[tokio::test]
async fn lapsed_term_that_is_not_closed_may_be_renewed() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    fleet.lapse(&worker).await;
    let lapsed = fleet.store.list_lapsed_terms(10).await.unwrap();
    assert_eq!(lapsed.iter().map(|term| term.term).collect::<Vec<_>>(), [worker.term]);
    assert!(matches!(renew(&fleet.store, &worker).await, Renewal::Renewed { .. }));
    assert_eq!(close(&fleet.store, &[&worker]).await, []);
    assert_eq!(fleet.store.list_lapsed_terms(10).await.unwrap(), []);
}

#[tokio::test]
async fn only_lapsed_terms_that_the_watch_allows_are_closed() {
    let fleet = Fleet::start().await;
    let (lapsed, unasked, alive) =
        (fleet.attach("lapsed").await, fleet.attach("unasked").await, fleet.attach("alive").await);
    fleet.lapse(&lapsed).await;
    fleet.lapse(&unasked).await;
    assert_eq!(close(&fleet.store, &[&lapsed, &alive]).await, [lapsed.term]);
    assert_eq!(renew(&fleet.store, &lapsed).await, Renewal::Closed);
    assert!(matches!(renew(&fleet.store, &unasked).await, Renewal::Renewed { .. }));
    assert_eq!(close(&fleet.store, &[&lapsed]).await, [], "closed once");
}

#[tokio::test]
async fn nothing_is_closed_where_the_databases_clock_is_not_as_expected() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    fleet.lapse(&worker).await;
    let narrow = ClosableTerm { tolerance: Duration::from_secs(60), ..closable(&worker) };
    let now = fleet.store.read_clock().await.unwrap();
    for expected in [now.checked_add(10.minutes()).unwrap(), now.checked_sub(10.minutes()).unwrap()] {
        let closed = fleet.store.close_lapsed_terms(expected, std::slice::from_ref(&narrow)).await.unwrap();
        assert_eq!(closed, []);
    }
    assert_eq!(fleet.store.close_lapsed_terms(now, &[narrow]).await.unwrap().len(), 1);
}

/// The closing, stalled before its snapshot by a lock on the table; meanwhile the term is renewed, or is not.
#[tokio::test]
async fn closing_that_stalls_before_its_snapshot_judges_the_term_as_it_is_then() {
    for renewed in [true, false] {
        let fleet = Fleet::start().await;
        let worker = fleet.attach("w1").await;
        fleet.lapse(&worker).await;
        let mut lock = fleet.pool.begin().await.unwrap();
        lock.execute("LOCK TABLE terms IN ACCESS EXCLUSIVE MODE").await.unwrap();
        let store = patient_store(&fleet).await;
        let now = store.read_clock().await.unwrap();
        let which = [closable(&worker)];
        let closing = tokio::spawn(async move { store.close_lapsed_terms(now, &which).await.unwrap() });
        fleet.wait_until_blocked("Closes lapsed terms").await;
        if renewed {
            lock.execute("UPDATE terms SET expires_at = statement_timestamp() + interval '30 seconds'")
                .await
                .unwrap();
        }
        lock.commit().await.unwrap();
        assert_eq!(closing.await.unwrap().len(), usize::from(!renewed));
        let lives = matches!(renew(&fleet.store, &worker).await, Renewal::Renewed { .. });
        assert_eq!(lives, renewed, "one of the two wins");
    }
}

/// The closing, stalled after its snapshot for longer than what the renewal that it waits for has given.
#[tokio::test]
async fn closing_judges_by_the_time_at_which_it_arrived() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    fleet.lapse(&worker).await;
    let mut renewal = fleet.pool.begin().await.unwrap();
    renewal.execute("SELECT term FROM terms FOR UPDATE").await.unwrap();
    let store = patient_store(&fleet).await;
    let now = store.read_clock().await.unwrap();
    let which = [closable(&worker)];
    let closing = tokio::spawn(async move { store.close_lapsed_terms(now, &which).await.unwrap() });
    fleet.wait_until_blocked("Closes lapsed terms").await;
    renewal
        .execute("UPDATE terms SET expires_at = clock_timestamp() + interval '50 milliseconds'")
        .await
        .unwrap();
    wait_for("the term's end", Duration::from_secs(30), async || {
        let lapsed: bool = sqlx::query_scalar("SELECT expires_at < clock_timestamp() FROM terms")
            .fetch_one(&mut *renewal)
            .await
            .unwrap();
        if lapsed { Ok(()) } else { Err("not yet") }
    })
    .await;
    renewal.commit().await.unwrap();
    assert_eq!(closing.await.unwrap(), [], "by its own time the term had not lapsed");
    assert_eq!(close(&fleet.store, &[&worker]).await, [worker.term], "the next pass finds it");
}

/// The renewal commits while the closing, whose snapshot is older, waits for the row.
#[tokio::test]
async fn closing_that_stalls_after_its_snapshot_sees_the_renewal_it_waited_for() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    fleet.lapse(&worker).await;
    let mut renewal = fleet.pool.begin().await.unwrap();
    renewal
        .execute("UPDATE terms SET expires_at = statement_timestamp() + interval '30 seconds'")
        .await
        .unwrap();
    let store = patient_store(&fleet).await;
    let now = store.read_clock().await.unwrap();
    let which = [closable(&worker)];
    let closing = tokio::spawn(async move { store.close_lapsed_terms(now, &which).await.unwrap() });
    fleet.wait_until_blocked("Closes lapsed terms").await;
    renewal.commit().await.unwrap();
    assert_eq!(closing.await.unwrap(), []);
    assert!(matches!(renew(&fleet.store, &worker).await, Renewal::Renewed { .. }));
}

/// The closing commits while the renewal waits for the row, and while it waits for the table.
#[tokio::test]
async fn renewal_that_waited_for_a_closing_renews_nothing() {
    for lock in ["SELECT 1 FROM terms FOR UPDATE", "LOCK TABLE terms IN ACCESS EXCLUSIVE MODE"] {
        let fleet = Fleet::start().await;
        let worker = fleet.attach("w1").await;
        fleet.lapse(&worker).await;
        let mut connection = fleet.pool.acquire().await.unwrap();
        let mut closing = connection.begin().await.unwrap();
        closing.execute(lock).await.unwrap();
        let (store, patient) = (patient_store(&fleet).await, worker.clone());
        let renewal = tokio::spawn(async move { renew(&store, &patient).await });
        fleet.wait_until_blocked("Renews a term").await;
        closing.execute("UPDATE terms SET closed_at = statement_timestamp()").await.unwrap();
        closing.commit().await.unwrap();
        assert_eq!(renewal.await.unwrap(), Renewal::Closed, "{lock}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn renewal_or_closing_wins_and_never_both() {
    let fleet = Fleet::start().await;
    let (mut renewals, mut closings) = (0, 0);
    for round in 0..60 {
        let worker = fleet.attach(&format!("w{round}")).await;
        fleet.lapse(&worker).await;
        let (one, two, renewing) = (fleet.store.clone(), fleet.store.clone(), worker.clone());
        let (renewal, closed) = tokio::join!(
            tokio::spawn(async move { renew(&one, &renewing).await }),
            tokio::spawn(async move { close(&two, &[&worker]).await }),
        );
        let renewed = matches!(renewal.unwrap(), Renewal::Renewed { .. });
        let closed = !closed.unwrap().is_empty();
        assert!(renewed != closed, "renewed: {renewed}, closed: {closed}");
        renewals += i32::from(renewed);
        closings += i32::from(closed);
    }
    println!("{renewals} renewals and {closings} closings won");
}

#[tokio::test]
async fn every_unreleased_lease_under_a_closed_term_is_listed_oldest_first() {
    let fleet = Fleet::start().await;
    let (gone, alive) = (fleet.attach("gone").await, fleet.attach("alive").await);
    let oldest = fleet.run_job(&gone).await;
    let settled = fleet.run_job(&gone).await;
    let newest = fleet.run_job(&gone).await;
    fleet.run_job(&alive).await;
    fleet.append(settled.interruption()).await;
    assert_eq!(fleet.store.list_lapsed_leases(None, 10).await.unwrap(), LapsedPage::default());
    fleet.lapse(&gone).await;
    close(&fleet.store, &[&gone]).await;
    let listed = fleet.store.list_lapsed_leases(None, 10).await.unwrap().lapsed;
    assert_eq!(listed.iter().map(|facts| facts.job).collect::<Vec<_>>(), [oldest.job, newest.job]);
    assert!(
        listed.iter().all(|facts| facts.lease.as_ref().is_some_and(|lease| lease.term_closed && lease.live))
    );
    assert_eq!(fleet.store.list_lapsed_leases(None, 1).await.unwrap().lapsed.len(), 1);
}

/// A term's row outlives its leases; a lease that is left without one all the same belongs to nobody else's care.
#[tokio::test]
async fn lease_whose_term_has_no_row_is_listed_too() {
    let fleet = Fleet::start().await;
    let (missing, closed, alive) =
        (fleet.attach("missing").await, fleet.attach("closed").await, fleet.attach("alive").await);
    let first = fleet.run_job(&missing).await;
    let second = fleet.run_job(&closed).await;
    let settled = fleet.run_job(&missing).await;
    fleet.run_job(&alive).await;
    fleet.append(settled.interruption()).await;
    fleet.lapse(&closed).await;
    close(&fleet.store, &[&closed]).await;
    sqlx::query("DELETE FROM terms WHERE worker = 'missing'").execute(&fleet.pool).await.unwrap();
    let listed = fleet.store.list_lapsed_leases(None, 10).await.unwrap().lapsed;
    assert_eq!(listed.iter().map(|facts| facts.job).collect::<Vec<_>>(), [first.job, second.job]);
    assert!(listed.iter().all(|facts| facts.lease.as_ref().is_some_and(|lease| lease.term_closed)));
}

#[tokio::test]
async fn lapsed_leases_are_listed_past_those_that_cannot_be_read() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let unreadable = fleet.run_job(&worker).await;
    let (second, third) = (fleet.run_job(&worker).await, fleet.run_job(&worker).await);
    fleet.lapse(&worker).await;
    close(&fleet.store, &[&worker]).await;
    sqlx::query("UPDATE jobs SET recovery = '{}' WHERE job = $1")
        .bind(unreadable.job.0)
        .execute(&fleet.pool)
        .await
        .unwrap();
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        let page = fleet.store.list_lapsed_leases(after.as_ref(), 1).await.unwrap();
        pages.push(page.lapsed.iter().map(|facts| facts.job).collect::<Vec<_>>());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![], vec![second.job], vec![third.job], vec![]]);
    let wanted = [unreadable, second].map(|holder| (holder.tenant, holder.job));
    let found = fleet.store.read_facts(&wanted).await.unwrap();
    assert!(matches!(&found[..], [Some(Err(_)), Some(Ok(_))]), "{found:?}");
}

#[tokio::test]
async fn claim_that_commits_after_the_closing_is_found_all_the_same() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let job = fleet.submit().await;
    // A claim that has judged the term open and has not taken its position.
    let mut blocker = fleet.pool.begin().await.unwrap();
    blocker.execute("LOCK TABLE leases IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let (store, request) = (patient_store(&fleet).await, claim_request(&worker, 1));
    let claim = tokio::spawn(async move { store.claim_jobs(&request).await.unwrap() });
    fleet.wait_until_blocked("Claims jobs").await;
    fleet.lapse(&worker).await;
    assert_eq!(close(&fleet.store, &[&worker]).await, [worker.term]);
    blocker.commit().await.unwrap();
    let claimed = claim.await.unwrap().claimed;
    let listed = fleet.store.list_lapsed_leases(None, 10).await.unwrap().lapsed;
    // Whether the claim judged before the closing is for the snapshot to say; that it is never lost is not.
    assert_eq!(claimed.len(), listed.len());
    let row = fleet.store.read_job(&fleet.tenant, job.job).await.unwrap().unwrap();
    assert_eq!(row.lease.is_some(), listed.len() == 1);
}

#[tokio::test]
async fn grants_that_a_worker_does_not_name_are_listed_once_they_are_old_enough() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let (known, other_epoch, lost) =
        (fleet.run_job(&worker).await, fleet.run_job(&worker).await, fleet.run_job(&worker).await);
    fleet.run_job(&fleet.attach("w2").await).await;
    let named = |holder: &Holder, epoch| (holder.tenant.clone(), holder.job, epoch);
    let names = [
        named(&known, Epoch(1)),
        named(&other_epoch, Epoch(2)),
        (fleet.tenant.clone(), JobId(Uuid::now_v7()), Epoch(1)),
    ];
    let list =
        async |age| fleet.store.list_lost_grants(&worker.name, worker.term, &names, age).await.unwrap();
    assert_eq!(list(Duration::from_secs(3_600)).await, []);
    let found = list(Duration::ZERO).await;
    assert_eq!(found.iter().map(|grant| grant.job).collect::<Vec<_>>(), [other_epoch.job, lost.job]);
    assert_eq!((found[1].epoch, found[1].run.0, found[1].generation), (Epoch(1), 1, Generation(1)));
}

#[tokio::test]
async fn runs_secret_is_known_until_its_child_is_gone() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let holder = fleet.run_job(&worker).await;
    let read = async |epoch| fleet.store.read_run_secret(&fleet.tenant, holder.job, epoch).await.unwrap();
    let secret = read(Epoch(1)).await.unwrap();
    assert_eq!((secret.secret_hash, secret.live), (Digest::of(&0_u32.to_be_bytes()), true));
    assert_eq!(read(Epoch(2)).await, None);
    fleet.append(holder.interruption()).await;
    assert!(read(Epoch(1)).await.is_some_and(|secret| !secret.live), "settled and unaccounted for");
    let settled = fleet.run_job(&worker).await;
    fleet.append(settled.settlement()).await;
    assert_eq!(fleet.store.read_run_secret(&fleet.tenant, settled.job, Epoch(1)).await.unwrap(), None);
}

#[tokio::test]
async fn closed_term_stays_while_it_has_leases_and_for_a_minute() {
    let fleet = Fleet::start().await;
    let (with_lease, fresh, old) =
        (fleet.attach("with-lease").await, fleet.attach("fresh").await, fleet.attach("old").await);
    let alive = fleet.attach("alive").await;
    fleet.run_job(&with_lease).await;
    for worker in [&with_lease, &fresh, &old] {
        fleet.lapse(worker).await;
    }
    assert_eq!(close(&fleet.store, &[&with_lease, &fresh, &old]).await.len(), 3);
    sqlx::query(
        "UPDATE terms SET closed_at = closed_at - interval '61 seconds', expires_at = expires_at - interval '62 seconds'
         WHERE worker IN ('with-lease', 'old')",
    )
    .execute(&fleet.pool)
    .await
    .unwrap();
    assert_eq!(fleet.store.delete_closed_terms().await.unwrap(), 1);
    let left: Vec<String> =
        sqlx::query_scalar("SELECT worker FROM terms ORDER BY worker").fetch_all(&fleet.pool).await.unwrap();
    assert_eq!(left, ["alive", "fresh", "with-lease"]);
    let listed = fleet.store.list_workers(&Tenants::All, None, 10).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|row| (row.worker.as_str(), row.leases)).collect();
    assert_eq!(listed, [("alive", 0), ("with-lease", 1)], "closed ones without leases are over");
    assert!(alive.term > old.term);
}

#[tokio::test]
async fn clock_is_that_of_the_database() {
    let fleet = Fleet::start().await;
    let (before, read, after) = (Timestamp::now(), fleet.store.read_clock().await.unwrap(), Timestamp::now());
    let whole = |at: Timestamp| at.as_microsecond();
    assert!(whole(before) <= whole(read) && whole(read) <= whole(after), "{before} {read} {after}");
}
