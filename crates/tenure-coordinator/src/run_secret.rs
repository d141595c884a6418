//! The secrets of runs. Each is 16 random bytes and a mark of 16 that only coordinators of this installation can make, by a key
//! that lies in the database and is read at the start. The mark is of one run alone: its tenant, job and epoch. So a report
//! that bears a made-up secret, or the secret of another run, is refused from memory, before any statement, and whoever has
//! an old secret learns nothing about other runs. What is stored, by the claim, is the digest of the random bytes: they are
//! drawn before it is known which run they are for. Neighbours: `dispatch` and `submission` draw them, `grant` marks
//! them, `gone` and `server/effects` look at what is presented.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tenure_core::id::{Epoch, JobId, Tenant};

use crate::mint::{RUN_RANDOM_BYTES, Secret, hash_secret, mint_run_bytes};

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

    /// What is random in the secret of a run that is not known yet.
    pub(crate) fn mint(&self) -> Secret {
        Secret::of(mint_run_bytes().to_vec())
    }

    /// The secret of this run, for its one holder.
    pub(crate) fn mark(&self, random: &Secret, tenant: &Tenant, job: JobId, epoch: Epoch) -> Vec<u8> {
        let mut secret = random.expose();
        let mark = self.keyed_with(&secret, tenant, job, epoch).finalize().into_bytes();
        secret.extend(mark.iter().take(MARK_BYTES));
        secret
    }

    /// What the claim stored of a secret that a coordinator of this installation marked for this run; none for every other.
    /// Takes the same time for every wrong mark.
    pub(crate) fn read(
        &self,
        presented: &[u8],
        tenant: &Tenant,
        job: JobId,
        epoch: Epoch,
    ) -> Option<[u8; 32]> {
        let (random, mark) = presented.split_at_checked(RUN_RANDOM_BYTES)?;
        if mark.len() != MARK_BYTES {
            return None;
        }
        self.keyed_with(random, tenant, job, epoch).verify_truncated_left(mark).ok()?;
        Some(hash_secret(random))
    }

    /// All but the last has a fixed length.
    fn keyed_with(&self, random: &[u8], tenant: &Tenant, job: JobId, epoch: Epoch) -> Hmac<Sha256> {
        self.keyed
            .clone()
            .chain_update(random)
            .chain_update(job.0.as_bytes())
            .chain_update(epoch.0.to_be_bytes())
            .chain_update(tenant.as_str())
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

    const JOB: JobId = JobId(uuid::Uuid::from_u128(7));

    fn tenant(name: &str) -> Tenant {
        name.parse().unwrap()
    }

    #[test]
    fn a_secret_is_known_to_whoever_has_the_key_and_to_nobody_else() {
        let (ours, theirs) = (RunSecrets::of_installation([1; 32]), RunSecrets::of_installation([2; 32]));
        let random = ours.mint();
        let secret = ours.mark(&random, &tenant("acme"), JOB, Epoch(3));
        let read = |by: &RunSecrets| by.read(&secret, &tenant("acme"), JOB, Epoch(3));
        assert_eq!(read(&ours), Some(random.hash()), "what the claim stored");
        assert_eq!(read(&RunSecrets::of_installation([1; 32])), Some(random.hash()), "another coordinator");
        assert_eq!(read(&theirs), None);
        assert_ne!(ours.mint().expose(), random.expose());
    }

    #[test]
    fn a_secret_is_of_one_run_alone() {
        let ours = RunSecrets::of_installation([1; 32]);
        let secret = ours.mark(&ours.mint(), &tenant("acme"), JOB, Epoch(3));
        let other = JobId(uuid::Uuid::from_u128(8));
        for (name, job, epoch) in [("acme", JOB, 2), ("acme", JOB, 4), ("acme", other, 3), ("acm", JOB, 3)] {
            assert_eq!(ours.read(&secret, &tenant(name), job, Epoch(epoch)), None, "{name} {job} {epoch}");
        }
    }

    #[test]
    fn what_was_not_minted_is_not_known_whatever_its_length() {
        let ours = RunSecrets::of_installation([1; 32]);
        let known = |secret: &[u8]| ours.read(secret, &tenant("acme"), JOB, Epoch(3)).is_some();
        let secret = ours.mark(&ours.mint(), &tenant("acme"), JOB, Epoch(3));
        assert!(known(&secret));
        for length in 0..secret.len() {
            assert!(!known(&secret[..length]), "{length}");
        }
        for place in 0..secret.len() {
            let mut wrong = secret.clone();
            wrong[place] ^= 1;
            assert!(!known(&wrong), "{place}");
        }
        assert!(!known(&[secret, vec![0]].concat()));
    }
}
