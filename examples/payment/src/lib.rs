//! A payment robot as a Rust function. `payments` is all that somebody writes for it, and `bin/payment-worker` the program
//! around it; `stage` runs a fleet with two such workers that are done harm, for the example and its test.

pub mod payments;
pub mod stage;
