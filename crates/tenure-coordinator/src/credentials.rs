//! The tokens that this coordinator knows, in its memory: those of a file and those of the database. Whoever calls is
//! recognised here, without a statement. Promises: secrets are compared in constant time; nothing that was presented is
//! kept or printed; where credentials were ever wanted, they are wanted until the end, also when the last one is revoked; a
//! set that cannot be read leaves the one before in force. It decides nothing: what a token allows is said by the core.
//! Neighbours: `server/authentication` asks for each call, `standing` again for long streams, `background/credentials`
//! brings new sets.

pub(crate) mod file;
pub(crate) mod standing;

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use jiff::Timestamp;
use subtle::ConstantTimeEq as _;
use tenure_core::{
    credential::{
        IssuedToken, Scope, Token,
        judgement::{admit_token, refuse_unknown},
    },
    id::{Digest, TokenId},
    limits::TOKENS_MAX,
    refusal::Refusal,
};
use tokio::sync::watch;

use crate::clock::DatabaseClock;

/// The tokens that are known. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: DatabaseClock,
    known: RwLock<Known>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    required: bool,
    of_file: Tokens,
    of_database: Tokens,
}

type Tokens = HashMap<TokenId, Arc<IssuedToken>>;

/// More tokens than are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the database has more than {TOKENS_MAX} tokens that are neither revoked nor expired")]
pub struct TooManyTokens;

impl Credentials {
    /// None is known, and none is wanted.
    pub(crate) fn none(clock: DatabaseClock) -> Self {
        let inner = Inner { clock, known: RwLock::default(), changes: watch::Sender::new(0) };
        Self { inner: Arc::new(inner) }
    }

    /// True where every call needs a credential.
    pub(crate) fn are_required(&self) -> bool {
        self.known().required
    }

    /// The tokens of a file are these from now on. Having a file wants credentials, also where it is empty.
    pub(crate) fn replace_file(&self, tokens: Vec<IssuedToken>) {
        self.change(|known| {
            known.required = true;
            known.of_file = by_id(tokens);
        });
    }

    /// The tokens of the database are these from now on. Where it ever had one, also a revoked one, credentials are wanted.
    ///
    /// # Errors
    /// There are too many: the earlier ones stay.
    pub(crate) fn replace_database(&self, tokens: Vec<IssuedToken>) -> Result<(), TooManyTokens> {
        let now = self.now();
        let ended = |token: &&IssuedToken| {
            token.revoked_at.is_some() || token.expires_at.is_some_and(|expires_at| expires_at <= now)
        };
        if tokens.len() - tokens.iter().filter(ended).count() > TOKENS_MAX {
            return Err(TooManyTokens);
        }
        let tokens = by_id(tokens);
        if tokens != self.known().of_database {
            self.change(|known| {
                known.required |= !tokens.is_empty();
                known.of_database = tokens;
            });
        }
        Ok(())
    }

    /// Whose token this is.
    pub(crate) fn authenticate(&self, presented: &Token) -> Result<Arc<IssuedToken>, Refusal> {
        let known = self.find(presented.id());
        // Also an id that is not known costs a comparison.
        let hash = known.as_ref().map_or(Digest([0; 32]), |known| known.hash);
        let same = bool::from(hash.0.ct_eq(&presented.hash().0));
        known.filter(|_| same).ok_or_else(refuse_unknown)
    }

    /// Passes a token of this scope as it is worth something now.
    pub(crate) fn admit(&self, token: &IssuedToken, scope: Scope) -> Result<(), Refusal> {
        admit_token(token, scope, self.now())
    }

    /// The same for one that was let in before, as it stands by now: it must be there still, and for the same tenants.
    fn admit_again(&self, earlier: &IssuedToken, scope: Scope) -> Result<(), Refusal> {
        let present = self
            .find(&earlier.id)
            .filter(|present| present.hash == earlier.hash && present.tenants.cover(&earlier.tenants))
            .ok_or_else(refuse_unknown)?;
        self.admit(&present, scope)
    }

    fn hear_changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    fn find(&self, id: &TokenId) -> Option<Arc<IssuedToken>> {
        let known = self.known();
        known.of_file.get(id).or_else(|| known.of_database.get(id)).cloned()
    }

    /// By the database's clock.
    fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.inner.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.inner.known.write().unwrap_or_else(PoisonError::into_inner));
        self.inner.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

