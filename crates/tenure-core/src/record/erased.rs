//! Which of a job's values are erased together. When that may be is decided in `erasure`.

use serde::{Deserialize, Serialize};

/// Which of a job's values are erased together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasedPart {
    /// What it was given.
    Input,
    /// Everything that its runs wrote: captured output, notes, steps, effects, results.
    Output,
}

impl ErasedPart {
    /// The word, as typed and stored.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}
