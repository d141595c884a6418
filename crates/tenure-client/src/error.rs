//! What can go wrong between a caller and a fleet. A refusal of the fleet is handed on as it came; everything else says
//! which endpoints were asked and whether what was asked for may have been done nevertheless.

use std::{io, path::PathBuf, time::Duration};

use tenure_core::{id::JobId, job::State, reason::Reason, refusal::Refusal, verify::Finding};
use tenure_proto::{convert::InvalidField, tls::PlaintextToken};

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No endpoint was given.
    #[error("no endpoint is given to ask")]
    NoEndpoint,
    /// An endpoint that is not an address.
    #[error("{address:?} is not the address of an endpoint")]
    InvalidEndpoint {
        /// What was given.
        address: String,
        /// The cause.
        #[source]
        source: tonic::transport::Error,
    },
    /// Certificates that cannot be used.
    #[error("the certificates given cannot be used for TLS with {address:?}")]
    Tls {
        /// The endpoint that wants TLS.
        address: String,
        /// The cause.
        #[source]
        source: tonic::transport::Error,
    },
    /// A token that would be sent in plain text.
    #[error(transparent)]
    Plaintext(#[from] PlaintextToken),
    /// The fleet refused.
    #[error("{0}")]
    Refused(Refusal),
    /// No coordinator answered, and nothing was done.
    #[error("no coordinator answers at {endpoints}")]
    Unavailable {
        /// Which were asked.
        endpoints: String,
        /// What the last one said.
        #[source]
        source: Box<tonic::Status>,
    },
    /// The answer was lost: it may have been done or not.
    #[error(
        "the coordinator at {endpoint} took the request and gave no answer: it may have been carried out"
    )]
    OutcomeUnknown {
        /// Which was asked.
        endpoint: String,
        /// What came instead.
        #[source]
        source: Box<tonic::Status>,
    },
    /// An answer that this release cannot read.
    #[error("the coordinator gave an answer that cannot be read")]
    Unreadable {
        /// What is wrong with it.
        #[source]
        source: InvalidField,
    },
    /// A record whose bytes this release cannot read.
    #[error("record {seq} of the journal cannot be read")]
    RecordUnreadable {
        /// Its seq.
        seq: u64,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A file that was to be handed in cannot be read.
    #[error("reading the input from {}", path.display())]
    InputUnreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The wait ran out.
    #[error("job {} is still {} after {} s", job.short(), state, waited.as_secs())]
    WaitRanOut {
        /// Which job.
        job: JobId,
        /// Where it stands.
        state: State,
        /// How long was waited.
        waited: Duration,
    },
    /// The journal does not verify.
    #[error("the journal of job {} does not verify", job.short())]
    ChainBroken {
        /// Which job.
        job: JobId,
        /// What was found.
        #[source]
        finding: Finding,
    },
}

impl ClientError {
    /// The stable reason code.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::NoEndpoint | Self::InvalidEndpoint { .. } | Self::InputUnreadable { .. } => {
                Reason::InvalidArgument
            }
            Self::Tls { .. } => Reason::TlsUnusable,
            Self::Plaintext(_) => Reason::TlsRequired,
            Self::Refused(refusal) => refusal.reason,
            Self::Unavailable { .. } | Self::OutcomeUnknown { .. } => Reason::CoordinatorUnavailable,
            Self::Unreadable { .. } | Self::RecordUnreadable { .. } => Reason::Internal,
            Self::WaitRanOut { .. } => Reason::WaitRanOut,
            Self::ChainBroken { .. } => Reason::ChainBroken,
        }
    }
}

impl From<InvalidField> for ClientError {
    fn from(source: InvalidField) -> Self {
        Self::Unreadable { source }
    }
}
