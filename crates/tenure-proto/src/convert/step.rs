//! The name of a step, from the wire.

use tenure_core::step::StepName;

use super::InvalidField;

/// The name of a step from the wire.
///
/// # Errors
/// It is empty, longer than 256 bytes, or has control characters.
pub fn read_step_name(field: &'static str, given: &str) -> Result<StepName, InvalidField> {
    given.parse().map_err(|_| {
        InvalidField::malformed(field, given, "1 to 256 bytes of text without control characters")
    })
}
