//! Why a run is starting, and what it is told about the runs before it.

use serde::{Deserialize, Serialize};

use crate::{id::Run, recovery::Interruption};

/// Why a run is starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// The first run.
    Dispatch,
    /// An earlier run was interrupted.
    Recovered {
        /// That run.
        previous: Run,
        /// What happened to it.
        interruption: Interruption,
        /// Which attempt this is, from 2.
        attempt: u32,
    },
}
