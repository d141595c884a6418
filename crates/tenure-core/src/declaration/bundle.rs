//! The tenant's policy bundle: recovery, limits and routes that hold for all its agents, and stand behind an agent's own keys. It is
//! content-addressed like a declaration, and a job remembers both digests. Roles come later.

use serde_json::Value;

use super::{
    check::check_table,
    find_in,
    node::{Content, Node, Table, table_to_json},
    schema,
};
use crate::{
    canonical::write_canonical,
    id::Digest,
    money::{Micros, read_money},
    reason::Reason,
    refusal::Refusal,
    routing::RouteMap,
};

/// A tenant's policy bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyBundle {
    document: Vec<u8>,
    table: Value,
}

impl PolicyBundle {
    /// Reads a bundle from its canonical JSON.
    ///
    /// # Errors
    /// It is no canonical JSON, has an unknown key or a bad value, or needs a feature that does not exist yet.
    pub fn parse(document: &[u8]) -> Result<Self, Refusal> {
        let invalid = |words: String| Refusal::new(Reason::InvalidDeclaration, words);
        let value: Value = serde_json::from_slice(document)
            .map_err(|error| invalid(format!("the policy bundle is no JSON: {error}")))?;
        let Content::Table(written) = Node::from_json(&value).content else {
            return Err(invalid("the policy bundle is no table".to_owned()));
        };
        if let Some(flaw) = check_table(&written, schema::BUNDLE, "policy").first() {
            return Err(Refusal::new(flaw.reason(Reason::InvalidDeclaration), flaw.to_string())
                .with_detail("key", &flaw.path));
        }
        let bundle = Self::from_table(&written);
        if bundle.document != document {
            return Err(invalid("the policy bundle is not in canonical form".to_owned()));
        }
        Ok(bundle)
    }

    /// Makes a bundle from a table that was checked against the schema.
    pub(crate) fn from_table(table: &Table) -> Self {
        let table = table_to_json(table);
        Self { document: write_canonical(&table), table }
    }

    /// The canonical JSON.
    #[must_use]
    pub fn document(&self) -> &[u8] {
        &self.document
    }

    /// SHA-256 of the canonical JSON.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.document)
    }

    /// What the tenant may spend in 24 hours before no further session is opened; 0: no limit.
    #[must_use]
    pub fn reserve(&self) -> Option<Micros> {
        self.find(&["limits", "reserve"])?.as_str().and_then(|written| read_money(written).ok())
    }

    /// Which agent may give work to which.
    #[must_use]
    pub fn routes(&self) -> RouteMap {
        RouteMap::of(self.find(&["routes"]), self.find(&["joins"]))
    }

    pub(super) fn find(&self, path: &[&str]) -> Option<&Value> {
        find_in(&self.table, path)
    }
}
