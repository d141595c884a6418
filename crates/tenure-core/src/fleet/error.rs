//! What is wrong with a fleet file, and where: line and column are counted from 1, columns in characters.

use crate::{declaration::check::Flaw, reason::Reason, refusal::Refusal};

/// What is wrong with a fleet file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct FleetError {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// What is wrong, naming the key.
    pub message: String,
    /// `InvalidFleetFile`, or `NotSupported` for a feature that does not exist yet.
    pub reason: Reason,
}

impl From<FleetError> for Refusal {
    fn from(error: FleetError) -> Self {
        Self::new(error.reason, error.to_string())
            .with_detail("line", error.line)
            .with_detail("column", error.column)
    }
}

/// Finds places in a text.
pub(super) struct Position<'a> {
    text: &'a str,
}

impl<'a> Position<'a> {
    pub(super) const fn of(text: &'a str) -> Self {
        Self { text }
    }

    pub(super) fn explain(&self, flaw: &Flaw) -> FleetError {
        let offset = flaw.span.as_ref().map_or(0, |span| span.start);
        self.at(offset, flaw.to_string(), flaw.reason(Reason::InvalidFleetFile))
    }

    pub(super) fn explain_syntax(&self, error: &toml::de::Error) -> FleetError {
        let offset = error.span().map_or(0, |span| span.start);
        self.at(offset, error.message().to_owned(), Reason::InvalidFleetFile)
    }

    fn at(&self, offset: usize, message: String, reason: Reason) -> FleetError {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        FleetError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
            reason,
        }
    }
}
