//! How drafts become the bytes that are hashed and stored: each gets its position, its time and its hash, and what is too
//! large is refused before anything is written.

use jiff::Timestamp;

use super::{BalanceMark, Draft, Record, RecordKind, SaltedValue};
use crate::{
    chain::Head,
    effect::EffectMark,
    id::{Digest, Epoch, Generation, JobId, Run, Seq, Tenant},
    limits::{RECORD_MAX_BYTES, VALUE_MAX_BYTES},
};

/// Under what a group of records is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Whose.
    pub tenant: Tenant,
    /// Which job.
    pub job: JobId,
    /// The number of the database's history.
    pub generation: Generation,
    /// The epoch.
    pub epoch: Epoch,
    /// The run.
    pub run: Run,
}

/// A record with its position, ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedRecord {
    /// The position.
    pub seq: Seq,
    /// The epoch, as in the bytes.
    pub epoch: Epoch,
    /// The run, as in the bytes.
    pub run: Run,
    /// The number of the database's history, as in the bytes.
    pub generation: Generation,
    /// The kind, as in the bytes.
    pub kind: &'static str,
    /// The time, as in the bytes.
    pub at: Timestamp,
    /// What is hashed and stored.
    pub bytes: Vec<u8>,
    /// SHA-256(prev_hash ‖ bytes).
    pub hash: Digest,
    /// What lies beside it.
    pub value: Option<SaltedValue>,
    /// What it says about an effect; the effect's row follows from it.
    pub effect: Option<EffectMark>,
    /// What it changes in the session's balance.
    pub balance: Option<BalanceMark>,
}

/// A record that is not to be written.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The record is beyond its limit.
    #[error("the {kind} record has {bytes} bytes, and at most {RECORD_MAX_BYTES} are taken")]
    RecordTooLarge {
        /// Its kind.
        kind: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// The value beside it is beyond its limit.
    #[error("the value beside the {kind} record has {bytes} bytes, and at most {VALUE_MAX_BYTES} are taken")]
    ValueTooLarge {
        /// The kind of the record.
        kind: &'static str,
        /// The value's size.
        bytes: usize,
    },
    /// An announcement does not say what is performed.
    #[error("the {kind} record comes without the digest of what is performed")]
    RequestMissing {
        /// Its kind.
        kind: &'static str,
    },
    /// The record could not be written as JSON.
    #[error("writing a {kind} record as JSON")]
    Serialize {
        /// Its kind.
        kind: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

/// Gives drafts their positions after `head`, at the time `at` (the caller has raised it to the predecessor's), of which
/// whole microseconds are kept, as the database keeps them.
///
/// # Errors
/// A record or the value beside it is beyond its limit.
pub fn seal_records(
    header: &Header,
    mut head: Head,
    at: Timestamp,
    drafts: Vec<Draft>,
) -> Result<Vec<SealedRecord>, SealError> {
    let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
    drafts
        .into_iter()
        .map(|draft| {
            let sealed = seal_record(header, head, at, draft)?;
            head = Head { seq: sealed.seq, hash: sealed.hash };
            Ok(sealed)
        })
        .collect()
}

fn seal_record(header: &Header, head: Head, at: Timestamp, draft: Draft) -> Result<SealedRecord, SealError> {
    let kind = draft.kind.name();
    if let Some(value) = &draft.value
        && value.value.len() as u64 > VALUE_MAX_BYTES
    {
        return Err(SealError::ValueTooLarge { kind, bytes: value.value.len() });
    }
    let effect = draft.kind.effect_mark(draft.request);
    if effect.is_none() && matches!(draft.kind, RecordKind::EffectStarted { .. }) {
        return Err(SealError::RequestMissing { kind });
    }
    let balance = draft.kind.balance_mark(draft.phase);
    let record = Record {
        tenant: header.tenant.clone(),
        job: header.job,
        seq: head.seq.next(),
        generation: header.generation,
        epoch: header.epoch,
        run: header.run,
        step: None,
        phase: draft.phase,
        case: None,
        at,
        kind: draft.kind,
    };
    let bytes = serde_json::to_vec(&record).map_err(|source| SealError::Serialize { kind, source })?;
    if bytes.len() > RECORD_MAX_BYTES {
        return Err(SealError::RecordTooLarge { kind, bytes: bytes.len() });
    }
    let next = head.extend(&bytes);
    Ok(SealedRecord {
        seq: next.seq,
        epoch: header.epoch,
        run: header.run,
        generation: header.generation,
        kind,
        at,
        bytes,
        hash: next.hash,
        value: draft.value,
        effect,
        balance,
    })
}
