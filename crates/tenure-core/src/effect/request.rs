//! What stands beside an announcement: the command of an effect, what undoes it, and what looks it up.

use serde::{Deserialize, Serialize};

/// What is performed under a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRequest {
    /// The command, word by word.
    pub command: Vec<String>,
    /// The command that undoes it, for a shell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo: Option<String>,
    /// The function of its agent's handler that undoes it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compensation: Option<CompensationCall>,
    /// The command that looks up whether it happened, for a shell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probe: Option<String>,
}

/// A function that undoes an effect, under the name that the handler's agent has for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompensationCall {
    /// Its name.
    pub name: String,
    /// What it is called with, as JSON.
    pub arguments: String,
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
