//! What tests of Tenure stand on: real databases, and waiting for conditions.
//!
//! Owns [`TestDatabase`], a fresh and migrated database for one test, and [`wait_for`]. Nothing here
//! is needed at run time, and nothing replaces the real thing.
//!
//! Neighbours: `tenure-postgres` runs the servers, `tenure-store` owns the schema.

mod database;
mod template;
mod wait;

pub use database::TestDatabase;
pub use wait::wait_for;
