//! Credentials: tokens, what they name (tenants, an actor, scopes, an end), and what a call needs of one. It owns the words
//! and their forms; a token's text is known to its bearer alone, and what is kept of it is its SHA-256. It draws no
//! randomness, reads no clock and compares no secret: whoever mints passes random bytes, whoever authenticates compares.
//! Neighbours: `judgement` says what a token allows, `file` reads and writes the file of tokens; the coordinator keeps them.

pub mod file;
pub mod judgement;

use std::{collections::BTreeSet, fmt, str::FromStr};

use base64::Engine as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    id::{Digest, InvalidName, Tenant, TokenId},
    limits::{ACTOR_MAX_BYTES, TOKEN_MAX_BYTES},
};

/// How every token begins, so that whoever finds one knows what it is.
pub const TOKEN_PREFIX: &str = "tenure_";
/// The word for every tenant.
pub const EVERY_TENANT: &str = "*";

/// What a credential lets its bearer do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Submit jobs.
    Submit,
    /// Read jobs, their journals, outputs and effects, agents and workers.
    Read,
    /// Execute runs: what a worker needs.
    Work,
    /// Act on jobs as an operator: cancel, recover, vouch.
    Operate,
    /// Declare agents.
    Administer,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 5] = [Self::Submit, Self::Read, Self::Work, Self::Operate, Self::Administer];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Work => "work",
            Self::Operate => "operate",
            Self::Administer => "administer",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = InvalidName;

    fn from_str(given: &str) -> Result<Self, InvalidName> {
        Self::ALL.into_iter().find(|scope| scope.name() == given).ok_or_else(|| InvalidName {
            kind: "scope",
            given: given.to_owned(),
            form: "submit|read|work|operate|administer",
        })
    }
}

/// What a call needs of whoever makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Open,
    /// The secret of a run, in the message; no token.
    RunSecret,
    /// This scope, in one tenant.
    Tenant(Scope),
    /// This scope, in all tenants that the caller may act for.
    Fleet(Scope),
}

impl Access {
    /// True where the call is one of somebody; without it anybody may call.
    #[must_use]
    pub const fn needs_caller(self) -> bool {
        matches!(self, Self::Tenant(_) | Self::Fleet(_))
    }
}

/// The tenants that a credential, or a worker, is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tenants {
    /// Every tenant, also one that comes later.
    All,
    /// These.
    Named(BTreeSet<Tenant>),
}

impl Tenants {
    /// One tenant.
    #[must_use]
    pub fn one(tenant: Tenant) -> Self {
        Self::Named(BTreeSet::from([tenant]))
    }

    /// True where this tenant is among them.
    #[must_use]
    pub fn names(&self, tenant: &Tenant) -> bool {
        match self {
            Self::All => true,
            Self::Named(named) => named.contains(tenant),
        }
    }

    /// True where all of the others are among them.
    #[must_use]
    pub fn cover(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::All, _) => true,
            (Self::Named(_), Self::All) => false,
            (Self::Named(named), Self::Named(others)) => named.is_superset(others),
        }
    }

    /// As they are stored and printed: `*` alone, or the names in order.
    #[must_use]
    pub fn to_texts(&self) -> Vec<String> {
        match self {
            Self::All => vec![EVERY_TENANT.to_owned()],
            Self::Named(named) => named.iter().map(Tenant::to_string).collect(),
        }
    }

    /// Reads what [`Tenants::to_texts`] gives.
    ///
    /// # Errors
    /// A name that is none; `*` beside a name.
    pub fn from_texts<T: AsRef<str>>(texts: &[T]) -> Result<Self, InvalidName> {
        if let [only] = texts
            && only.as_ref() == EVERY_TENANT
        {
            return Ok(Self::All);
        }
        texts.iter().map(|text| text.as_ref().parse()).collect::<Result<_, _>>().map(Self::Named)
    }
}

impl fmt::Display for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_texts().join(","))
    }
}

/// A token as its bearer has it. Printing it prints its id.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: TokenId,
    text: String,
}

