//! What stands beside an announcement: the command of an effect, and those that undo it and look it up.

use serde::{Deserialize, Serialize};

/// What is performed under a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRequest {
    /// The command, word by word.
    pub command: Vec<String>,
    /// The command that undoes it, for a shell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo: Option<String>,
    /// The command that looks up whether it happened, for a shell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probe: Option<String>,
}

impl EffectRequest {
    /// Reads the JSON. Unknown fields are left out.
    ///
    /// # Errors
    /// It is no such JSON.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }
}
