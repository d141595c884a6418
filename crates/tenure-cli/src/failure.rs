//! Why a verb did not succeed, and what the program ends with. Everything that fails becomes a refusal with a stable code;
//! the causes are kept beside it and printed as one chain. The text is two lines: what and why, then the code and the
//! command that goes on.

use std::{error::Error, io, process::ExitCode};

use serde_json::json;
use tenure_client::ClientError;
use tenure_core::{
    reason::{Class, Reason},
    refusal::Refusal,
};

/// A usage error.
const EXIT_USAGE: u8 = 2;

/// Why a verb did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was refused, here or by the fleet.
    Refused {
        /// What, why, and what goes on.
        refusal: Refusal,
        /// The chain of causes, the nearest first.
        causes: Vec<String>,
        /// What the program ends with.
        exit: u8,
    },
    /// Several things failed, and each was printed when it did.
    Printed {
        /// What the program ends with.
        exit: u8,
    },
    /// Whoever read what is printed has left, as `head` does. Nobody is left to be told.
    ReaderLeft,
}

impl Failure {
    /// A refusal of our own.
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Refusal::new(reason, message).into()
    }

    /// A command line that cannot be meant.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        let refusal = Refusal::new(Reason::InvalidArgument, message);
        Self::Refused { refusal, causes: Vec::new(), exit: EXIT_USAGE }
    }

    /// A refusal with the error that led to it.
    pub(crate) fn caused(refusal: Refusal, cause: &(dyn Error + 'static)) -> Self {
        let exit = exit_of(refusal.reason);
        Self::Refused { refusal, causes: chain_of(Some(cause)), exit }
    }

    /// An error of another crate, with its code: its own text is the message, what is below it the causes.
    pub(crate) fn from_error(reason: Reason, error: &(dyn Error + 'static)) -> Self {
        let refusal = Refusal::new(reason, error.to_string());
        Self::Refused { refusal, causes: chain_of(error.source()), exit: exit_of(reason) }
    }

    /// The same with the command that goes on, where none is named yet.
    pub(crate) fn or_next(mut self, command: impl Into<String>) -> Self {
        if let Self::Refused { refusal, .. } = &mut self {
            refusal.next.get_or_insert_with(|| command.into());
        }
        self
    }

    /// The same with another exit code, where it is a refusal that is no matter of usage.
    pub(crate) fn with_exit(mut self, code: u8) -> Self {
        if let Self::Refused { exit, .. } = &mut self
            && *exit != EXIT_USAGE
        {
            *exit = code;
        }
        self
    }

    /// What is left of a failure that has been printed.
    pub(crate) const fn already_printed(&self) -> Self {
        match self {
            Self::Refused { exit, .. } | Self::Printed { exit } => Self::Printed { exit: *exit },
            Self::ReaderLeft => Self::ReaderLeft,
        }
    }

    /// What the program ends with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Refused { exit, .. } | Self::Printed { exit } => ExitCode::from(*exit),
            Self::ReaderLeft => ExitCode::SUCCESS,
        }
    }

    /// True where asking for the next job would meet the same.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::Refused { refusal, .. } => refusal.reason.class() == Class::Unavailable,
            Self::Printed { .. } => false,
            Self::ReaderLeft => true,
        }
    }

    /// For people: `error: …`, then the code and the command that goes on.
    pub(crate) fn text(&self, paint_error: impl Fn(&str) -> String) -> String {
        let Self::Refused { refusal, causes, .. } = self else { return String::new() };
        let mut text = format!("{} {}", paint_error("error:"), refusal.message);
        for cause in causes {
            text.push_str(&format!(": {cause}"));
        }
        text.push_str(&format!("\n       code {}", refusal.reason.code()));
        if let Some(next) = &refusal.next {
            text.push_str(&format!("   next: {next}"));
        }
        if let Some(pause) = refusal.retry_after {
            text.push_str(&format!("   try again in: {}", humantime::format_duration(pause)));
        }
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> serde_json::Value {
        let Self::Refused { refusal, causes, .. } = self else { return serde_json::Value::Null };
        let message =
            causes.iter().fold(refusal.message.clone(), |message, cause| format!("{message}: {cause}"));
        json!({
            "code": refusal.reason.code(),
            "message": message,
            "retry_after_ms": refusal.retry_after.map(|pause| u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)),
            "details": refusal.details,
            "next": refusal.next,
        })
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let exit = exit_of(refusal.reason);
        Self::Refused { refusal, causes: Vec::new(), exit }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(refusal) => refusal.into(),
            ClientError::NoEndpoint
            | ClientError::InvalidEndpoint { .. }
            | ClientError::Tls { .. }
            | ClientError::Plaintext(_) => {
                let refusal = Refusal::new(error.reason(), error.to_string());
                Self::Refused { refusal, causes: chain_of(error.source()), exit: EXIT_USAGE }
            }
            ClientError::Unavailable { .. }
            | ClientError::OutcomeUnknown { .. }
            | ClientError::Unreadable { .. }
            | ClientError::RecordUnreadable { .. }
            | ClientError::InputUnreadable { .. }
            | ClientError::WaitRanOut { .. }
            | ClientError::ChainBroken { .. } => Self::from_error(error.reason(), &error),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ReaderLeft;
        }
        Self::caused(Refusal::new(Reason::Internal, "printing what was asked for"), &error)
    }
}