impl Token {
    /// A token of these random bytes.
    #[must_use]
    pub fn from_random(id: [u8; 8], secret: [u8; 32]) -> Self {
        let id = TokenId::from_bytes(id);
        let secret = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(secret);
        let text = format!("{TOKEN_PREFIX}{id}_{secret}");
        Self { id, text }
    }

    /// The token of this text; none where it has not the form of one. Whoever reports that does not repeat the text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > TOKEN_MAX_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let (id, secret) = text.strip_prefix(TOKEN_PREFIX)?.split_once('_')?;
        let id = id.parse().ok().filter(|_| !secret.is_empty())?;
        Some(Self { id, text: text.to_owned() })
    }

    /// Its id, which is no secret.
    #[must_use]
    pub fn id(&self) -> &TokenId {
        &self.id
    }

    /// Its text, for its bearer.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// What is kept of it, and compared.
    #[must_use]
    pub fn hash(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

/// What is kept of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// Its id.
    pub id: TokenId,
    /// SHA-256 of its text.
    pub hash: Digest,
    /// For which tenants.
    pub tenants: Tenants,
    /// Who acts with it; stands in every record.
    pub actor: String,
    /// What it allows.
    pub scopes: BTreeSet<Scope>,
    /// From when on it is worth nothing, by the database's clock; none: it does not end by itself.
    pub expires_at: Option<Timestamp>,
    /// Since when it is worth nothing.
    pub revoked_at: Option<Timestamp>,
}

/// Passes a name that an actor may have.
///
/// # Errors
/// It is blank, longer than [`ACTOR_MAX_BYTES`], or has control characters.
pub fn check_actor(actor: &str) -> Result<(), InvalidName> {
    let usable = !actor.trim().is_empty()
        && actor.len() <= ACTOR_MAX_BYTES
        && !actor.contains(|c: char| c.is_control());
    if usable {
        return Ok(());
    }
    Err(InvalidName {
        kind: "actor",
        given: actor.to_owned(),
        form: "1 to 128 bytes without control characters",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_as_itself_and_prints_only_its_id() {
        let token = Token::from_random([0xab; 8], [7; 32]);
        assert_eq!(Token::parse(token.expose()), Some(token.clone()));
        assert_eq!(token.id().to_string(), "abababababababab");
        assert_eq!(format!("{token:?}"), "Token(abababababababab)");
        assert!(token.expose().len() <= TOKEN_MAX_BYTES);
    }

    #[test]
    fn what_has_not_the_form_of_a_token_is_none() {
        let long = format!("tenure_abababababababab_{}", "x".repeat(TOKEN_MAX_BYTES));
        for text in [
            "",
            "tenure_",
            "tenure_abababababababab",
            "tenure_abababababababab_",
            "tenure_ABABABABABABABAB_x",
            "other_abababababababab_x",
            "tenure_abababababababab_x y",
            &long,
        ] {
            assert_eq!(Token::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_tenant_is_a_word_that_stands_alone() {
        let named = Tenants::from_texts(&["b", "a"]).unwrap();
        assert_eq!(named.to_texts(), ["a", "b"]);
        assert_eq!(Tenants::from_texts(&["*"]).unwrap(), Tenants::All);
        assert!(Tenants::from_texts(&["*", "a"]).is_err());
        let (a, c): (Tenant, Tenant) = ("a".parse().unwrap(), "c".parse().unwrap());
        assert!(named.names(&a) && !named.names(&c) && Tenants::All.names(&c));
        assert!(Tenants::All.cover(&named) && named.cover(&Tenants::one(a)) && !named.cover(&Tenants::All));
        assert!(!named.cover(&Tenants::one(c)));
    }

    #[test]
    fn a_scope_is_known_by_its_word_alone() {
        for scope in Scope::ALL {
            assert_eq!(scope.name().parse(), Ok(scope));
        }
        assert!("Read".parse::<Scope>().is_err() && "all".parse::<Scope>().is_err());
    }

    #[test]
    fn an_actor_is_a_short_visible_name() {
        assert!(check_actor("ada@example.com").is_ok());
        for bad in ["", "  ", "a\nb", &"x".repeat(ACTOR_MAX_BYTES + 1)] {
            assert!(check_actor(bad).is_err(), "{bad:?}");
        }
    }
}
