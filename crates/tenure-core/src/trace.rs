//! The W3C trace context of a job, and the spans in it that everybody can name without being told. One trace holds a job
//! from its submission to its end: the span of its admission and that of each run have ids that follow from the job and the
//! run, so that a handover run can link to the run before it, and whoever settles a run whose worker is gone can write the
//! span that the worker would have written.
//!
//! It starts no span and knows no clock. Neighbours: admission settles a job's context, grants carry it, `tenure-telemetry`
//! exports spans.

use std::{fmt, str::FromStr};

use crate::id::{Digest, JobId, Run};

/// Of a version that this release knows: `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`.
const LENGTH_BYTES: usize = 55;
/// The flag that says that the trace is recorded.
const SAMPLED: u8 = 1;

/// The id of a span: never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// A position in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; never zero.
    pub trace: [u8; 16],
    /// The span that is the parent of what follows.
    pub span: SpanId,
    /// Whether the trace is recorded. Where it is not, its ids are still passed on.
    pub sampled: bool,
}

/// A text that is no trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a trace context has the form 00-<trace>-<span>-<flags> of lower-case hexadecimal digits, neither id zero"
)]
pub struct InvalidTraceContext;

impl TraceContext {
    /// The context of a job whose submitter gave none: a trace of its own, which begins with its admission.
    #[must_use]
    pub fn of_job(job: JobId, sampled: bool) -> Self {
        let digest = derive(job, "trace");
        let mut trace = [0; 16];
        trace.copy_from_slice(&digest.0[..16]);
        Self { trace, span: SpanId::of_admission(job), sampled }
    }

    /// The same trace at another span.
    #[must_use]
    pub const fn at(self, span: SpanId) -> Self {
        Self { span, ..self }
    }
}

impl SpanId {
    /// The admission of a job.
    #[must_use]
    pub fn of_admission(job: JobId) -> Self {
        Self::first_of(&derive(job, "admission"))
    }

    /// A run of a job, whoever carries it out and whoever says how it ended.
    #[must_use]
    pub fn of_run(job: JobId, run: Run) -> Self {
        Self::first_of(&derive(job, &format!("run/{run}")))
    }

    /// An effect in a run, begun at a moment that tells it from others under its key.
    #[must_use]
    pub fn of_effect(job: JobId, run: Run, key: &str, begun_nanoseconds: u128) -> Self {
        Self::first_of(&derive(job, &format!("run/{run}/effect/{begun_nanoseconds}/{key}")))
    }

    fn first_of(digest: &Digest) -> Self {
        let mut id = [0; 8];
        id.copy_from_slice(&digest.0[..8]);
        Self(id)
    }
}

fn derive(job: JobId, what: &str) -> Digest {
    Digest::of_both(job.0.as_bytes(), what.as_bytes())
}

impl FromStr for TraceContext {
    type Err = InvalidTraceContext;

    /// Reads a `traceparent`. A later version is read as far as this one goes, as the standard asks for.
    fn from_str(given: &str) -> Result<Self, InvalidTraceContext> {
        let later = !given.starts_with("00-") && given.as_bytes().get(LENGTH_BYTES) == Some(&b'-');
        let known = if later { given.get(..LENGTH_BYTES) } else { Some(given) };
        let known = known.filter(|known| known.len() == LENGTH_BYTES && is_lower(known));
        let mut parts = known.ok_or(InvalidTraceContext)?.split('-');
        let (version, trace) = (read::<1>(parts.next())?, read::<16>(parts.next())?);
        let (span, flags) = (read::<8>(parts.next())?, read::<1>(parts.next())?);
        if parts.next().is_some() || version == [0xff] || trace == [0; 16] || span == [0; 8] {
            return Err(InvalidTraceContext);
        }
        Ok(Self { trace, span: SpanId(span), sampled: flags[0] & SAMPLED != 0 })
    }
}

fn is_lower(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn read<const N: usize>(part: Option<&str>) -> Result<[u8; N], InvalidTraceContext> {
    let mut bytes = [0; N];
    hex::decode_to_slice(part.unwrap_or_default(), &mut bytes).map_err(|_| InvalidTraceContext)?;
    Ok(bytes)
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// As a `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", hex::encode(self.trace), self.span, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn job(number: u128) -> JobId {
        JobId(Uuid::from_u128(number))
    }

    #[test]
    fn a_context_reads_back_what_it_prints() {
        let read: TraceContext = GIVEN.parse().unwrap();
        assert!(read.sampled);
        assert_eq!(read.to_string(), GIVEN);
        let own = TraceContext::of_job(job(1), false);
        assert_eq!(own.to_string().parse(), Ok(own));
        assert!(own.to_string().ends_with("-00"));
    }

    #[test]
    fn a_later_version_is_read_as_far_as_this_one_goes() {
        let later = GIVEN.replacen("00", "01", 1);
        assert_eq!(later.parse::<TraceContext>(), GIVEN.parse());
        assert_eq!(format!("{later}-more").parse::<TraceContext>(), GIVEN.parse());
        let more_flags = GIVEN.replace("-01", "-03");
        assert_eq!(more_flags.parse::<TraceContext>(), GIVEN.parse());
    }

    #[test]
    fn what_is_no_context_is_refused() {
        let zero_trace = GIVEN.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
        let zero_span = GIVEN.replace("b7ad6b7169203331", &"0".repeat(16));
        let forbidden = GIVEN.replacen("00", "ff", 1);
        let (upper, longer) = (GIVEN.to_uppercase(), format!("{GIVEN}-more"));
        let moved = "00-0af7651916cd43dd8448eb211c8031-9cb7ad6b7169203331-01";
        for wrong in ["", "00-aa-bb-01", &zero_trace, &zero_span, &forbidden, &upper, &longer, moved, "ä"] {
            assert_eq!(wrong.parse::<TraceContext>(), Err(InvalidTraceContext), "{wrong}");
        }
    }

    #[test]
    fn spans_follow_from_what_they_are_of_and_differ() {
        let of = |number, run| SpanId::of_run(job(number), Run(run));
        assert_eq!(of(1, 1), of(1, 1));
        let spans = [
            of(1, 1),
            of(1, 2),
            of(2, 1),
            SpanId::of_admission(job(1)),
            SpanId::of_effect(job(1), Run(1), "push", 7),
            SpanId::of_effect(job(1), Run(1), "push", 8),
        ];
        for (place, span) in spans.iter().enumerate() {
            assert!(!spans[..place].contains(span), "{span}");
        }
    }
}