/// The exit code of a reason.
fn exit_of(reason: Reason) -> u8 {
    match (reason, reason.class()) {
        (Reason::NotInsideRun, _) => EXIT_USAGE,
        (Reason::WaitRanOut, _) => 3,
        (_, Class::Unavailable) => 4,
        (_, Class::Rejected | Class::Fenced | Class::Bug) => 1,
    }
}

/// The texts of a chain of errors. Of a status of gRPC only the message is of use to a person, and of the layers below
/// it only what they do not repeat.
fn chain_of(first: Option<&(dyn Error + 'static)>) -> Vec<String> {
    let mut chain: Vec<String> = Vec::new();
    let mut link = first;
    while let Some(error) = link {
        let text = match error.downcast_ref::<Box<tonic::Status>>() {
            Some(status) => status.message().to_owned(),
            None if error.is::<tonic::transport::Error>() => String::new(),
            None => error.to_string(),
        };
        if !text.is_empty() && chain.last().is_none_or(|last| !last.contains(&text)) {
            chain.push(text);
        }
        link = error.source();
    }
    chain
}

/// Ends with what the parser says: help on stdout, anything else on stderr with exit code 2.
pub(crate) fn end_with_usage(error: &clap::Error, as_json: bool) -> ExitCode {
    if as_json && error.use_stderr() {
        let text = error.render().to_string();
        let message = text.trim().trim_start_matches("error: ");
        eprintln!("{}", Failure::usage(message).json());
        return ExitCode::from(EXIT_USAGE);
    }
    // Nobody is left to be told where this fails.
    let _printed = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_USAGE))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_error_is_two_lines_that_say_what_and_what_next() {
        let refusal =
            Refusal::new(Reason::Fenced, "job …9f3c21 is held by worker w2 under epoch 4, yours was 3")
                .with_next("tenure job …9f3c21");
        assert_eq!(
            Failure::from(refusal).text(str::to_owned),
            "error: job …9f3c21 is held by worker w2 under epoch 4, yours was 3\n       \
             code FENCED   next: tenure job …9f3c21"
        );
    }

    #[test]
    fn the_json_of_an_error_has_the_same_and_the_details() {
        let refusal = Refusal::new(Reason::Overloaded, "the lane is full")
            .with_detail("waiting", 10_000)
            .with_retry_after(Duration::from_millis(250));
        assert_eq!(
            Failure::from(refusal).json(),
            json!({
                "code": "OVERLOADED", "message": "the lane is full", "retry_after_ms": 250,
                "details": {"waiting": "10000"}, "next": null,
            })
        );
    }

    #[test]
    fn the_exit_code_tells_the_four_ways_of_not_succeeding_apart() {
        assert_eq!(exit_of(Reason::JobNotFound), 1);
        assert_eq!(exit_of(Reason::NotInsideRun), 2);
        assert_eq!(exit_of(Reason::WaitRanOut), 3);
        assert_eq!(exit_of(Reason::CoordinatorUnavailable), 4);
        assert_eq!(exit_of(Reason::DatabaseUnavailable), 4);
    }
}
