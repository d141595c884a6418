//! What runs without being asked. Each part is a loop that is idempotent, takes no arguments, wakes by itself, shows the
//! report of its last pass, and ends when the coordinator stops; two coordinators may do the same at once. Neighbours:
//! `coordinator` starts it, `dispatch` is the loop that gives runs to workers.

mod awaited;
mod blobs;
mod clock;
mod credentials;
mod delayed;
mod gauges;
mod layovers;
mod leases;
mod memories;
mod overdue;
mod partitions;
mod pass;
mod spending;
mod terms;
mod unanswered;
mod unheld;
mod waits;

use crate::{
    coordinator::{Parts, stopping},
    credentials::file::TokenFile,
    dispatch::run_dispatch,
    wake::{listener::run_listener, notifier::run_notifier},
};

/// Starts all of it; the listener at its own address, and so long a handler may be missing.
pub(crate) fn start_background(
    parts: &Parts,
    listen_database_url: String,
    token_file: Option<TokenFile>,
    handler_absent_wait: std::time::Duration,
) {
    let unheld = unheld::set_unheld_aside(parts.clone(), handler_absent_wait);
    parts.vital.spawn("jobs of replaced handlers", unheld);
    parts.vital.spawn("dispatch", run_dispatch(parts.clone()));
    parts.vital.spawn("notifier", run_notifier(parts.clone()));
    parts.vital.spawn("listener", run_listener(parts.clone(), listen_database_url));
    parts.vital.spawn("clock", clock::keep_clock(parts.clone()));
    parts.vital.spawn("sweep of terms", terms::sweep_terms(parts.clone()));
    parts.vital.spawn("runs that do not answer", unanswered::settle_unanswered(parts.clone()));
    parts.vital.spawn("release of delayed jobs", delayed::release_delayed(parts.clone()));
    parts.vital.spawn("layovers", layovers::pick_up_due(parts.clone()));
    parts.vital.spawn("timers", waits::wake_due(parts.clone()));
    parts.vital.spawn("outcomes of awaited jobs", awaited::follow_hints(parts.clone()));
    parts.vital.spawn("waits for jobs", awaited::look_through(parts.clone()));
    parts.vital.spawn("conclusion of overdue jobs", overdue::conclude_overdue(parts.clone()));
    parts.vital.spawn("partitions", partitions::keep_partitions(parts.clone()));
    parts.vital.spawn("sweep of blobs", blobs::sweep_blobs(parts.clone()));
    parts.vital.spawn("sweep of spending", spending::sweep_spending(parts.clone()));
    parts.vital.spawn("sweep of memories", memories::forget_memories(parts.clone()));
    parts.vital.spawn("gauges", gauges::count_fleet(parts.clone()));
    parts.vital.spawn("tokens of the database", credentials::follow_database_tokens(parts.clone()));
    if let Some(file) = token_file {
        parts.vital.spawn("file of tokens", credentials::follow_token_file(parts.clone(), file));
    }
    parts.tasks.spawn(end_attachments(parts.clone()));
}

/// Workers are told that this coordinator stops; they attach to another.
async fn end_attachments(parts: Parts) {
    parts.stopping.cancelled().await;
    parts.attachments.close_all(&stopping());
}

/// Waits, unless the coordinator stops; false then.
async fn pause(parts: &Parts, pause: std::time::Duration) -> bool {
    tokio::select! {
        () = parts.stopping.cancelled() => false,
        () = tokio::time::sleep(pause) => true,
    }
}
