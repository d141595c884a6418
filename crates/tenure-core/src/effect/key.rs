//! The key of an effect: chosen by the caller, stable across the runs of a job, unique in it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{id::JobId, limits::KEY_MAX_BYTES};

/// 1 to 512 bytes of text without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EffectKey(String);

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// It has no or too many bytes.
    #[error("the effect's key has {bytes} bytes, and 1 to {KEY_MAX_BYTES} are taken")]
    Length {
        /// How many it has.
        bytes: usize,
    },
    /// It has a control character.
    #[error("the effect's key {given:?} has a control character")]
    Control {
        /// What was given.
        given: String,
    },
}

impl EffectKey {
    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tool that the effect uses where nothing else is said: what stands before the first `/`.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.0.split('/').next().unwrap_or(&self.0)
    }

    /// What is sent to a provider that shares its keys with others: it contains the job's id.
    #[must_use]
    pub fn idempotency_key(&self, job: JobId) -> String {
        format!("{job}/{}", self.0)
    }
}

impl FromStr for EffectKey {
    type Err = InvalidKey;

    fn from_str(given: &str) -> Result<Self, InvalidKey> {
        if given.is_empty() || given.len() > KEY_MAX_BYTES {
            return Err(InvalidKey::Length { bytes: given.len() });
        }
        if given.chars().any(char::is_control) {
            return Err(InvalidKey::Control { given: given.to_owned() });
        }
        Ok(Self(given.to_owned()))
    }
}

impl TryFrom<String> for EffectKey {
    type Error = InvalidKey;

    fn try_from(given: String) -> Result<Self, InvalidKey> {
        given.parse()
    }
}

impl From<EffectKey> for String {
    fn from(key: EffectKey) -> Self {
        key.0
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
