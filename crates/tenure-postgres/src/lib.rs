//! A private PostgreSQL server as a library: found, initialised, started, stopped, killed.
//!
//! Owns the life of one server process and of the directory that it lives in. `tenure dev`, the test
//! kit and `make pg` use it, so that nobody has to install, configure or clean up a database by hand.
//!
//! Promises: the server accepts connections only through a unix socket in a directory that nobody
//! else may enter (and, where asked, on a loopback port with a password); it never outlives the
//! process that started it, however that process ends (on Linux); a directory is either completely
//! initialised or not at all; what was committed survives [`Server::kill9`].
//!
//! Deliberately does not: download anything, run SQL, know a schema, upgrade a data directory to a new
//! major version, or look after a server that serves other machines.
//!
//! All calls block for up to some seconds; asynchronous callers use `spawn_blocking`.
//!
//! Neighbours: `tenure-testkit` (databases for tests), `tenure-cli` (`tenure dev`).

mod account;
mod binaries;
mod directory;
mod error;
mod options;
mod process;
mod server;
mod spawner;

pub use binaries::{Binaries, MINIMUM_MAJOR, SearchPlaces};
pub use error::Error;
pub use options::Options;
pub use server::{Server, Stop};
