//! What a job was admitted under and is not held any more, as a record says it. Neighbours: the `settlement` sets aside,
//! `verb/reopen` goes on.

use serde::{Deserialize, Serialize};

use crate::id::Digest;

/// What a job is held to since its admission, named by a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldTo {
    /// The declaration of its agent.
    #[default]
    Declaration,
    /// The policy bundle of its tenant.
    Bundle,
}

impl HeldTo {
    const fn is_declaration(&self) -> bool {
        matches!(self, Self::Declaration)
    }
}

/// The declaration or the bundle that a job was admitted under, which is not held any more, and what stands in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedDeclaration {
    /// Which of the two; left out: the declaration.
    #[serde(skip_serializing_if = "HeldTo::is_declaration", default)]
    pub what: HeldTo,
    /// The one that it was admitted under.
    pub admitted: Digest,
    /// The present one of its agent; none: the agent has none any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub present: Option<Digest>,
}
