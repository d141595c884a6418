//! With what a call comes to a coordinator that wants credentials: the token that it knows, none, or one that is nearly that
//! or none at all. A call that wants a caller and is carried out without the token is a finding. Neighbours: `target` throws
//! the call, `messages` keeps the word for it.

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use tenure_proto::{
    access::access_of,
    caller::{AUTHORIZATION_KEY, TENANT_KEY},
};

/// The tenant of what the coordinator knows.
pub(crate) const TENANT: &str = "default";

/// What a call bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The token, and the tenant that is meant.
    Valid,
    /// The token, and a tenant that has nothing.
    Elsewhere,
    /// Nothing.
    Missing,
    /// The token with another secret.
    Wrong,
    /// What is no token, and hardly a value of a header.
    Garbled,
}

/// Each with the word under which it is kept.
const WORDS: [(Credential, &str); 5] = [
    (Credential::Valid, "valid"),
    (Credential::Elsewhere, "elsewhere"),
    (Credential::Missing, "missing"),
    (Credential::Wrong, "wrong"),
    (Credential::Garbled, "garbled"),
];

impl Credential {
    /// Most calls bear the token: what lies behind the gate is met too.
    pub(crate) fn draw(random: &mut StdRng) -> Self {
        if random.random_ratio(3, 4) {
            return Self::Valid;
        }
        WORDS.choose(random).map_or(Self::Valid, |(credential, _)| *credential)
    }

    /// The word under which it is kept.
    pub(crate) fn word(self) -> &'static str {
        WORDS.iter().find(|(credential, _)| *credential == self).map_or("valid", |(_, word)| word)
    }

    /// What is kept under this word.
    pub(crate) fn of_word(word: &str) -> Self {
        WORDS.iter().find(|(_, known)| *known == word).map_or(Self::Valid, |(credential, _)| *credential)
    }

    /// The metadata of a call to a coordinator with this token.
    pub(crate) fn metadata(self, token: &str) -> Vec<(&'static str, String)> {
        let bearer = |token: &str| (AUTHORIZATION_KEY, format!("Bearer {token}"));
        let tenant = |name: &str| (TENANT_KEY, name.to_owned());
        match self {
            Self::Valid => vec![bearer(token), tenant(TENANT)],
            Self::Elsewhere => vec![bearer(token), tenant("nowhere")],
            Self::Missing => Vec::new(),
            Self::Wrong => vec![bearer(&format!("{}x", &token[..token.len() - 1])), tenant(TENANT)],
            Self::Garbled => {
                vec![(AUTHORIZATION_KEY, format!("Bearer {}", "tenure_~".repeat(300))), tenant("~")]
            }
        }
    }

    /// True where a call with it may be carried out.
    pub(crate) fn suffices(self, path: &str) -> bool {
        let known = matches!(self, Self::Valid | Self::Elsewhere);
        known || access_of(path).is_some_and(|access| !access.needs_caller())
    }
}
