//! How values cross between the tables and Rust. Numbers are unsigned here and signed there: what does not fit there is
//! beyond every number that was ever given out, and what is negative there was refused by the tables. Texts with a form are
//! read through it: an unknown one is refused, never guessed at.

use std::str::FromStr;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tenure_core::{
    credential::Tenants,
    effect::{Compensation, EffectRecovery, Outcome},
    id::{Digest, Tenant},
    job::State,
    plan::Fencing,
};

use crate::{StoreError, timestamp::Stamp};

/// A number for a `bigint`.
pub(crate) fn to_bigint(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number from a `bigint`.
pub(crate) fn from_bigint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// A number for an `integer`.
pub(crate) fn to_integer(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A number from an `integer`.
pub(crate) fn from_integer(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

/// A duration as whole milliseconds.
pub(crate) fn to_ms(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A duration from whole milliseconds.
pub(crate) fn from_ms(ms: i64) -> std::time::Duration {
    std::time::Duration::from_millis(from_bigint(ms))
}

/// An instant from a column.
pub(crate) fn instant(stamp: Option<Stamp>) -> Option<Timestamp> {
    stamp.map(|stamp| stamp.0)
}

/// Reads stored values on behalf of one method, which an error names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader(pub(crate) &'static str);

impl Reader {
    /// A text with a form: a name.
    pub(crate) fn parse<T: FromStr>(self, what: &'static str, found: String) -> Result<T, StoreError> {
        found.parse().map_err(|_| self.unknown(what, found))
    }

    /// Texts with a form.
    pub(crate) fn parse_all<T: FromStr>(
        self,
        what: &'static str,
        found: Vec<String>,
    ) -> Result<Vec<T>, StoreError> {
        found.into_iter().map(|text| self.parse(what, text)).collect()
    }

    /// A tenant.
    pub(crate) fn tenant(self, found: String) -> Result<Tenant, StoreError> {
        self.parse("tenant", found)
    }

    /// Tenants: names, or the word for all.
    pub(crate) fn tenants(self, found: &[String]) -> Result<Tenants, StoreError> {
        Tenants::from_texts(found).map_err(|_| self.unknown("tenants", found.join(",")))
    }

    /// A state.
    pub(crate) fn state(self, found: String) -> Result<State, StoreError> {
        State::parse(&found).map_err(|_| self.unknown("state", found))
    }

    /// A way of fencing.
    pub(crate) fn fencing(self, found: String) -> Result<Fencing, StoreError> {
        match found.as_str() {
            "none" => Ok(Fencing::None),
            "guardian" => Ok(Fencing::Guardian),
            "kernel" => Ok(Fencing::Kernel),
            _ => Err(self.unknown("fencing", found)),
        }
    }

    /// How an attempt at an effect ended.
    pub(crate) fn outcome(self, state: &str, disposition: Option<&str>) -> Result<Outcome, StoreError> {
        let form = || format!("{state} {}", disposition.unwrap_or_default());
        Outcome::of_stored(state, disposition).ok_or_else(|| self.unknown("outcome of an effect", form()))
    }

    /// What happens to an effect in doubt.
    pub(crate) fn effect_recovery(self, found: String) -> Result<EffectRecovery, StoreError> {
        let known = EffectRecovery::ALL.iter().copied().find(|recovery| recovery.word() == found);
        known.ok_or_else(|| self.unknown("recovery of an effect", found))
    }

    /// How a step is undone.
    pub(crate) fn compensation(self, found: String) -> Result<Compensation, StoreError> {
        let known = Compensation::ALL.iter().copied().find(|compensation| compensation.word() == found);
        known.ok_or_else(|| self.unknown("compensation of an effect", found))
    }

    /// A digest.
    pub(crate) fn digest(self, found: &[u8]) -> Result<Digest, StoreError> {
        Digest::from_slice(found).ok_or_else(|| self.unknown("digest", format!("{} bytes", found.len())))
    }

    /// A document in JSON.
    pub(crate) fn json<T: DeserializeOwned>(
        self,
        what: &'static str,
        found: serde_json::Value,
    ) -> Result<T, StoreError> {
        T::deserialize(&found).map_err(|_| self.unknown(what, found.to_string()))
    }

    /// The error for what this release does not know.
    pub(crate) fn unknown(self, what: &'static str, found: String) -> StoreError {
        StoreError::UnknownValue { attempted: self.0, what, found }
    }
}

/// The text of a way of fencing.
pub(crate) const fn fencing_name(fencing: Fencing) -> &'static str {
    match fencing {
        Fencing::None => "none",
        Fencing::Guardian => "guardian",
        Fencing::Kernel => "kernel",
    }
}
