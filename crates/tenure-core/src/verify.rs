//! Verifies a job's chain from the stored bytes alone, as the client does: it never serialises a record anew, and a kind
//! that this release does not know is no error. What it finds is named by seq. A value that was erased cannot be checked
//! and is counted, and the chain verifies without it, where a later record says that it was erased. It fetches nothing: records are pushed in order. Neighbours: `chain`
//! (the hash), `record` (what is inside).

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    chain::{Head, value_digest},
    id::{Digest, Epoch, Generation, JobId, Seq, Tenant},
    record::{ErasedPart, ValueRef},
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Its last position and hash.
    pub head: Head,
    /// Values beside records that were checked.
    pub values_checked: u64,
    /// Values that were erased, as records say, and are not there to be checked.
    pub values_erased: u64,
    /// Values that lie in the blob store and were not erased: whoever verifies reads and checks them one by one.
    pub blobs: Vec<NamedBlob>,
}

/// A value in the blob store, and the record that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedBlob {
    /// The position of the record.
    pub seq: Seq,
    /// How the record names it.
    pub reference: ValueRef,
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
    /// The value that it names is not there, and no record says that it was erased.
    ValueMissing,
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
            Self::ValueMissing => f.write_str(
                "the value that the record names is missing, and no record says that it was erased",
            ),
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
    input: Absence,
    output: Absence,
}

/// Values that are not there, of one of the two parts that are erased together. Erasing a part erases all of it that was
/// written until then, so one record settles all that are absent before it.
#[derive(Debug, Clone, Copy, Default)]
struct Absence {
    /// The first that no record accounts for yet.
    first: Option<Seq>,
    count: u64,
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

    fn erased_part(&self) -> Option<ErasedPart> {
        serde_json::from_value(self.fields.get("erased")?.clone()).ok()
    }

    /// The part to which the value belongs that the record names.
    fn part(&self) -> ErasedPart {
        let admits = self.fields.get("kind").is_some_and(|kind| kind == "job_admitted");
        if admits { ErasedPart::Input } else { ErasedPart::Output }
    }
}

impl ChainVerifier {
    /// A verifier that has seen nothing.
    #[must_use]
    pub fn new(tenant: Tenant, job: JobId, concluded_head: Option<Head>) -> Self {
        let state =
            Verified { head: Head::genesis(), values_checked: 0, values_erased: 0, blobs: Vec::new() };
        let (input, output) = (Absence::default(), Absence::default());
        Self { tenant, job, concluded_head, state, last: None, input, output }
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
    /// Records are missing at the end, or there are none; a value is missing that was not erased.
    pub fn finish(self) -> Result<Verified, Finding> {
        let head = self.state.head;
        let least = self.concluded_head.map_or(Seq(1), |concluded| concluded.seq.max(Seq(1)));
        if head.seq < least {
            return Err(Finding { seq: head.seq.next(), flaw: ChainFlaw::Missing });
        }
        match [self.input.first, self.output.first].into_iter().flatten().min() {
            Some(seq) => Err(Finding { seq, flaw: ChainFlaw::ValueMissing }),
            None => Ok(self.state),
        }
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
        if let Some(part) = envelope.erased_part() {
            self.note_erasure(part);
        }
        match (envelope.value_ref(), &record.value) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(ChainFlaw::ValueEdited),
            (Some(reference), None) => {
                self.note_absence(envelope.part(), NamedBlob { seq: record.seq, reference });
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

impl ChainVerifier {
    fn note_absence(&mut self, part: ErasedPart, named: NamedBlob) {
        if named.reference.is_blob() {
            self.state.blobs.push(named);
            return;
        }
        let absence = self.absence(part);
        absence.first.get_or_insert(named.seq);
        absence.count += 1;
    }

    fn note_erasure(&mut self, part: ErasedPart) {
        let Absence { count, .. } = std::mem::take(self.absence(part));
        let before = self.state.blobs.len();
        // The input is what the first record names.
        self.state.blobs.retain(|blob| (blob.seq == Seq(1)) != (part == ErasedPart::Input));
        self.state.values_erased += count + (before - self.state.blobs.len()) as u64;
    }

    fn absence(&mut self, part: ErasedPart) -> &mut Absence {
        match part {
            ErasedPart::Input => &mut self.input,
            ErasedPart::Output => &mut self.output,
        }
    }
}

#[cfg(test)]
mod tests;
