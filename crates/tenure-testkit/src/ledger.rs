//! The ledger: a small outside service that stands for the world. Agents post to it, and it can be asked afterwards what
//! was really done. It has a file and an idempotency check of its own and knows nothing of the fleet, so that what it says
//! is a second witness beside the journal.
//!
//! Promises that an entry that was answered is on disk; that the same key is entered once and gets the same answer; and that
//! what it is asked for is read from the file, so that a line added by hand is seen. It can be slow, and it can act and then
//! drop the connection. It does not order entries beyond the order of their lines, and forgets nothing.
//!
//! Neighbours: `book` is the file, `service` speaks HTTP/1, `client` asks it; the program `tenure-ledger` is both for scripts.

mod book;
mod client;
mod service;

pub use book::{Entry, LedgerError, read_entries};
pub use client::LedgerClient;
pub use service::{Behaviour, Ledger, Posted};

#[cfg(test)]
mod tests;
