//! The rows, in the order of their numbers. One file for each.

mod child_misbehaves;
mod connection_half_open;
mod connections_ended;
mod connections_exhausted;
mod coordinator_frozen;
mod coordinator_killed;
mod database_crashed;
mod messages_doubled;
mod network_cut;
mod notifications_lost;
mod worker_frozen;
mod worker_killed;
mod workers_reconnect;

use tenure_testkit::Host;

use crate::row::{Row, nothing_hinders};

/// Every row that there is.
pub(crate) const ROWS: &[Row] = &[
    Row {
        number: 1,
        title: "worker killed",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(worker_killed::make(setting)),
    },
    Row {
        number: 2,
        title: "worker frozen",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(worker_frozen::make(setting)),
    },
    Row {
        number: 3,
        title: "worker, guardian and child cut off",
        quick: true,
        find_hindrance: Host::find_hindrance,
        make: |setting| Box::pin(network_cut::make(setting)),
    },
    Row {
        number: 4,
        title: "half-open connection",
        quick: false,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(connection_half_open::make(setting)),
    },
    Row {
        number: 5,
        title: "coordinator killed around a commit",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(coordinator_killed::make(setting)),
    },
    Row {
        number: 6,
        title: "coordinator frozen with grants in its hands",
        quick: false,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(coordinator_frozen::make(setting)),
    },
    Row {
        number: 7,
        title: "database connections ended",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(connections_ended::make(setting)),
    },
    Row {
        number: 8,
        title: "PostgreSQL crashed under load",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(database_crashed::make(setting)),
    },
    Row {
        number: 12,
        title: "connections exhausted",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(connections_exhausted::make(setting)),
    },
    Row {
        number: 16,
        title: "messages delayed, lost and sent again",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(messages_doubled::make(setting)),
    },
    Row {
        number: 19,
        title: "a thousand workers reconnect at once",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(workers_reconnect::make(setting)),
    },
    Row {
        number: 28,
        title: "every notification lost",
        quick: true,
        find_hindrance: nothing_hinders,
        make: |setting| Box::pin(notifications_lost::make(setting)),
    },
    Row {
        number: 30,
        title: "children that misbehave",
        quick: true,
        find_hindrance: child_misbehaves::find_hindrance,
        make: |setting| Box::pin(child_misbehaves::make(setting)),
    },
];
