//! Every crash that could have happened: jobs of many shapes are run to their end by a real coordinator and a real worker, and
//! then every prefix of their journals is rebuilt, resumed by a coordinator and a worker of its own, and held against a ledger.
//! What was in flight at the crash had happened or had not: where something was, both worlds are tried.
//!
//! `cargo nextest run -E 'test(crash_point)'` runs all of it; faults of the store, which no prefix can show, are
//! `test(faulty_store)`. A new shape is one more entry of [`shape::SHAPES`], and one more
//! line in `suite`. Neighbours: `scene` is the fleet, `handlers` and `scripts` are the jobs, the test kit rebuilds and judges.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod handlers;
mod scene;
mod scripts;
mod shape;

mod faults;
mod suite;
