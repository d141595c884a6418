//! What is kept of tokens, and the key of the installation. Coordinators read all of it into their memory, so that no call
//! costs a statement before it is known whose it is. A token that was revoked stays as a row. What a token allows is
//! decided elsewhere.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use sqlx::query_file;
use tenure_core::{
    credential::{IssuedToken, Scope},
    id::TokenId,
    limits::TOKENS_MAX,
};

use crate::{
    Store, StoreError,
    stored::{Reader, instant, to_bigint, to_ms},
    timestamp::Stamp,
};

impl Store {
    /// Reads the tokens, those first that are not revoked; one more than a coordinator keeps, so that it sees that there are
    /// too many.
    ///
    /// # Errors
    /// The database does not answer; a row cannot be read.
    pub async fn list_tokens(&self) -> Result<Vec<IssuedToken>, StoreError> {
        let attempted = "reading the tokens";
        let limit = to_bigint(TOKENS_MAX as u64 + 1);
        let rows = sqlx::query_file_as!(TokenRow, "queries/tokens/list_tokens.sql", limit)
            .fetch_all(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        rows.into_iter().map(|row| row.into_token(Reader(attempted))).collect()
    }

    /// Stores what is kept of a new token, unless there are as many as coordinators read. Its life is counted from now on
    /// by the database's clock.
    ///
    /// # Errors
    /// The database does not answer, or has a token of this id.
    pub async fn store_token(
        &self,
        token: &IssuedToken,
        life: Option<Duration>,
    ) -> Result<TokenStored, StoreError> {
        let scopes: Vec<_> = token.scopes.iter().map(Scope::to_string).collect();
        let row = sqlx::query_file_as!(
            EndRow,
            "queries/tokens/store_token.sql",
            token.id.as_str(),
            &token.hash.0[..],
            &token.tenants.to_texts(),
            token.actor,
            &scopes,
            life.map(to_ms),
            to_bigint(TOKENS_MAX as u64)
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::while_doing("storing a token"))?;
        Ok(row.map_or(TokenStored::TooMany, |row| TokenStored::Until(instant(row.expires_at))))
    }

    /// Revokes a token; false where there is none of this id.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        let revoked = query_file!("queries/tokens/revoke_token.sql", id.as_str())
            .execute(&self.pool)
            .await
            .map_err(StoreError::while_doing("revoking a token"))?;
        Ok(revoked.rows_affected() > 0)
    }

    /// Reads the key by which coordinators know the secrets of runs as their own.
    ///
    /// # Errors
    /// The database does not answer, or is not migrated.
    pub async fn read_run_key(&self) -> Result<[u8; 32], StoreError> {
        let attempted = "reading the key of the installation";
        let row = query_file!("queries/installation/read_run_key.sql")
            .fetch_one(&self.pool)
            .await
            .map_err(StoreError::while_doing(attempted))?;
        Ok(Reader(attempted).digest(&row.run_key)?.0)
    }
}

/// What became of a new token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenStored {
    /// It is worth something until then; none: it does not end by itself.
    Until(Option<Timestamp>),
    /// There are [`TOKENS_MAX`] that are neither revoked nor expired.
    TooMany,
}

struct TokenRow {
    token: String,
    hash: Vec<u8>,
    tenants: Vec<String>,
    actor: String,
    scopes: Vec<String>,
    expires_at: Option<Stamp>,
    revoked_at: Option<Stamp>,
}

impl TokenRow {
    fn into_token(self, reader: Reader) -> Result<IssuedToken, StoreError> {
        let scopes: Vec<Scope> = reader.parse_all("scope", self.scopes)?;
        Ok(IssuedToken {
            id: reader.parse("token", self.token)?,
            hash: reader.digest(&self.hash)?,
            tenants: reader.tenants(&self.tenants)?,
            actor: self.actor,
            scopes: BTreeSet::from_iter(scopes),
            expires_at: instant(self.expires_at),
            revoked_at: instant(self.revoked_at),
        })
    }
}

struct EndRow {
    expires_at: Option<Stamp>,
}
