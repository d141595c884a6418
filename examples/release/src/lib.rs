//! A release robot in shell. `fleet.toml` is all that somebody writes for it; `world` is what it changes, and `stage` runs a
//! fleet that is done harm, for the example and its test.

pub mod stage;
pub mod world;
