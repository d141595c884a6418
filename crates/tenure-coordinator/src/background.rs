//! What runs without being asked. Each part is a loop that is idempotent, takes no arguments, wakes by itself, shows the
//! report of its last pass, and ends when the coordinator stops; two coordinators may do the same at once. Neighbours:
//! `coordinator` starts it, `dispatch` is the loop that gives runs to workers.

mod clock;
mod delayed;
mod leases;
mod partitions;
mod terms;

use crate::{coordinator::Parts, dispatch::run_dispatch};

/// Starts all of it.
pub(crate) fn start_background(parts: &Parts) {
    parts.tasks.spawn(run_dispatch(parts.clone()));
    parts.tasks.spawn(clock::keep_clock(parts.clone()));
    parts.tasks.spawn(terms::sweep_terms(parts.clone()));
    parts.tasks.spawn(delayed::release_delayed(parts.clone()));
    parts.tasks.spawn(partitions::keep_partitions(parts.clone()));
}

/// Waits, unless the coordinator stops; false then.
async fn pause(parts: &Parts, pause: std::time::Duration) -> bool {
    tokio::select! {
        () = parts.stopping.cancelled() => false,
        () = tokio::time::sleep(pause) => true,
    }
}
