//! What worker and guardian say to each other over the control socket.
//!
//! Owns the frames (a length of four bytes, big-endian, then JSON) and their types. Both ends are the same
//! program, so the frames carry no version. The run's secret travels here and nowhere else: never in an
//! environment, an argument or a log.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tenure_core::limits::CONTROL_FRAME_MAX_BYTES;
use thiserror::Error;

use super::{BootInstant, Fencing, ProcessMark};
use crate::runner::{ResourceLimits, RunUser};

/// From the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum ToGuardian {
    /// The first frame: what to run, and until when.
    Spec(Box<GuardSpec>),
    /// The first frame where it is the sender itself that is guarded, because its runs are functions in it.
    Worker(WorkerSpec),
    /// What became of one of the runs of such a sender.
    Held(HeldWord),
    /// The local deadline moved: the worker's term was renewed.
    Deadline {
        /// The new one; may also be earlier.
        at: BootInstant,
    },
    /// Answered with a pong of the same number.
    Ping {
        /// Counts up.
        number: u64,
    },
    /// End the group: SIGTERM, the grace, SIGKILL.
    Stop {
        /// Between SIGTERM and SIGKILL.
        grace_ms: u64,
        /// Why.
        cause: EndCause,
    },
    /// End the group with SIGKILL now.
    Kill,
    /// The end is acknowledged by the coordinator: there is nothing left to report.
    Forget,
}

/// From the guardian.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum FromGuardian {
    /// The child was forked and waits at its gate. Said before that is opened, so that a worker that takes over from a
    /// dead guardian knows whom to end from the guardian itself, and from no file that the child could have written.
    Forked {
        /// The child, as seen from the guardian's PID namespace.
        child: ProcessMark,
        /// PID 1 of the run's namespace, under kernel fencing.
        init: Option<ProcessMark>,
    },
    /// The worker is guarded from now on.
    Watching,
    /// The child's program runs.
    Started {
        /// The child, as seen from the guardian's PID namespace.
        pid: i32,
    },
    /// The answer to a ping.
    Pong {
        /// The ping's.
        number: u64,
    },
    /// The whole group is empty.
    Ended {
        /// How the child itself ended.
        end: ChildEnd,
        /// Who caused it.
        cause: EndCause,
    },
}

/// How the child itself ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum ChildEnd {
    /// By itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// By a signal, whoever sent it.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// It never ran.
    NotStarted {
        /// Why, for a person.
        reason: String,
    },
}

/// What first made the run end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum EndCause {
    /// Nothing from outside: the child ended by itself.
    Itself,
    /// The worker asked for it: a cancel, a drain, a steer.
    Asked,
    /// It ran past its own timeout.
    OwnTimeout {
        /// The limit.
        limit_ms: u64,
    },
    /// It was silent past its idle timeout.
    IdleTimeout {
        /// The limit.
        limit_ms: u64,
    },
    /// The worker was gone, or the local deadline was reached.
    ContactLost,
}

/// A worker that is guarded itself.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct WorkerSpec {
    /// Its process, which is the guardian's parent.
    pub(crate) pid: i32,
}

/// What a worker says about a run whose work is a function in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(crate) enum HeldWord {
    /// Its function is about to be called.
    Begin(Box<HeldRun>),
    /// Its local deadline moved.
    Deadline {
        /// Which run.
        run: HeldName,
        /// The new one.
        at: BootInstant,
    },
    /// Its function has stopped; the end is not acknowledged yet.
    Stopped {
        /// Which run.
        run: HeldName,
    },
    /// There is nothing left to report about it.
    Released {
        /// Which run.
        run: HeldName,
    },
}

/// A run among those of one worker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct HeldName {
    pub(crate) tenant: String,
    pub(crate) job: String,
    pub(crate) epoch: u64,
}

/// A run whose function may act from now on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HeldRun {
    /// To whom to report that it is gone.
    pub(crate) report: ReportIdentity,
    /// When the worker's process is ended where the function has not stopped.
    pub(crate) deadline: BootInstant,
    /// Where an unreported outcome is left.
    pub(crate) run_directory: PathBuf,
}

impl ReportIdentity {
    /// The name of the run.
    pub(crate) fn name(&self) -> HeldName {
        HeldName { tenant: self.tenant.clone(), job: self.job.clone(), epoch: self.epoch }
    }
}

/// Everything that a guardian needs for its run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GuardSpec {
    /// Names the run on this host: cgroups bear it. `[A-Za-z0-9._-]`.
    pub(crate) run_name: String,
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    /// The child's environment, exact and whole.
    pub(crate) env: Vec<(String, String)>,
    /// Where the child starts.
    pub(crate) cwd: PathBuf,
    /// What the child reads. Absent: nothing.
    pub(crate) stdin: Option<PathBuf>,
    /// Whom the child runs as. Absent: as its worker does.
    pub(crate) user: Option<RunUser>,
    /// What the child may use.
    pub(crate) limits: ResourceLimits,
    /// Between SIGTERM and SIGKILL for what the child leaves behind.
    pub(crate) stop_grace_ms: u64,
    /// How the group is kept together.
    pub(crate) fencing: Fencing,
    /// When the group is ended if nobody says otherwise.
    pub(crate) deadline: BootInstant,
    /// SIGTERM comes so long before the deadline.
    pub(crate) margin_ms: u64,
    /// Where identity and unreported outcome are left.
    pub(crate) run_directory: PathBuf,
    /// To whom to report the end where the worker cannot. Absent: nobody.
    pub(crate) report: Option<ReportIdentity>,
}

