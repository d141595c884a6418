//! The hash chain over a job's records: hash = SHA-256(prev_hash ‖ bytes). The bytes are the stored ones; nothing here
//! serialises a record in order to check it, so anybody can verify a chain in any language, and a later release that
//! reads an old record in a new shape does not change its hash.

use crate::id::{Digest, Seq};

/// What is hashed to give the `prev_hash` of seq 1.
pub const GENESIS_LABEL: &[u8] = b"tenure journal v1";

/// The last position of a journal and its hash. Seq 0 stands for an empty journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The seq of the last record; 0 where there is none.
    pub seq: Seq,
    /// Its hash; the genesis hash where there is none.
    pub hash: Digest,
}

impl Head {
    /// The head of an empty journal.
    #[must_use]
    pub fn genesis() -> Self {
        Self { seq: Seq(0), hash: Digest::of(GENESIS_LABEL) }
    }

    /// The head after one more record.
    #[must_use]
    pub fn extend(self, bytes: &[u8]) -> Self {
        Self { seq: self.seq.next(), hash: Digest::of_both(&self.hash.0, bytes) }
    }
}

/// SHA-256(salt ‖ value): what stands inside the hashed bytes for a value that lies beside them.
#[must_use]
pub fn value_digest(salt: &[u8], value: &[u8]) -> Digest {
    Digest::of_both(salt, value)
}
