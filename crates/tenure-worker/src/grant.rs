//! A run to carry out, as it came from the coordinator, and whether this worker may start it. It decides from values
//! alone: the term and attach number that stand, the clock, the generation. Whether the run is held already, was refused
//! before or finds a slot is asked of `held_runs` afterwards.

use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use tenure_core::{
    handover::Cause,
    id::{Attach, Generation, Seq, Term},
    record::{Phase, ValueRef},
    run_ref::RunRef,
    trace::{SpanId, TraceContext},
};
use tenure_proto::{
    convert::{
        InvalidField,
        blob::read_blob_ref,
        id::read_bytes_32,
        require,
        run::read_run_ref,
        time::{read_optional_timestamp, read_timestamp},
    },
    v1,
};

use crate::guardian::{BootInstant, RunSecret};

/// A run to carry out.
#[derive(Debug, Clone)]
pub(crate) struct RunGrant {
    pub(crate) run: RunRef,
    pub(crate) term: Term,
    pub(crate) attach: Attach,
    pub(crate) secret: RunSecret,
    pub(crate) agent: String,
    pub(crate) declaration: Bytes,
    pub(crate) input: GrantInput,
    pub(crate) handover: Bytes,
    pub(crate) brief: String,
    pub(crate) preamble: String,
    pub(crate) deadline_at: Option<Timestamp>,
    /// When the session started. None: the coordinator is of an earlier release.
    pub(crate) session_started_at: Option<Timestamp>,
    /// The database's time when the grant was written.
    pub(crate) now: Timestamp,
    /// When the grant arrived here: since then the database's time is counted on.
    pub(crate) arrived: BootInstant,
    /// The position of the record that started the run.
    pub(crate) seq: Seq,
    /// The job's trace at its admission; none: the coordinator gave none that can be read.
    pub(crate) trace: Option<TraceContext>,
    pub(crate) attempt: u32,
    /// The direction in which the run works: one that compensates undoes what the job has done, and starts no agent.
    pub(crate) phase: Phase,
}

/// What a grant has to bear at this moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrantTerms {
    pub(crate) term: Term,
    pub(crate) attach: Attach,
    pub(crate) generation: Generation,
    pub(crate) latest_start: BootInstant,
    pub(crate) now: BootInstant,
}

/// Why a grant starts nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GrantRefusal {
    #[error("the grant is of term {given}, and the present one is {present}")]
    OtherTerm { given: Term, present: Term },
    #[error("the grant is of attach {given}, and the present one is {present}")]
    OtherAttach { given: Attach, present: Attach },
    #[error("the grant is of generation {given}, and the worker registered under {present}")]
    OlderGeneration { given: Generation, present: Generation },
    #[error(
        "the grant arrived too late: a child would have to end at once, before the worker's local deadline"
    )]
    Late,
}

/// What a job is given, as its grant says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GrantInput {
    /// All of it.
    Bytes(Bytes),
    /// It is to be fetched.
    Blob(ValueRef),
    /// It was erased: nothing starts from it.
    Erased,
}

fn read_input(bytes: Bytes, blob: Option<&v1::BlobRef>, is_erased: bool) -> Result<GrantInput, InvalidField> {
    match blob {
        Some(blob) => Ok(GrantInput::Blob(read_blob_ref("input_blob", blob)?)),
        None if is_erased => Ok(GrantInput::Erased),
        None => Ok(GrantInput::Bytes(bytes)),
    }
}

