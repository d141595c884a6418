//! The hash chain over a job's records: hash = SHA-256(prev_hash ‖ bytes). The bytes are the stored ones; nothing here
//! serialises a record in order to check it, so anybody can verify a chain in any language, and a later release that
//! reads an old record in a new shape does not change its hash.

use sha2::{Digest as _, Sha256};

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

/// The same of a value that comes in pieces.
#[derive(Debug, Clone)]
pub struct ValueDigest(Sha256);

impl ValueDigest {
    /// Nothing of the value has come.
    #[must_use]
    pub fn begin(salt: &[u8]) -> Self {
        Self(Sha256::new().chain_update(salt))
    }

    /// The next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest, once all of it came.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // These were computed with sha256sum, as anybody would who verifies a chain without this program.

    #[test]
    fn the_chain_begins_with_the_digest_of_its_label() {
        let genesis = Head::genesis();
        assert_eq!(genesis.seq, Seq(0));
        assert_eq!(
            genesis.hash.to_string(),
            "7a580fefd6629ed05a8e789b1a3a43976fac513c9bedd2e350039596c0518063"
        );
    }

    #[test]
    fn a_hash_is_of_the_one_before_and_the_bytes() {
        let head = Head::genesis().extend(br#"{"seq":1}"#);
        assert_eq!(head.seq, Seq(1));
        assert_eq!(head.hash.to_string(), "bd32bb9825aebae308d88f5d6c13d5730ac0e8b8023ea684c47eadd5bf4a0693");
    }

    #[test]
    fn a_digest_does_not_depend_on_the_pieces_in_which_a_value_came() {
        for cut in 0..=5 {
            let (first, second) = b"value".split_at(cut);
            let mut digest = ValueDigest::begin(b"salt");
            digest.add(first);
            digest.add(second);
            assert_eq!(digest.finish(), value_digest(b"salt", b"value"));
        }
    }

    #[test]
    fn a_values_digest_is_of_the_salt_and_the_value() {
        assert_eq!(
            value_digest(b"salt", b"value").to_string(),
            "d430a1da30afe1a9d07b3b36042151ebaf53c4882af1609733c04930de318e33"
        );
    }
}
