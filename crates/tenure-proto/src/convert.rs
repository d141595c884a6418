//! What a message says, in the types of the core, and back. One module for each kind of thing; a field that is missing,
//! of the wrong form, or a value that this release does not know is refused by name, never guessed at. It decides nothing
//! else: whether a well-formed request is allowed is the core's business. Neighbour: `status` turns refusals into gRPC.

pub mod blob;
pub mod effect;
pub mod id;
pub mod run;
pub mod state;
pub mod step;
pub mod submission;
pub mod time;
pub mod wait;

use tenure_core::{reason::Reason, refusal::Refusal};

/// A field of a message that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidField {
    /// It was not there.
    #[error("the field {field} is missing")]
    Missing {
        /// Which.
        field: &'static str,
    },
    /// It did not have its form.
    #[error("the field {field} is {given:?}, and {expected} is wanted")]
    Malformed {
        /// Which.
        field: &'static str,
        /// What was given, cut short.
        given: String,
        /// What form it must have.
        expected: &'static str,
    },
    /// It had a value that this release does not know.
    #[error("the field {field} has the value {value}, which this release does not know")]
    Unknown {
        /// Which.
        field: &'static str,
        /// The value on the wire.
        value: i32,
    },
}

impl InvalidField {
    /// A field of the wrong form; only the beginning of what was given is kept.
    pub(crate) fn malformed(field: &'static str, given: &str, expected: &'static str) -> Self {
        const GIVEN_SHOWN_CHARS: usize = 80;
        Self::Malformed { field, given: given.chars().take(GIVEN_SHOWN_CHARS).collect(), expected }
    }

    /// The field's name.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Missing { field } | Self::Malformed { field, .. } | Self::Unknown { field, .. } => field,
        }
    }
}

impl From<InvalidField> for Refusal {
    fn from(error: InvalidField) -> Self {
        Self::new(Reason::InvalidArgument, error.to_string()).with_detail("field", error.field())
    }
}

/// The message in a field that must be there.
///
/// # Errors
/// It is not there.
pub fn require<T>(field: &'static str, given: Option<T>) -> Result<T, InvalidField> {
    given.ok_or(InvalidField::Missing { field })
}
