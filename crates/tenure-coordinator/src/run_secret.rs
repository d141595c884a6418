//! The secrets of runs. Each is 16 random bytes and a mark of 16 that only coordinators of this installation can make, by a key
//! that lies in the database and is read at the start. So a report that bears a made-up secret is refused from memory,
//! before any statement; whose run a secret is, and whether it is the run's own, is said by what the claim stored of it.
//! Neighbours: `dispatch` and `submission` mint one for each run, `gone` and `server/effects` look at what is presented.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::mint::{RUN_RANDOM_BYTES, Secret, mint_run_bytes};

/// How much of the mark is kept.
const MARK_BYTES: usize = 16;
/// What the key is used for, so that it may have other uses.
const PURPOSE: &[u8] = b"run secret\0";

/// Who mints secrets of runs, and knows its own. Clones share the key.
#[derive(Clone)]
pub(crate) struct RunSecrets {
    keyed: Hmac<Sha256>,
}

impl RunSecrets {
    /// With the key of the installation.
    pub(crate) fn of_installation(key: [u8; 32]) -> Self {
        let mut keyed = Hmac::new(&key_block(key));
        keyed.update(PURPOSE);
        Self { keyed }
    }

    /// A secret for one run.
    pub(crate) fn mint(&self) -> Secret {
        let mut secret = mint_run_bytes().to_vec();
        let mark = self.keyed.clone().chain_update(&secret).finalize().into_bytes();
        secret.extend(mark.iter().take(MARK_BYTES));
        Secret::of(secret)
    }

    /// True of one that a coordinator of this installation minted. Takes the same time for every wrong mark.
    pub(crate) fn are_ours(&self, presented: &[u8]) -> bool {
        presented.len() == RUN_RANDOM_BYTES + MARK_BYTES
            && presented.split_at_checked(RUN_RANDOM_BYTES).is_some_and(|(random, mark)| {
                self.keyed.clone().chain_update(random).verify_truncated_left(mark).is_ok()
            })
    }
}

impl std::fmt::Debug for RunSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunSecrets").finish_non_exhaustive()
    }
}

/// A key shorter than a block stands at its beginning.
fn key_block(key: [u8; 32]) -> hmac::digest::Key<Hmac<Sha256>> {
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block.iter_mut().zip(key).for_each(|(to, from)| *to = from);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_to_whoever_has_the_key_and_to_nobody_else() {
        let (ours, theirs) = (RunSecrets::of_installation([1; 32]), RunSecrets::of_installation([2; 32]));
        let secret = ours.mint().expose();
        assert!(ours.are_ours(&secret));
        assert!(RunSecrets::of_installation([1; 32]).are_ours(&secret), "another coordinator");
        assert!(!theirs.are_ours(&secret));
        assert_ne!(ours.mint().expose(), secret);
    }

    #[test]
    fn what_was_not_minted_is_not_known_whatever_its_length() {
        let ours = RunSecrets::of_installation([1; 32]);
        let secret = ours.mint().expose();
        for length in 0..secret.len() {
            assert!(!ours.are_ours(&secret[..length]), "{length}");
        }
        for place in 0..secret.len() {
            let mut wrong = secret.clone();
            wrong[place] ^= 1;
            assert!(!ours.are_ours(&wrong), "{place}");
        }
        assert!(!ours.are_ours(&[secret, vec![0]].concat()));
    }
}
