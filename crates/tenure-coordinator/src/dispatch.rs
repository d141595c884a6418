//! Dispatch: ready jobs become runs of the workers that are attached here. One loop for each coordinator; it wakes when a
//! job became ready, here or elsewhere, when a worker wants more, and by a poll behind both. Each
//! worker is offered as many jobs as it has credits, in one transaction; two coordinators that look at once pass over what
//! the other is claiming. Claims begin at a remembered floor, and at the beginning in a full pass, so that dead entries of
//! the queue are not scanned again and again. A job whose deadline is reached is concluded instead.
//! Neighbours: `attachments` says who wants runs, `grant` hands them over, the store claims, `denial` concludes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_core::{id::Digest, limits::CLAIM_MAX_JOBS, reason::Reason, refusal::Refusal};
use tenure_store::{ClaimOutcome, ClaimRequest, Floors, TermRefusal};

use crate::{
    attachments::{Attached, QueueView},
    coordinator::Parts,
    denial::conclude_denied,
    grant::grant_runs,
    metrics::{ClaimWay, Statement, metrics},
    mint::Secret,
    patience::within,
    promise::Promises,
    refusals::chain,
};

/// How often floors are not trusted.
const FULL_PASS_EVERY: Duration = Duration::from_secs(5);

/// What one pass of dispatch did.
#[derive(Debug, Default)]
struct PassReport {
    workers: u32,
    claimed: u32,
    denied: u32,
    refused: u32,
    failed: u32,
}

/// Dispatches until the coordinator stops.
pub(crate) async fn run_dispatch(parts: Parts) {
    let mut last_full_pass: Option<Instant> = None;
    let mut polled = false;
    loop {
        let full = polled || last_full_pass.is_none_or(|last| last.elapsed() >= FULL_PASS_EVERY);
        if full {
            last_full_pass = Some(Instant::now());
        }
        run_pass(&parts, full).await;
        polled = tokio::select! {
            () = parts.stopping.cancelled() => return,
            () = parts.wakes.await_dispatch() => false,
            () = parts.poll.pause() => true,
        };
    }
}

/// One pass over the attached workers, as often as somebody got as much as was asked for.
async fn run_pass(parts: &Parts, full: bool) {
    let mut report = PassReport::default();
    let mut from_the_beginning = full;
    loop {
        let mut more = false;
        for attached in in_random_order(parts.attachments.list()) {
            more |= offer_jobs(parts, &attached, from_the_beginning, &mut report).await;
        }
        if !more || parts.stopping.is_cancelled() {
            break;
        }
        from_the_beginning = false;
    }
    if report.workers > 0 {
        tracing::debug!(?report, full, "dispatch pass");
    }
}

/// Claims for one worker. True where more may wait for it.
async fn offer_jobs(parts: &Parts, attached: &Arc<Attached>, full: bool, report: &mut PassReport) -> bool {
    let ready_count = parts.wakes.ready_count();
    // Where nothing was left, and nothing became ready here since, only a full pass looks: what became ready elsewhere.
    if !full && attached.queue_view().empty_at == Some(ready_count) {
        return false;
    }
    let promises = attached.take_credits(CLAIM_MAX_JOBS);
    if promises.count() == 0 {
        return false;
    }
    report.workers += 1;
    let secrets: Vec<Secret> = (0..promises.count()).map(|_| parts.run_secrets.mint()).collect();
    let request = request_jobs(parts, attached, full, &secrets);
    let begun = Instant::now();
    let claiming = within(parts.store.claim_jobs(&request)).await;
    metrics().note_statement(Statement::Claim, begun.elapsed());
    let failure = match claiming {
        Ok(Ok(outcome)) => return take_claim(parts, promises, outcome, ready_count, &secrets, report).await,
        Ok(Err(error)) => chain(&error),
        // What was claimed is found again as a lost grant.
        Err(unanswered) => unanswered.to_string(),
    };
    report.failed += 1;
    tracing::info!(worker = %attached.worker, error = failure, "claiming failed");
    false
}

async fn take_claim(
    parts: &Parts,
    promises: Promises,
    outcome: ClaimOutcome,
    ready_count: u64,
    secrets: &[Secret],
    report: &mut PassReport,
) -> bool {
    let attached = promises.attached().clone();
    let claimed = u32::try_from(outcome.claimed.len()).unwrap_or(promises.count());
    report.claimed += claimed;
    metrics().note_claims(ClaimWay::Queue, claimed.into());
    if let Some(refusal) = outcome.refused {
        report.refused += 1;
        refuse_term(&attached, refusal);
        return false;
    }
    let view = QueueView {
        floors: outcome.floors,
        empty_at: (!outcome.full && outcome.denied.is_empty()).then_some(ready_count),
    };
    attached.set_queue_view(view);
    take_outcome(parts, promises, outcome, secrets, report).await && attached.credits() > 0
}

fn request_jobs(parts: &Parts, attached: &Attached, full: bool, secrets: &[Secret]) -> ClaimRequest {
    let registration = &attached.registration;
    ClaimRequest {
        worker: attached.worker.clone(),
        term: attached.term,
        attach: attached.attach(),
        generation: parts.generation,
        tenants: registration.tenants.clone(),
        agents: registration.agents.clone(),
        labels: registration.labels.clone(),
        limit: u32::try_from(secrets.len()).unwrap_or(CLAIM_MAX_JOBS),
        floors: if full { Floors::default() } else { attached.queue_view().floors },
        at: parts.clock.now(),
        secret_hashes: secrets.iter().map(|secret| Digest(secret.hash())).collect(),
    }
}

async fn take_outcome(
    parts: &Parts,
    mut promises: Promises,
    outcome: ClaimOutcome,
    secrets: &[Secret],
    report: &mut PassReport,
) -> bool {
    let ClaimOutcome { claimed, denied, floors: _, full, refused: _ } = outcome;
    for run in &claimed {
        parts.wakes.wake_watchers(run.job);
    }
    grant_runs(parts, &mut promises, claimed, secrets).await;
    // What nothing was claimed for is offered again.
    drop(promises);
    for facts in denied {
        report.denied += u32::from(conclude_denied(parts, &facts).await);
    }
    full
}

fn refuse_term(attached: &Attached, refusal: TermRefusal) {
    let (reason, words) = match refusal {
        // Its next renewal revives it.
        TermRefusal::Lapsed => return,
        TermRefusal::Unknown | TermRefusal::Closed => (Reason::TermClosed, "is closed"),
        TermRefusal::Displaced => (Reason::Displaced, "is attached elsewhere"),
        TermRefusal::WrongSecret => (Reason::AttachRefused, "has another secret"),
        TermRefusal::OtherTenants => (Reason::AttachRefused, "is for other tenants"),
    };
    attached
        .close(Refusal::new(reason, format!("term {} of worker {} {words}", attached.term, attached.worker)));
}

fn in_random_order(mut workers: Vec<Arc<Attached>>) -> Vec<Arc<Attached>> {
    use rand::seq::SliceRandom as _;
    workers.shuffle(&mut rand::rng());
    workers
}
