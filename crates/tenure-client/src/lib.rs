//! A typed client for everything that a user or an operator can ask. It owns the way to a coordinator: several endpoints,
//! the next one where one does not answer, streams that go on where they broke off. It promises that what it repeats is
//! harmless to repeat, and that what it verifies it recomputes itself. It decides nothing about jobs, and it prints
//! nothing. Neighbours: `tenure-proto` for the messages, `tenure-cli` above.

pub mod client;
pub mod credential;
pub mod endpoint;
pub mod error;

pub mod acts;
pub mod agents;
pub mod attention;
pub mod effects;
pub mod halts;
pub mod job;
pub mod jobs;
pub mod session;
pub mod submission;
pub mod workers;

pub mod health;
pub mod run;
pub mod run_effect;

pub mod blobs;
pub mod output;
pub mod record;
pub mod verification;
pub mod wait;
pub mod watch;

mod retry;

pub use client::{Client, ClientOptions};
pub use credential::ClientCredential;
pub use error::ClientError;
pub use tenure_proto::tls::{ClientTls, PlaintextToken};
