//! Why a run was ended on purpose, as its record says. What was no purpose of anybody's is an interruption, and in `recovery`.

use serde::{Deserialize, Serialize};

/// Why a run was ended on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandOver {
    /// Its worker leaves.
    Drained,
    /// A person redirected the job.
    Steered,
}
