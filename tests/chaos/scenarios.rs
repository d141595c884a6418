//! The book of handovers: each way in which a run comes to be continued by another. One file for each.
//!
//! Neighbours: `rows` is the other book.

mod coordinator_killed;
mod cut_off;
mod guardian_killed;
mod job_poisoned;
mod rolling_restarts;
mod worker_frozen;
mod worker_killed;

use tenure_testkit::Host;

use crate::row::{Row, nothing_hinders};

/// Every scenario that there is.
pub(crate) const SCENARIOS: &[Row] = &[
    Row {
        number: 1,
        title: "worker killed",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(worker_killed::make_alone(setting)),
    },
    Row {
        number: 2,
        title: "guardian killed",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(guardian_killed::make(setting)),
    },
    Row {
        number: 3,
        title: "worker and guardians killed",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(worker_killed::make_with_guardians(setting)),
    },
    Row {
        number: 4,
        title: "worker frozen for two leases",
        quick: false,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(worker_frozen::make(setting)),
    },
    Row {
        number: 5,
        title: "worker, guardian and child cut off and back",
        quick: false,
        find_hindrance: Host::find_hindrance,
        make: |setting| Box::pin(cut_off::make_and_mend(setting)),
    },
    Row {
        number: 6,
        title: "worker, guardian and child cut off for good",
        quick: true,
        find_hindrance: Host::find_hindrance,
        make: |setting| Box::pin(cut_off::make_for_good(setting)),
    },
    Row {
        number: 7,
        title: "coordinator killed under 200 running jobs",
        quick: false,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(coordinator_killed::make(setting)),
    },
    Row {
        number: 8,
        title: "ten rolling restarts of 5 workers under load",
        quick: false,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(rolling_restarts::make(setting)),
    },
    Row {
        number: 9,
        title: "poisoned job kills its workers and guardians",
        quick: false,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(job_poisoned::make(setting)),
    },
];