impl RunGrant {
    /// Reads a grant.
    pub(crate) fn read(grant: v1::Grant, arrived: BootInstant) -> Result<Self, InvalidField> {
        let (phase, declaration) = match grant.unwinding {
            None => (Phase::Forward, grant.declaration),
            Some(unwinding) => (Phase::Compensating, unwinding.declaration),
        };
        Ok(Self {
            phase,
            declaration,
            run: read_run_ref(grant.run.as_ref())?,
            term: Term(grant.term),
            attach: Attach(grant.attach),
            secret: RunSecret::from_bytes(read_bytes_32("secret", &grant.secret)?),
            agent: grant.agent,
            input: read_input(grant.input, grant.input_blob.as_ref(), grant.input_erased)?,
            handover: grant.handover,
            brief: grant.brief,
            preamble: grant.preamble,
            deadline_at: read_optional_timestamp("deadline_at", grant.deadline_at.as_ref())?,
            session_started_at: read_optional_timestamp(
                "session_started_at",
                grant.session_started_at.as_ref(),
            )?,
            now: read_timestamp("now", require("now", grant.now.as_ref())?)?,
            arrived,
            seq: Seq(grant.seq),
            trace: grant.traceparent.parse().ok(),
            attempt: grant.attempt,
        })
    }

    /// Whether it may start anything.
    pub(crate) fn admit(&self, terms: GrantTerms) -> Result<(), GrantRefusal> {
        if self.term != terms.term {
            return Err(GrantRefusal::OtherTerm { given: self.term, present: terms.term });
        }
        if self.attach != terms.attach {
            return Err(GrantRefusal::OtherAttach { given: self.attach, present: terms.attach });
        }
        if self.run.generation < terms.generation {
            return Err(GrantRefusal::OlderGeneration {
                given: self.run.generation,
                present: terms.generation,
            });
        }
        if terms.now >= terms.latest_start {
            return Err(GrantRefusal::Late);
        }
        Ok(())
    }

    /// The trace at this run: the parent of whatever the run does.
    pub(crate) fn run_trace(&self) -> Option<TraceContext> {
        self.trace.map(|trace| trace.at(SpanId::of_run(self.run.job, self.run.run)))
    }

    /// Why the run starts, as its handover says.
    pub(crate) fn cause(&self) -> Cause {
        #[derive(Deserialize)]
        struct Handover {
            cause: Cause,
        }
        let read: Result<Handover, _> = serde_json::from_slice(&self.handover);
        read.map_or(Cause::Dispatch, |handover| handover.cause)
    }

    /// The database's time at an instant of this host's clock, as far as it can be told here.
    pub(crate) fn database_time(&self, at: BootInstant) -> Timestamp {
        let since = at.since(self.arrived);
        self.now.checked_add(since).unwrap_or(self.now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::factory::run_grant;

    const TERMS: GrantTerms = GrantTerms {
        term: Term(7),
        attach: Attach(2),
        generation: Generation(1),
        latest_start: BootInstant::from_nanoseconds(1_000),
        now: BootInstant::from_nanoseconds(999),
    };

    #[test]
    fn a_grant_of_this_attach_in_time_is_admitted() {
        assert_eq!(run_grant(1).admit(TERMS), Ok(()));
    }

    #[test]
    fn a_grant_of_another_term_attach_or_lower_generation_starts_nothing() {
        let other_term = GrantTerms { term: Term(8), ..TERMS };
        assert_eq!(
            run_grant(1).admit(other_term),
            Err(GrantRefusal::OtherTerm { given: Term(7), present: Term(8) })
        );
        let other_attach = GrantTerms { attach: Attach(3), ..TERMS };
        assert_eq!(
            run_grant(1).admit(other_attach),
            Err(GrantRefusal::OtherAttach { given: Attach(2), present: Attach(3) })
        );
        let newer = GrantTerms { generation: Generation(2), ..TERMS };
        assert!(matches!(run_grant(1).admit(newer), Err(GrantRefusal::OlderGeneration { .. })));
    }

    #[test]
    fn a_grant_at_the_latest_start_is_late() {
        let late = GrantTerms { now: TERMS.latest_start, ..TERMS };
        assert_eq!(run_grant(1).admit(late), Err(GrantRefusal::Late));
    }

    #[test]
    fn the_databases_time_is_counted_on_from_the_grant() {
        let grant = run_grant(1);
        let later = grant.database_time(grant.arrived.plus(Duration::from_secs(5)));
        assert_eq!(later, grant.now + Duration::from_secs(5));
    }
}
