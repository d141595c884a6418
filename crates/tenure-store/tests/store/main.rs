//! The store against a real PostgreSQL, a fresh database for each test: behaviour, races, plans, schema. A file for each
//! stage of a job's life. Nothing is mocked.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fleet;

mod schema;

mod agent;
mod append;
mod attention;
mod blob;
mod claim;
mod connection;
mod counting;
mod effect;
mod fence;
mod halt;
mod limits;
mod listing;
mod notification;
mod output;
mod plan;
mod retry;
mod sending;
mod settings;
mod submission;
mod term;
mod testimony;
mod timeline;
mod token;
mod wait;
