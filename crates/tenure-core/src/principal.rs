//! Who acts, and on what basis that is believed. Beside the fleet's own parts it comes from one place, the coordinator's
//! look at a call's credential.

use serde::{Deserialize, Serialize};

/// Why an actor is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// By a credential.
    Authenticated,
    /// On loopback, without one.
    Asserted,
    /// Through a run's own socket.
    Connected,
    /// The fleet itself acted: a coordinator's sweep, a worker, a guardian.
    Fleet,
}

/// Who acts: a person, a service, an agent, or a part of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The actor's name.
    pub actor: String,
    /// Why it is believed.
    pub basis: Basis,
}

impl Principal {
    /// Somebody with a credential, by the name that stands in it.
    #[must_use]
    pub fn authenticated(actor: impl Into<String>) -> Self {
        Self { actor: actor.into(), basis: Basis::Authenticated }
    }

    /// Somebody on loopback without a credential.
    #[must_use]
    pub fn asserted(actor: impl Into<String>) -> Self {
        Self { actor: actor.into(), basis: Basis::Asserted }
    }

    /// A run of this agent, through its own socket.
    #[must_use]
    pub fn connected(agent: impl Into<String>) -> Self {
        Self { actor: agent.into(), basis: Basis::Connected }
    }

    /// A part of the fleet, for example `sweep`, `worker w1`, `guardian of w1`.
    #[must_use]
    pub fn fleet(part: impl Into<String>) -> Self {
        Self { actor: part.into(), basis: Basis::Fleet }
    }
}
