//! Verifies a job's chain from the stored bytes alone, as the client does: it never serialises a record anew, and a kind
//! that this release does not know is no error. What it finds is named by seq. A value that was erased cannot be checked
//! and is counted; the chain verifies without it. It fetches nothing: records are pushed in order. Neighbours: `chain`
//! (the hash), `record` (what is inside).

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    chain::{Head, value_digest},
    id::{Digest, Epoch, Generation, JobId, Seq, Tenant},
    record::ValueRef,
};

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The position at which it is stored.
    pub seq: Seq,
    /// What was hashed.
    pub bytes: Vec<u8>,
    /// The hash that is stored with it.
    pub hash: Digest,
    /// What lies beside it, where it does.
    pub value: Option<Vec<u8>>,
    /// The salt of the value.
    pub salt: Option<Vec<u8>>,
}

/// A chain that verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Its last position and hash.
    pub head: Head,
    /// Values beside records that were checked.
    pub values_checked: u64,
    /// Values that are named in records and were not there to be checked.
    pub values_absent: u64,
}

/// What is wrong with a chain, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seq {seq}: {flaw}")]
pub struct Finding {
    /// The position that is named.
    pub seq: Seq,
    /// What is wrong there.
    pub flaw: ChainFlaw,
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainFlaw {
    /// It is not there.
    Missing,
    /// It is there twice, or after a later one.
    OutOfOrder,
    /// Its bytes are no record.
    Unreadable(String),
    /// It is a record of another job.
    Spliced {
        /// Of which.
        of: String,
    },
    /// It is the record of another position.
    Moved {
        /// Of which.
        from: Seq,
    },
    /// Its bytes or its hash were changed, or those of its predecessor.
    Edited,
    /// Its epoch or generation is lower than its predecessor's.
    EpochFell,
    /// Its time is before its predecessor's.
    TimeFell,
    /// The value beside it is not the one that it names.
    ValueEdited,
    /// The head that was noted when the job concluded is another one.
    HeadDiffers,
}

impl fmt::Display for ChainFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the record is missing"),
            Self::OutOfOrder => f.write_str("the record is repeated or out of order"),
            Self::Unreadable(words) => write!(f, "the bytes are no record: {words}"),
            Self::Spliced { of } => write!(f, "the record belongs to another job, {of}"),
            Self::Moved { from } => write!(f, "the record of seq {from} stands here"),
            Self::Edited => f.write_str("the record was edited: its hash does not follow from its bytes"),
            Self::EpochFell => f.write_str("the epoch is lower than the one before"),
            Self::TimeFell => f.write_str("the time is before that of the record before"),
            Self::ValueEdited => f.write_str("the value beside the record was edited"),
            Self::HeadDiffers => {
                f.write_str("the record is not the one that was noted when the job concluded")
            }
        }
    }
}

/// Verifies a whole chain. `concluded_head` is the head as it was noted outside the chain at the last conclusion.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify_chain(
    records: impl IntoIterator<Item = StoredRecord>,
    concluded_head: Option<Head>,
    tenant: &Tenant,
    job: JobId,
) -> Result<Verified, Finding> {
    let mut verifier = ChainVerifier::new(tenant.clone(), job, concluded_head);
    records.into_iter().try_for_each(|record| verifier.push(&record))?;
    verifier.finish()
}

/// Verifies a chain that comes in pages.
#[derive(Debug, Clone)]
pub struct ChainVerifier {
    tenant: Tenant,
    job: JobId,
    concluded_head: Option<Head>,
    state: Verified,
    last: Option<Envelope>,
}

/// What every record has, whatever its kind; the rest is searched for a reference to a value.
#[derive(Debug, Clone, Deserialize)]
struct Envelope {
    tenant: String,
    job: JobId,
    seq: Seq,
    generation: Generation,
    epoch: Epoch,
    at: Timestamp,
    #[serde(flatten)]
    fields: serde_json::Map<String, serde_json::Value>,
}

impl Envelope {
    fn value_ref(&self) -> Option<ValueRef> {
        self.fields.values().find_map(|field| serde_json::from_value(field.clone()).ok())
    }
}

impl ChainVerifier {
    /// A verifier that has seen nothing.
    #[must_use]
    pub fn new(tenant: Tenant, job: JobId, concluded_head: Option<Head>) -> Self {
        let state = Verified { head: Head::genesis(), values_checked: 0, values_absent: 0 };
        Self { tenant, job, concluded_head, state, last: None }
    }

    /// Checks the next record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn push(&mut self, record: &StoredRecord) -> Result<(), Finding> {
        let expected = self.state.head.seq.next();
        if record.seq > expected {
            return Err(Finding { seq: expected, flaw: ChainFlaw::Missing });
        }
        let at = |flaw| Finding { seq: record.seq, flaw };
        if record.seq < expected {
            return Err(at(ChainFlaw::OutOfOrder));
        }
        let envelope = self.check_bytes(record).map_err(at)?;
        self.check_value(&envelope, record).map_err(at)?;
        let head = Head { seq: record.seq, hash: record.hash };
        if self.concluded_head.is_some_and(|concluded| concluded.seq == head.seq && concluded != head) {
            return Err(at(ChainFlaw::HeadDiffers));
        }
        self.state.head = head;
        self.last = Some(envelope);
        Ok(())
    }

    /// Says that there are no more records.
    ///
    /// # Errors
    /// Records are missing at the end, or there are none.
    pub fn finish(self) -> Result<Verified, Finding> {
        let head = self.state.head;
        let least = self.concluded_head.map_or(Seq(1), |concluded| concluded.seq.max(Seq(1)));
        if head.seq < least {
            return Err(Finding { seq: head.seq.next(), flaw: ChainFlaw::Missing });
        }
        Ok(self.state)
    }

    fn check_bytes(&self, record: &StoredRecord) -> Result<Envelope, ChainFlaw> {
        let hash_follows = self.state.head.extend(&record.bytes).hash == record.hash;
        let envelope: Envelope = serde_json::from_slice(&record.bytes).map_err(|error| {
            if hash_follows { ChainFlaw::Unreadable(error.to_string()) } else { ChainFlaw::Edited }
        })?;
        if envelope.job != self.job || envelope.tenant != self.tenant.as_str() {
            return Err(ChainFlaw::Spliced { of: envelope.job.to_string() });
        }
        if envelope.seq != record.seq {
            return Err(ChainFlaw::Moved { from: envelope.seq });
        }
        if !hash_follows {
            return Err(ChainFlaw::Edited);
        }
        match &self.last {
            Some(last) if envelope.epoch < last.epoch || envelope.generation < last.generation => {
                Err(ChainFlaw::EpochFell)
            }
            Some(last) if envelope.at < last.at => Err(ChainFlaw::TimeFell),
            Some(_) | None => Ok(envelope),
        }
    }

    fn check_value(&mut self, envelope: &Envelope, record: &StoredRecord) -> Result<(), ChainFlaw> {
        match (envelope.value_ref(), &record.value) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(ChainFlaw::ValueEdited),
            (Some(_), None) => {
                self.state.values_absent += 1;
                Ok(())
            }
            (Some(reference), Some(value)) => {
                let salt = record.salt.as_deref().unwrap_or_default();
                let named = ValueRef { sha256: value_digest(salt, value), bytes: value.len() as u64 };
                if named != reference {
                    return Err(ChainFlaw::ValueEdited);
                }
                self.state.values_checked += 1;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
