//! The limits that can be raised, and what is said of one that refused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::money::Micros;

/// A limit of a session or a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Hops of a branch of the session.
    Hops,
    /// Money of the session, in micro-units.
    Budget,
    /// Runs of the session.
    Runs,
    /// Money of the tenant in 24 hours, in micro-units.
    Reserve,
}

impl Limit {
    /// All limits.
    pub const ALL: &'static [Self] = &[Self::Hops, Self::Budget, Self::Runs, Self::Reserve];

    /// The stable word, as typed and stored.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hops => "hops",
            Self::Budget => "budget",
            Self::Runs => "runs",
            Self::Reserve => "reserve",
        }
    }

    /// The limit of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|limit| limit.name() == name)
    }

    /// True where it is counted in money.
    #[must_use]
    pub const fn is_money(self) -> bool {
        match self {
            Self::Budget | Self::Reserve => true,
            Self::Hops | Self::Runs => false,
        }
    }

    /// A number of it as people write it: money with its decimals.
    #[must_use]
    pub fn write(self, number: u64) -> String {
        if self.is_money() { Micros(number).to_string() } else { number.to_string() }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A limit that refused: what was used of it, and what was allowed, in its own unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitRefusal {
    /// Which.
    pub limit: Limit,
    /// What was used.
    pub used: u64,
    /// What was allowed.
    pub allowed: u64,
}

impl fmt::Display for LimitRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, used, allowed } = self;
        write!(f, "the limit `{limit}` refuses: {} of {} are used", limit.write(*used), limit.write(*allowed))
    }
}
