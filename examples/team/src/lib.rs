//! A team of agents around models. `fleet.toml` is all that somebody writes for it, `model.sh` stands in for the models; `stage` runs a fleet
//! that is done harm, for the example and its test.

pub mod stage;
