//! An agent as a Rust function. `orders` is all that somebody writes for it, and `bin/order-worker` the program around it;
//! `stage` runs a fleet with two such workers and does one of them harm, for the example and its tests.

pub mod orders;
pub mod stage;
