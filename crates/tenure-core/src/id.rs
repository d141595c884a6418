//! The names and numbers that everything is known by. Each is a type of its own, so that an epoch is never passed where
//! a seq is wanted. It mints nothing: ids are made by whoever has the database's clock and random bytes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::limits;

/// A name that does not have the form of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {given:?} is not of the form {form}")]
pub struct InvalidName {
    /// What kind of name, for example `agent name`.
    pub kind: &'static str,
    /// What was given.
    pub given: String,
    /// The form, as a regular expression.
    pub form: &'static str,
}

/// Defines a positive number with a meaning; `next` is one more.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The number after this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// The position of a record in a job's journal, from 1 and without gaps.
    Seq
}
number! {
    /// The number of a right to work on a job. It rises by one at every claim and settlement and never falls; 0 before the first.
    Epoch
}
number! {
    /// The number of the database's history: it rises when a failover may have lost some. From 1.
    Generation
}

impl Generation {
    /// None is the present one: the database is on another timeline than was noted, and nothing is written or permitted.
    pub const NONE: Self = Self(0);
}

number! {
    /// The number of a worker's term; rises with every registration in the installation.
    Term
}
number! {
    /// The number of an attach within a term, from 1.
    Attach
}

number! {
    /// The number of a halt; rises with every one that is thrown in the installation.
    HaltId
}

/// The number of a run of a job, from 1; 0 before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Run(pub u32);

impl Run {
    /// The run after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Defines a name with a checked form.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $form:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(given: &str) -> Result<Self, InvalidName> {
                let check: fn(&str) -> bool = $check;
                if check(given) {
                    Ok(Self(given.to_owned()))
                } else {
                    Err(InvalidName { kind: $kind, given: given.to_owned(), form: $form })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(given: String) -> Result<Self, InvalidName> {
                given.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// The boundary of isolation and of quota.
    Tenant, "tenant", "[a-z][a-z0-9-]{0,62}", is_lower_name
}
name! {
    /// The name of a declared kind of work.
    AgentName, "agent name", "[a-z][a-z0-9-]{0,62}", is_lower_name
}
name! {
    /// The name of a worker; several terms may bear the same.
    WorkerName, "worker name", "[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}", is_host_name
}

name! {
    /// What tells tokens apart: 16 hexadecimal digits, no secret.
    TokenId, "token id", "[0-9a-f]{16}", is_token_id
}

impl TokenId {
    /// The id of these random bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(hex::encode(bytes))
    }
}

fn is_token_id(given: &str) -> bool {
    given.len() == 16 && given.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

impl Tenant {
    /// The tenant of whoever names none on a fleet without credentials.
    #[must_use]
    pub fn default_tenant() -> Self {
        Self("default".to_owned())
    }
}

fn is_lower_name(given: &str) -> bool {
    let mut bytes = given.bytes();
    given.len() <= limits::NAME_MAX_BYTES
        && bytes.next().is_some_and(|b| b.is_ascii_lowercase())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn is_host_name(given: &str) -> bool {
    let mut bytes = given.bytes();
    given.len() <= limits::NAME_MAX_BYTES
        && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Defines an id that is a UUIDv7.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(given: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(given).map(Self)
            }
        }
    };
}

uuid_id! {
    /// One piece of work. A UUIDv7, minted from the database's clock as measured, because tables are partitioned by it.
    JobId
}
uuid_id! {
    /// Everything that one submission set in motion. A UUIDv7.
    SessionId
}

impl JobId {
    /// The short form for people: an ellipsis and the last six hexadecimal digits, which differ where beginnings do not.
    #[must_use]
    pub fn short(&self) -> String {
        let hex = self.0.as_simple().to_string();
        format!("…{}", &hex[hex.len() - 6..])
    }
}

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The digest of two pieces, one after the other.
    #[must_use]
    pub fn of_both(first: &[u8], second: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::new().chain_update(first).chain_update(second).finalize().into())
    }

    /// A digest from its 32 bytes; nothing where the length is another.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = InvalidName;

    fn from_str(given: &str) -> Result<Self, InvalidName> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(given, &mut bytes).map_err(|_| InvalidName {
            kind: "digest",
            given: given.to_owned(),
            form: "[0-9a-f]{64}",
        })?;
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        given.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_form_that_the_error_tells() {
        for good in ["a", "release-notes", "a0", &"x".repeat(63)] {
            assert!(good.parse::<AgentName>().is_ok(), "{good}");
        }
        for bad in ["", "0a", "-a", "A", "a_b", "ä", &"x".repeat(64)] {
            assert!(bad.parse::<AgentName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn digests_read_back_what_they_print() {
        let digest = Digest::of(b"tenure");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(Digest::of_both(b"ten", b"ure"), digest);
    }
}
