//! Values that lie beside records: what stands for one in the hashed bytes, how a new one comes, and where one is found later. A
//! value may be erased, and the chain still verifies. Neighbours: `record` names them, `chain` hashes them.

use serde::{Deserialize, Serialize};

use crate::{chain::value_digest, id::Digest, limits::VALUE_MAX_BYTES};

/// What stands inside the hashed bytes for a value beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueRef {
    /// SHA-256(salt ‖ value).
    pub sha256: Digest,
    /// The length of the value.
    pub bytes: u64,
}

/// A value that lies beside a record, with the salt that its digest includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaltedValue {
    /// The value.
    pub value: Vec<u8>,
    /// 16 random bytes.
    pub salt: [u8; 16],
}

impl SaltedValue {
    /// What stands for it in the hashed bytes.
    #[must_use]
    pub fn reference(&self) -> ValueRef {
        ValueRef { sha256: value_digest(&self.salt, &self.value), bytes: self.value.len() as u64 }
    }
}

/// A value whose place may be the blob store: an input or a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewValue {
    /// It comes with its record, and lies in the same row.
    Beside(SaltedValue),
    /// It lies in the blob store already, and is bound to the job.
    Blob(ValueRef),
}

/// A value as it is found later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptValue {
    /// It lies beside its record.
    Beside(Vec<u8>),
    /// It lies in the blob store.
    Blob(ValueRef),
    /// It was erased.
    Erased,
}

impl KeptValue {
    /// Tells from a record's reference and what lies in its row where the value is: only what a row does not take lies in the
    /// blob store.
    #[must_use]
    pub fn find(reference: ValueRef, beside: Option<Vec<u8>>) -> Self {
        match beside {
            Some(value) => Self::Beside(value),
            None if reference.is_blob() => Self::Blob(reference),
            None => Self::Erased,
        }
    }
}

impl ValueRef {
    /// True where a row does not take it, so that it lies in the blob store.
    #[must_use]
    pub const fn is_blob(&self) -> bool {
        self.bytes > VALUE_MAX_BYTES
    }
}
