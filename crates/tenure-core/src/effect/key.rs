//! The key of an effect: chosen by the caller, stable across the runs of a job, unique in it. Undoing an effect is an effect
//! under a key of its own, which begins as no caller's key may: whoever takes keys from callers refuses those.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{id::JobId, limits::KEY_MAX_BYTES};

/// What the key under which an effect is undone begins with; the rest is the key of that effect.
pub const UNDO_PREFIX: &str = "undo:";

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

    /// True where it names the undoing of another effect.
    #[must_use]
    pub fn is_undo(&self) -> bool {
        self.0.starts_with(UNDO_PREFIX)
    }

    /// The key under which the effect is undone.
    ///
    /// # Errors
    /// The key is so long that there is no such key.
    pub fn undo_key(&self) -> Result<Self, InvalidKey> {
        format!("{UNDO_PREFIX}{}", self.0).parse()
    }

    /// The key of the effect that it undoes; none: it undoes nothing.
    #[must_use]
    pub fn undone_key(&self) -> Option<Self> {
        self.0.strip_prefix(UNDO_PREFIX)?.parse().ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_that_of_its_undoing_lead_to_each_other() {
        let key: EffectKey = "git/push".parse().unwrap();
        let undo = key.undo_key().unwrap();
        assert_eq!((undo.as_str(), undo.is_undo(), key.is_undo()), ("undo:git/push", true, false));
        assert_eq!((undo.undone_key(), key.undone_key()), (Some(key), None));
        let longest: EffectKey = "k".repeat(KEY_MAX_BYTES - UNDO_PREFIX.len()).parse().unwrap();
        assert_eq!(longest.undo_key().unwrap().as_str().len(), KEY_MAX_BYTES);
        let longer: EffectKey = "k".repeat(KEY_MAX_BYTES).parse().unwrap();
        assert!(longer.undo_key().is_err());
    }
}
