//! The rules of the house that a machine can check: layout, prose, SQL, purity, errors, invariants.
//!
//! Owns the rules and nothing of what they judge. Each rule is a pure function over paths and texts,
//! with a test of its own that shows it a violation, and one run over the whole tree. A rule that
//! makes the code worse is changed here, in the same pull request, with the reason.
//!
//! Neighbours: `CONTRIBUTING.md` says the same in words; `clippy.toml` and the lints of the workspace
//! check what needs a compiler, the length of functions among it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod changelog;
mod codes;
mod commands;
mod documents;
mod errors;
mod invariants;
mod layout;
mod manifests;
mod prose;
mod protocol;
mod purity;
mod reference;
mod repetition;
mod sql;
mod tree;