/// What a guardian needs to report the end of its run to a coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportIdentity {
    /// The tenant of the job.
    pub tenant: String,
    /// The job.
    pub job: String,
    /// The epoch of the claim.
    pub epoch: u64,
    /// The generation of the claim.
    pub generation: u64,
    /// The run's own secret.
    pub secret: RunSecret,
    /// Coordinators, tried in turn.
    pub endpoints: Vec<String>,
    /// Whom to believe where a coordinator speaks TLS; absent: the authorities of the web.
    pub tls_authority_pem: Option<String>,
    /// The term's time to live: so long the report is repeated.
    pub ttl_ms: u64,
}

/// A run's secret. Printing it prints that there is one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunSecret(Vec<u8>);

impl RunSecret {
    /// Wraps the bytes that came with the grant.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for the report.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for RunSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("RunSecret(..)")
    }
}

impl From<RunSecret> for String {
    fn from(secret: RunSecret) -> Self {
        hex::encode(secret.0)
    }
}

impl TryFrom<String> for RunSecret {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        hex::decode(text).map(Self)
    }
}

/// A frame that cannot be read or written.
#[derive(Debug, Error)]
pub(crate) enum ProtocolError {
    /// Longer than the limit.
    #[error("a control frame of {length_bytes} bytes is over the limit of {limit_bytes}")]
    TooLong {
        /// Announced or composed.
        length_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// Not the JSON that was expected.
    #[error("a control frame of {length_bytes} bytes could not be read as JSON")]
    Malformed {
        /// Of the frame.
        length_bytes: usize,
        /// What serde says.
        #[source]
        source: serde_json::Error,
    },
    /// A value that has no JSON.
    #[error("a control frame could not be written as JSON")]
    Unwritable(#[source] serde_json::Error),
}

/// Composes one frame.
pub(crate) fn encode_frame<T: Serialize>(message: &T) -> Result<Vec<u8>, ProtocolError> {
    let body = serde_json::to_vec(message).map_err(ProtocolError::Unwritable)?;
    let too_long = ProtocolError::TooLong { length_bytes: body.len(), limit_bytes: CONTROL_FRAME_MAX_BYTES };
    if body.len() > CONTROL_FRAME_MAX_BYTES {
        return Err(too_long);
    }
    let length = u32::try_from(body.len()).map_err(|_| too_long)?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}

/// Collects bytes as they arrive and gives whole frames.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: Vec<u8>,
}

impl FrameBuffer {
    /// Takes what arrived.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub(crate) fn next_frame<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ProtocolError> {
        let Some(header) = self.bytes.first_chunk::<4>() else {
            return Ok(None);
        };
        let length_bytes = usize::try_from(u32::from_be_bytes(*header)).unwrap_or(usize::MAX);
        if length_bytes > CONTROL_FRAME_MAX_BYTES {
            return Err(ProtocolError::TooLong { length_bytes, limit_bytes: CONTROL_FRAME_MAX_BYTES });
        }
        let Some(body) = self.bytes.get(4..4 + length_bytes) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(body)
            .map_err(|source| ProtocolError::Malformed { length_bytes, source })?;
        self.bytes.drain(..4 + length_bytes);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_being_split_anywhere() {
        let frame = encode_frame(&ToGuardian::Ping { number: 7 }).unwrap();
        for cut in 0..frame.len() {
            let mut buffer = FrameBuffer::default();
            buffer.push(&frame[..cut]);
            assert!(buffer.next_frame::<ToGuardian>().unwrap().is_none(), "cut at {cut}");
            buffer.push(&frame[cut..]);
            let read = buffer.next_frame::<ToGuardian>().unwrap();
            assert!(matches!(read, Some(ToGuardian::Ping { number: 7 })), "cut at {cut}: {read:?}");
        }
    }

    #[test]
    fn an_announced_length_over_the_limit_is_refused_before_it_is_buffered() {
        let mut buffer = FrameBuffer::default();
        buffer.push(&u32::MAX.to_be_bytes());
        assert!(matches!(buffer.next_frame::<ToGuardian>(), Err(ProtocolError::TooLong { .. })));
    }

    #[test]
    fn a_secret_travels_and_is_not_printed() {
        let secret = RunSecret::from_bytes(vec![0xab; 32]);
        let text = serde_json::to_string(&secret).unwrap();
        assert_eq!(serde_json::from_str::<RunSecret>(&text).unwrap(), secret);
        assert!(!format!("{secret:?}").contains("ab"));
    }
}
