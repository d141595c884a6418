//! The reason that every verb that acts is given.

use tenure_core::reason::Reason;

use crate::failure::Failure;

/// The reason, trimmed; a blank one would stand in the journal and say nothing.
pub(crate) fn require_reason(why: &str) -> Result<&str, Failure> {
    let trimmed = why.trim();
    if trimmed.is_empty() {
        return Err(Failure::new(Reason::ReasonMissing, "the reason given with --why is blank"));
    }
    Ok(trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_reason_is_refused() {
        assert!(require_reason(" \t\n").is_err());
        assert!(matches!(require_reason(" mended "), Ok("mended")));
    }
}
