//! What can go wrong with a private server, and what a person does about it.
//!
//! Owns the error type and its stable reason codes. Does not print; whoever prints an error prints
//! the whole chain of causes. Neighbours: every module of this crate.

use std::io;
use std::path::PathBuf;

/// Why a private PostgreSQL server could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No usable binaries anywhere.
    #[error(
        "found no PostgreSQL {minimum} or newer (looked in {looked_in}); install it \
         (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server; \
         macOS: brew install postgresql@17) or set TENURE_PG_BIN to the directory that holds \
         `postgres` and `initdb`"
    )]
    NotFound {
        /// The oldest major version that serves.
        minimum: u32,
        /// The places that were searched, for a person.
        looked_in: String,
    },
    /// The data directory was written by a major version whose binaries are not here.
    #[error(
        "the data in {directory} was written by PostgreSQL {written_by}, and no binaries of that \
         version were found: install them, or use another directory"
    )]
    OtherVersion {
        /// The data directory.
        directory: PathBuf,
        /// The major version that wrote it.
        written_by: u32,
    },
    /// Running as root, and there is no ordinary account to run the server as.
    #[error(
        "PostgreSQL refuses to run as root, and neither the account `postgres` nor `nobody` exists: \
         create one of them, or run as an ordinary user"
    )]
    NoAccount,
    /// Running as root, and the ordinary account cannot enter the directory.
    #[error(
        "the account `{account}`, which runs PostgreSQL because root may not, cannot enter \
         {blocked_at} on the way to {directory}: use a directory under {suggestion}, or allow it \
         (chmod o+x {blocked_at})"
    )]
    Unreachable {
        /// The account that runs the server.
        account: String,
        /// The directory that it should use.
        directory: PathBuf,
        /// The first ancestor that it may not enter.
        blocked_at: PathBuf,
        /// A directory that would do.
        suggestion: PathBuf,
    },
    /// `initdb` said no.
    #[error("initdb could not create {directory}: {output}")]
    Initialise {
        /// The data directory to be.
        directory: PathBuf,
        /// What `initdb` printed.
        output: String,
    },
    /// The server ended, or did not become ready in time.
    #[error("PostgreSQL in {directory} did not start ({what}); its log ends with: {log_tail}")]
    Start {
        /// The data directory.
        directory: PathBuf,
        /// How it ended, or that it took too long.
        what: String,
        /// The last lines of its log.
        log_tail: String,
    },
    /// The operating system refused something.
    #[error("could not {attempt} {path}")]
    Io {
        /// What was attempted, as a verb.
        attempt: &'static str,
        /// On which path or program.
        path: PathBuf,
        /// The refusal.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// The stable code under which `docs/operate/errors.md` explains this error.
    #[must_use]
    pub fn reason_code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "POSTGRES_NOT_FOUND",
            Self::OtherVersion { .. }
            | Self::NoAccount
            | Self::Unreachable { .. }
            | Self::Initialise { .. }
            | Self::Start { .. }
            | Self::Io { .. } => "POSTGRES_NOT_STARTED",
        }
    }

    /// Wraps a refusal of the operating system: `.map_err(Error::io("create", &path))`.
    pub(crate) fn io(attempt: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { attempt, path, source }
    }
}
