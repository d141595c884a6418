//! What must be unguessable or unique: ids, secrets, salts. The one place where this crate draws randomness. Ids are
//! UUIDv7 whose time is the database's as measured, because tables are partitioned by it. Neighbours: `clock`.

use jiff::Timestamp;
use tenure_core::{
    credential::Token,
    id::{Digest, JobId, SessionId},
};
use uuid::{Builder, Uuid};

/// A secret; what is stored of it is its digest.
#[derive(Clone)]
pub(crate) struct Secret(Vec<u8>);

impl Secret {
    /// A new one of 32 bytes.
    pub(crate) fn mint() -> Self {
        Self(rand::random::<[u8; 32]>().to_vec())
    }

    /// One that was composed elsewhere.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The secret itself, for its one holder.
    pub(crate) fn expose(&self) -> Vec<u8> {
        self.0.clone()
    }

    /// What is stored.
    pub(crate) fn hash(&self) -> [u8; 32] {
        hash_secret(&self.0)
    }
}

/// How much of a run's secret is drawn at random; the rest is a mark of the installation.
pub(crate) const RUN_RANDOM_BYTES: usize = 16;

/// What is random in the secret of one run.
pub(crate) fn mint_run_bytes() -> [u8; RUN_RANDOM_BYTES] {
    rand::random()
}

/// What is stored of a secret, and compared with what is presented.
pub(crate) fn hash_secret(presented: &[u8]) -> [u8; 32] {
    Digest::of(presented).0
}

/// A new token, for whoever gives credentials out. It is known to nobody else: what is kept of it is its digest.
#[must_use]
pub fn mint_token() -> Token {
    Token::from_random(rand::random(), rand::random())
}

/// The id of a job admitted now.
pub(crate) fn mint_job_id(now: Timestamp) -> JobId {
    JobId(mint_uuid(now))
}

/// The id of a session that starts now.
pub(crate) fn mint_session_id(now: Timestamp) -> SessionId {
    SessionId(mint_uuid(now))
}

/// The salt of one value.
pub(crate) fn mint_salt() -> [u8; 16] {
    rand::random()
}

/// A value with a salt of its own.
pub(crate) fn salt_value(value: Vec<u8>) -> tenure_core::record::SaltedValue {
    tenure_core::record::SaltedValue { value, salt: mint_salt() }
}

fn mint_uuid(now: Timestamp) -> Uuid {
    let since_epoch_ms = u64::try_from(now.as_millisecond()).unwrap_or(0);
    Builder::from_unix_timestamp_millis(since_epoch_ms, &rand::random()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_seven_and_bear_the_given_time() {
        let now: Timestamp = "2026-11-30T10:00:00.123456Z".parse().unwrap();
        let id = mint_job_id(now).0;
        assert_eq!(id.get_version_num(), 7);
        let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
        assert_eq!((i64::try_from(seconds).unwrap(), nanos), (now.as_second(), 123_000_000));
    }

    #[test]
    fn what_is_stored_of_a_secret_is_not_the_secret() {
        let secret = Secret::mint();
        assert_ne!(secret.hash().to_vec(), secret.expose());
        assert_eq!(hash_secret(&secret.expose()), secret.hash());
    }
}
