//! How a worker keeps its children from outliving their runs, and what this host allows.
//!
//! Owns the choice between `kernel` and `guardian` fencing. It is made once, when the worker registers: a run
//! never falls back to the weaker one in silence.

use serde::{Deserialize, Serialize};

use super::namespace::try_namespace;

/// How the group of a run is kept together and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fencing {
    /// The child runs in a PID namespace that dies with the guardian, whatever happens to the worker.
    Kernel,
    /// Process group, subreaper, and `cgroup.kill` where there is one. Worker and guardian killed at once may
    /// leave a child behind.
    Guardian,
}

/// Tries what works on this host: `kernel` where a PID namespace can be made.
///
/// Forks once; call it early, before many threads run.
pub fn detect_fencing() -> Fencing {
    if try_namespace() { Fencing::Kernel } else { Fencing::Guardian }
}
