//! What tests of Tenure stand on: real databases, and waiting for conditions.
//!
//! Owns [`TestDatabase`], a fresh and migrated database for one test, [`Cluster`], a whole fleet as
//! processes, [`Proxy`], which delays, loses and cuts what goes between them, [`Ledger`], an outside service
//! that counts what was really done, and [`wait_for`]. Nothing here is needed at run time, and nothing
//! replaces the real thing.
//!
//! Neighbours: `tenure-postgres` runs the servers, `tenure-store` owns the schema.

mod cluster;
mod database;
mod ledger;
mod processes;
mod proxy;
mod template;
mod wait;

pub use cluster::Cluster;
pub use database::TestDatabase;
pub use ledger::{Behaviour, Entry, Ledger, LedgerClient, LedgerError, Posted, read_entries};
pub use nix::unistd::Pid;
pub use processes::guardians_of;
pub use proxy::{Proxy, Treatment, Way};
pub use wait::wait_for;
