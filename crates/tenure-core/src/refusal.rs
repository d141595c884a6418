//! A refusal in the form in which every caller gets it, whichever way it came: over the wire, in a batch, in a terminal.
//! It owns the shape and nothing else: the codes are in `reason`, the form on the wire in `tenure-proto`.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::reason::Reason;

/// Why something was not done, for a program and for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub reason: Reason,
    /// What was attempted and what stands against it, for a person: lower case, no full stop.
    pub message: String,
    /// Values that a program can use, for example a limit and the size that exceeded it.
    pub details: BTreeMap<String, String>,
    /// The command that goes on from here; none where there is none.
    pub next: Option<String>,
    /// Try again after so long; none where trying again does not help.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// A refusal without details.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), details: BTreeMap::new(), next: None, retry_after: None }
    }

    /// The same with one more value for a program.
    #[must_use]
    pub fn with_detail(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.details.insert(name.into(), value.to_string());
        self
    }

    /// The same with the command that goes on.
    #[must_use]
    pub fn with_next(mut self, command: impl Into<String>) -> Self {
        self.next = Some(command.into());
        self
    }

    /// The same with a hint when to try again.
    #[must_use]
    pub const fn with_retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
