//! What a coordinator is started with, and why it may not start. Neighbours: `coordinator` acts on it, the command line
//! fills it.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use tenure_core::{
    limits::{HANDLER_ABSENT_WAIT, POLL_INTERVAL_DEFAULT, POLL_INTERVAL_MAX, POLL_INTERVAL_MIN},
    reason::Reason,
};
use tenure_store::StoreError;

use crate::{
    blob_store::{BlobLocation, BlobStoreError},
    credentials::{TooManyTokens, file::TokenFileError},
    tls::{TlsFileError, TlsFiles},
};

/// Lanes, where nothing is said.
pub const LANES_DEFAULT: usize = 2;
/// How long a start waits for a database that does not answer, where nothing is said.
pub const WAIT_FOR_DATABASE_DEFAULT: Duration = Duration::from_secs(10);

/// The settings of one coordinator.
#[derive(Clone)]
pub struct CoordinatorOptions {
    /// Where the database is. May hold a password, and is never printed.
    pub database_url: String,
    /// Where gRPC is served; port 0 takes a free one. Without credentials only loopback, beyond it only with TLS.
    pub listen: SocketAddr,
    /// Writers into the journal, 1 to 4.
    pub lanes: usize,
    /// How long the start waits for a database that does not answer.
    pub wait_for_database: Duration,
    /// The poll behind wake-ups: what a lost one may cost.
    pub poll_interval: Duration,
    /// How long no worker may hold the version of a handler that waiting jobs need, while others hold another one, before
    /// those jobs are set aside.
    pub handler_absent_wait: Duration,
    /// Where the listener connects, if not at `database_url`: behind a pooler the address of the database itself. Never
    /// printed.
    pub listen_database_url: Option<String>,
    /// The file of tokens; none: those of the database alone, and where there are none no credential is wanted.
    pub tokens: Option<PathBuf>,
    /// The certificate; none: plain text.
    pub tls: Option<TlsFiles>,
    /// Where values are that no row takes; none: what is larger is refused.
    pub blobs: Option<BlobLocation>,
    /// Serve beyond loopback in plain text, where something else encrypts. Credentials are wanted nevertheless.
    pub allow_plaintext: bool,
}

impl CoordinatorOptions {
    /// The defaults beside the two settings that have none.
    #[must_use]
    pub fn new(database_url: impl Into<String>, listen: SocketAddr) -> Self {
        Self {
            database_url: database_url.into(),
            listen,
            lanes: LANES_DEFAULT,
            wait_for_database: WAIT_FOR_DATABASE_DEFAULT,
            poll_interval: POLL_INTERVAL_DEFAULT,
            handler_absent_wait: HANDLER_ABSENT_WAIT,
            listen_database_url: None,
            tokens: None,
            tls: None,
            blobs: None,
            allow_plaintext: false,
        }
    }
}

/// A coordinator that could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database did not answer within the wait, or cannot be used.
    #[error("preparing the database for the coordinator")]
    Database(#[source] StoreError),
    /// Without credentials only loopback is served.
    #[error("listening on {listen} without credentials is refused, because it is not a loopback address")]
    LoopbackOnly {
        /// The address that was wanted.
        listen: SocketAddr,
    },
    /// Beyond loopback tokens cross the network.
    #[error("listening on {listen} without TLS is refused, because it is not a loopback address")]
    TlsRequired {
        /// The address that was wanted.
        listen: SocketAddr,
    },
    /// A certificate, key or authority cannot be read.
    #[error("preparing TLS")]
    TlsFile(#[source] TlsFileError),
    /// A certificate, key or authority cannot be used.
    #[error("the certificate, the key or the authority for clients cannot be used for TLS")]
    Tls(#[source] tonic::transport::Error),
    /// The file of tokens cannot be used.
    #[error("preparing the credentials")]
    TokenFile(#[source] TokenFileError),
    /// The database has too many tokens.
    #[error("preparing the credentials")]
    Tokens(#[source] TooManyTokens),
    /// The blob store cannot be used.
    #[error(transparent)]
    Blobs(BlobStoreError),
    /// Another process has the port.
    #[error("listening on {listen}, which another process uses")]
    PortInUse {
        /// The address that was wanted.
        listen: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("listening on {listen}")]
    Listen {
        /// The address that was wanted.
        listen: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The number of lanes is out of bounds.
    #[error("the number of lanes is {given}, and 1 to {LANES_MAX} are taken")]
    Lanes {
        /// What was given.
        given: usize,
    },
    /// The poll is out of bounds.
    #[error(
        "the poll interval is {} ms, and {} to {} ms are taken",
        given.as_millis(), POLL_INTERVAL_MIN.as_millis(), POLL_INTERVAL_MAX.as_millis()
    )]
    PollInterval {
        /// What was given.
        given: Duration,
    },
    /// The description of the services could not be read back; a defect of the build.
    #[error("describing the services for reflection")]
    Reflection(#[source] tonic_reflection::server::Error),
}

/// Most lanes.
pub const LANES_MAX: usize = 4;

impl StartError {
    /// The stable reason code.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Database(error) => error.reason(),
            Self::LoopbackOnly { .. } => Reason::LoopbackOnly,
            Self::TlsRequired { .. } => Reason::TlsRequired,
            Self::TlsFile(_) | Self::Tls(_) => Reason::TlsUnusable,
            Self::TokenFile(_) | Self::Tokens(_) => Reason::TokensUnreadable,
            Self::Blobs(_) => Reason::BlobStoreUnavailable,
            Self::PortInUse { .. } => Reason::PortInUse,
            Self::Listen { .. } | Self::Lanes { .. } | Self::PollInterval { .. } => Reason::InvalidArgument,
            Self::Reflection(_) => Reason::Internal,
        }
    }
}