fn by_id(tokens: Vec<IssuedToken>) -> Tokens {
    tokens.into_iter().map(|token| (token.id.clone(), Arc::new(token))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use tenure_core::{credential::Tenants, reason::Reason};

    use super::*;

    /// A token of the tenant `acme` that may read.
    pub(crate) fn issue(number: u8) -> (Token, IssuedToken) {
        let token = Token::from_random([number; 8], [number; 32]);
        let issued = IssuedToken {
            id: token.id().clone(),
            hash: token.hash(),
            tenants: Tenants::from_texts(&["acme"]).unwrap(),
            actor: "ada".into(),
            scopes: BTreeSet::from([Scope::Read]),
            expires_at: None,
            revoked_at: None,
        };
        (token, issued)
    }

    pub(crate) fn credentials() -> Credentials {
        Credentials::none(DatabaseClock::fixed("2026-11-30T10:00:00Z".parse().unwrap()))
    }

    fn reason<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> Reason {
        outcome.unwrap_err().reason
    }

    #[test]
    fn a_token_is_known_by_all_of_it_and_from_either_source() {
        let credentials = credentials();
        let ((first, of_file), (second, of_database)) = (issue(1), issue(2));
        credentials.replace_file(vec![of_file.clone()]);
        credentials.replace_database(vec![of_database]).unwrap();
        assert_eq!(*credentials.authenticate(&first).unwrap(), of_file);
        assert!(credentials.authenticate(&second).is_ok());
        let other_secret = Token::from_random([1; 8], [9; 32]);
        let other_id = Token::from_random([9; 8], [1; 32]);
        for wrong in [other_secret, other_id] {
            assert_eq!(reason(credentials.authenticate(&wrong)), Reason::CredentialInvalid);
        }
    }

    #[test]
    fn where_there_ever_was_a_token_one_is_wanted_until_the_end() {
        let credentials = credentials();
        credentials.replace_database(Vec::new()).unwrap();
        assert!(!credentials.are_required());
        let (_, issued) = issue(1);
        credentials.replace_database(vec![issued]).unwrap();
        credentials.replace_database(Vec::new()).unwrap();
        assert!(credentials.are_required());
    }

    #[test]
    fn tokens_that_ended_take_no_place_from_others() {
        let credentials = credentials();
        let (_, issued) = issue(1);
        let many = |ends: Option<Timestamp>| {
            let number = |n: u64| Token::from_random(n.to_be_bytes(), [0; 32]).id().clone();
            let one = |n: usize| IssuedToken { id: number(n as u64), expires_at: ends, ..issued.clone() };
            (0..TOKENS_MAX).map(one).chain([issued.clone()]).collect::<Vec<_>>()
        };
        let (past, future) =
            ("2026-11-29T10:00:00Z".parse().unwrap(), "2026-12-01T10:00:00Z".parse().unwrap());
        assert_eq!(credentials.replace_database(many(Some(future))), Err(TooManyTokens));
        assert_eq!(credentials.replace_database(many(None)), Err(TooManyTokens));
        assert_eq!(credentials.replace_database(many(Some(past))), Ok(()));
    }

    #[test]
    fn an_empty_file_wants_credentials_too() {
        let credentials = credentials();
        credentials.replace_file(Vec::new());
        assert!(credentials.are_required());
    }

    #[test]
    fn a_revoked_row_wants_credentials_and_lets_nobody_in() {
        let credentials = credentials();
        let (token, issued) = issue(1);
        let revoked = IssuedToken { revoked_at: Some("2026-11-01T00:00:00Z".parse().unwrap()), ..issued };
        credentials.replace_database(vec![revoked.clone()]).unwrap();
        assert!(credentials.are_required());
        let known = credentials.authenticate(&token).unwrap();
        assert_eq!(reason(credentials.admit(&known, Scope::Read)), Reason::CredentialInvalid);
    }

    #[test]
    fn what_was_let_in_is_let_in_again_while_it_stands_as_it_did() {
        let credentials = credentials();
        let (_, issued) = issue(1);
        credentials.replace_file(vec![issued.clone()]);
        assert!(credentials.admit_again(&issued, Scope::Read).is_ok());
        let elsewhere = Tenants::from_texts(&["other"]).unwrap();
        let another = Token::from_random([1; 8], [3; 32]).hash();
        let narrower = BTreeSet::from([Scope::Work]);
        for (changed, expected) in [
            (IssuedToken { tenants: elsewhere, ..issued.clone() }, Reason::CredentialInvalid),
            (IssuedToken { hash: another, ..issued.clone() }, Reason::CredentialInvalid),
            (IssuedToken { scopes: narrower, ..issued.clone() }, Reason::ScopeMissing),
        ] {
            credentials.replace_file(vec![changed]);
            assert_eq!(reason(credentials.admit_again(&issued, Scope::Read)), expected);
        }
        credentials.replace_file(Vec::new());
        assert_eq!(reason(credentials.admit_again(&issued, Scope::Read)), Reason::CredentialInvalid);
    }
}
