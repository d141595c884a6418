//! The name of a step: a piece of a handler's work that is finished or not, under a name that is unique in its job. A
//! finished one is read back by later runs and not executed again; one that was begun and not finished is executed again,
//! so whatever changes the world belongs into an effect and not into a step.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::limits::STEP_NAME_MAX_BYTES;

/// 1 to 256 bytes of text without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StepName(String);

/// A text that is no name of a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStepName {
    /// It has no or too many bytes.
    #[error("the step's name has {bytes} bytes, and 1 to {STEP_NAME_MAX_BYTES} are taken")]
    Length {
        /// How many it has.
        bytes: usize,
    },
    /// It has a control character.
    #[error("the step's name {given:?} has a control character")]
    Control {
        /// What was given.
        given: String,
    },
}

impl StepName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StepName {
    type Err = InvalidStepName;

    fn from_str(given: &str) -> Result<Self, InvalidStepName> {
        if given.is_empty() || given.len() > STEP_NAME_MAX_BYTES {
            return Err(InvalidStepName::Length { bytes: given.len() });
        }
        if given.chars().any(char::is_control) {
            return Err(InvalidStepName::Control { given: given.to_owned() });
        }
        Ok(Self(given.to_owned()))
    }
}

impl TryFrom<String> for StepName {
    type Error = InvalidStepName;

    fn try_from(given: String) -> Result<Self, InvalidStepName> {
        given.parse()
    }
}

impl From<StepName> for String {
    fn from(name: StepName) -> Self {
        name.0
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_short_text_without_control_characters() {
        assert!("fetch the order / 3".parse::<StepName>().is_ok());
        assert_eq!("".parse::<StepName>(), Err(InvalidStepName::Length { bytes: 0 }));
        let long = "x".repeat(STEP_NAME_MAX_BYTES + 1);
        assert_eq!(long.parse::<StepName>(), Err(InvalidStepName::Length { bytes: STEP_NAME_MAX_BYTES + 1 }));
        assert!(matches!("a\nb".parse::<StepName>(), Err(InvalidStepName::Control { .. })));
    }
}
