//! The file of tokens: one JSON object a line, without any secret, only hashes. Lines that are blank or begin with `#` are
//! left out. What cannot be read is named by its line and never repeated: somebody may have put a token there. Reading and
//! writing the file itself is left to whoever has one. Neighbours: the coordinator reads it, `tenure token` writes it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{IssuedToken, Scope, Tenants, check_actor};
use crate::{
    id::{Digest, TokenId},
    limits::TOKENS_MAX,
};

/// A file that is none of tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTokens {
    /// A line that is no token.
    #[error("line {line} is not the entry of a token")]
    Line {
        /// Which.
        line: usize,
    },
    /// Two entries with one id.
    #[error("line {line} has the id of an earlier line")]
    Repeated {
        /// Which.
        line: usize,
    },
    /// Too many.
    #[error("there are more than {TOKENS_MAX} tokens")]
    TooMany,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: TokenId,
    hash: Digest,
    tenants: Vec<String>,
    actor: String,
    scopes: BTreeSet<Scope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Timestamp>,
}

/// Reads the tokens of a file.
///
/// # Errors
/// A line is no entry, an id stands twice, or there are too many.
pub fn parse_tokens(text: &str) -> Result<Vec<IssuedToken>, InvalidTokens> {
    let (mut tokens, mut ids) = (Vec::new(), BTreeSet::new());
    for (line, entry) in text.lines().zip(1..).map(|(entry, line)| (line, entry.trim())) {
        if entry.is_empty() || entry.starts_with('#') {
            continue;
        }
        let token = read_entry(entry).ok_or(InvalidTokens::Line { line })?;
        if !ids.insert(token.id.clone()) {
            return Err(InvalidTokens::Repeated { line });
        }
        if tokens.len() >= TOKENS_MAX {
            return Err(InvalidTokens::TooMany);
        }
        tokens.push(token);
    }
    Ok(tokens)
}

/// The line of a token, without its end.
#[must_use]
pub fn write_token(token: &IssuedToken) -> String {
    let entry = Entry {
        id: token.id.clone(),
        hash: token.hash,
        tenants: token.tenants.to_texts(),
        actor: token.actor.clone(),
        scopes: token.scopes.clone(),
        expires_at: token.expires_at,
        revoked_at: token.revoked_at,
    };
    // Strings, lists and instants are always JSON.
    serde_json::to_string(&entry).unwrap_or_default()
}

fn read_entry(line: &str) -> Option<IssuedToken> {
    let entry: Entry = serde_json::from_str(line).ok()?;
    check_actor(&entry.actor).ok()?;
    let tenants = Tenants::from_texts(&entry.tenants).ok()?;
    if entry.tenants.is_empty() || entry.scopes.is_empty() {
        return None;
    }
    Some(IssuedToken {
        id: entry.id,
        hash: entry.hash,
        tenants,
        actor: entry.actor,
        scopes: entry.scopes,
        expires_at: entry.expires_at,
        revoked_at: entry.revoked_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::Token;

    fn token(id: u8) -> IssuedToken {
        let token = Token::from_random([id; 8], [id; 32]);
        IssuedToken {
            id: token.id().clone(),
            hash: token.hash(),
            tenants: Tenants::from_texts(&["a", "b"]).unwrap(),
            actor: "ada".into(),
            scopes: BTreeSet::from([Scope::Submit, Scope::Read]),
            expires_at: Some("2027-01-01T00:00:00Z".parse().unwrap()),
            revoked_at: None,
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_holds_no_secret() {
        let (first, second) = (token(1), IssuedToken { tenants: Tenants::All, ..token(2) });
        let text = format!("# ours\n{}\n\n{}\n", write_token(&first), write_token(&second));
        assert_eq!(parse_tokens(&text), Ok(vec![first, second]));
        let secret = Token::from_random([1; 8], [1; 32]);
        let secret = secret.expose().rsplit('_').next().unwrap();
        assert!(!text.contains(secret), "{text}");
    }

    #[test]
    fn a_line_that_is_no_entry_is_named_and_not_repeated() {
        let good = write_token(&token(1));
        let nobody = good.replace("\"ada\"", "\"\"");
        let nowhere = good.replace("[\"a\",\"b\"]", "[]");
        let nothing = good.replace("[\"submit\",\"read\"]", "[]");
        let more = good.replace('{', "{\"later\":1,");
        let mistaken = Token::from_random([9; 8], [9; 32]);
        for bad in [mistaken.expose(), &nobody, &nowhere, &nothing, &more] {
            let error = parse_tokens(&format!("{}\n{bad}", write_token(&token(2)))).unwrap_err();
            assert_eq!(error, InvalidTokens::Line { line: 2 }, "{bad}");
            assert!(!error.to_string().contains(bad));
        }
        assert_eq!(parse_tokens(&format!("{good}\n{good}")), Err(InvalidTokens::Repeated { line: 2 }));
    }
}
