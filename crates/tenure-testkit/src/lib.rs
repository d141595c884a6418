//! What tests of Tenure stand on: real databases, and waiting for conditions.
//!
//! Owns [`TestDatabase`], a fresh and migrated database for one test, [`Cluster`], a whole fleet as
//! processes, and [`wait_for`]. Nothing here
//! is needed at run time, and nothing replaces the real thing.
//!
//! Neighbours: `tenure-postgres` runs the servers, `tenure-store` owns the schema.

mod cluster;
mod database;
mod processes;
mod template;
mod wait;

pub use cluster::Cluster;
pub use database::TestDatabase;
pub use nix::unistd::Pid;
pub use processes::guardians_of;
pub use wait::wait_for;
