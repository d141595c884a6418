//! Which worker may run a handler: one that holds exactly the version that the job was admitted under. What a worker holds
//! and what a job needs are both labels, made here and nowhere else, so that a handler is offered as any job with a
//! requirement is. A worker that holds handlers is offered those alone: it has no way to run a command. People may not give
//! such labels themselves. Neighbours: `declaration` names the version, `admission` adds the requirement.

use std::{fmt, str::FromStr};

use crate::{
    id::{AgentName, InvalidName},
    limits::NAME_MAX_BYTES,
};

/// What the labels that Tenure gives begin with.
pub const RESERVED_LABEL_PREFIX: &str = "tenure.";
/// What the label of a handler begins with.
pub const HANDLER_LABEL_PREFIX: &str = "tenure.handler/";
/// The form of a version.
const VERSION_FORM: &str = "[a-zA-Z0-9][a-zA-Z0-9._+-]{0,62}";

/// The version of a handler: whoever changes what its steps do gives it another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerVersion(String);

impl HandlerVersion {
    /// The version as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HandlerVersion {
    type Err = InvalidName;

    fn from_str(given: &str) -> Result<Self, InvalidName> {
        let begins = given.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
        if begins && given.len() <= NAME_MAX_BYTES && given.bytes().all(allowed) {
            return Ok(Self(given.to_owned()));
        }
        Err(InvalidName { kind: "handler version", given: given.to_owned(), form: VERSION_FORM })
    }
}

impl fmt::Display for HandlerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The label of a worker that holds this handler, and the requirement of a job for it.
#[must_use]
pub fn handler_label(agent: &AgentName, version: &HandlerVersion) -> String {
    format!("{HANDLER_LABEL_PREFIX}{agent}={version}")
}

/// The agent and the version of a handler's label; none: it is no such label.
#[must_use]
pub fn read_handler_label(label: &str) -> Option<(&str, &str)> {
    label.strip_prefix(HANDLER_LABEL_PREFIX)?.split_once('=')
}

/// Those of a worker's labels that name handlers. Where there are any, the worker is offered no job that requires none of
/// them.
#[must_use]
pub fn list_handler_labels(labels: &[String]) -> Vec<String> {
    labels.iter().filter(|label| label.starts_with(HANDLER_LABEL_PREFIX)).cloned().collect()
}

/// Whether a worker with these labels may be offered a job with these requirements, as far as handlers are concerned.
#[must_use]
pub fn may_be_offered(labels: &[String], requires: &[String]) -> bool {
    let mut held = labels.iter().filter(|label| label.starts_with(HANDLER_LABEL_PREFIX)).peekable();
    held.peek().is_none() || held.any(|label| requires.contains(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_with_handlers_is_offered_those_alone_and_one_without_any_whatever_it_can_meet() {
        let mailer = handler_label(&"mailer".parse().unwrap(), &"1".parse().unwrap());
        let held = ["zone=eu".to_owned(), mailer.clone()];
        assert!(may_be_offered(&held, &["zone=eu".to_owned(), mailer]));
        assert!(!may_be_offered(&held, &["zone=eu".to_owned()]));
        assert!(!may_be_offered(&held, &[]));
        assert!(may_be_offered(&["zone=eu".to_owned()], &[]));
    }

    #[test]
    fn a_label_names_agent_and_version() {
        let label = handler_label(&"mailer".parse().unwrap(), &"2.1.0+build".parse().unwrap());
        assert_eq!(label, "tenure.handler/mailer=2.1.0+build");
        assert_eq!(read_handler_label(&label), Some(("mailer", "2.1.0+build")));
        assert_eq!(read_handler_label("zone=eu"), None);
        let labels = vec!["zone=eu".to_owned(), label.clone(), "tenure.handlers".to_owned()];
        assert_eq!(list_handler_labels(&labels), [label]);
    }

    #[test]
    fn a_version_is_a_short_word() {
        for wrong in ["", "-1", "1 2", "1=2", "1/2", &"1".repeat(NAME_MAX_BYTES + 1)] {
            assert!(wrong.parse::<HandlerVersion>().is_err(), "{wrong:?}");
        }
        assert!("v1".parse::<HandlerVersion>().is_ok());
    }
}
