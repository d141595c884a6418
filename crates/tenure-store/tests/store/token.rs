//! Tokens of the database: as many as coordinators read, and those that ended take no place.

use std::{collections::BTreeSet, time::Duration};

use tenure_core::{
    credential::{IssuedToken, Scope, Tenants, Token},
    limits::TOKENS_MAX,
};
use tenure_store::TokenStored;

use crate::fleet::Fleet;

fn issue(number: u8) -> IssuedToken {
    // The ids of the others begin otherwise.
    let token = Token::from_random([0xf0, 0, 0, 0, 0, 0, 0, number], [number; 32]);
    IssuedToken {
        id: token.id().clone(),
        hash: token.hash(),
        tenants: Tenants::All,
        actor: "ada".into(),
        scopes: BTreeSet::from([Scope::Read]),
        expires_at: None,
        revoked_at: None,
    }
}

#[tokio::test]
async fn as_many_tokens_are_stored_as_coordinators_read_and_those_that_ended_take_no_place() {
    let fleet = Fleet::start().await;
    let day = Some(Duration::from_secs(24 * 60 * 60));
    let TokenStored::Until(Some(_)) = fleet.store.store_token(&issue(1), day).await.unwrap() else {
        panic!("it ends in a day")
    };
    sqlx::query(
        "INSERT INTO tokens (token, hash, tenants, actor, scopes)
         SELECT lpad(to_hex(n), 16, '0'), sha256(n::text::bytea), '{*}', 'ada', '{read}'
         FROM generate_series(2, $1) AS n",
    )
    .bind(i32::try_from(TOKENS_MAX).unwrap())
    .execute(&fleet.pool)
    .await
    .unwrap();
    assert_eq!(fleet.store.store_token(&issue(2), None).await.unwrap(), TokenStored::TooMany);
    let listed = fleet.store.list_tokens().await.unwrap();
    assert_eq!(listed.len(), TOKENS_MAX);
    // The first is revoked, and the second has expired: there are places for two.
    fleet.store.revoke_token(&issue(1).id).await.unwrap();
    sqlx::query("UPDATE tokens SET expires_at = statement_timestamp() WHERE token = '0000000000000002'")
        .execute(&fleet.pool)
        .await
        .unwrap();
    for number in [3, 4] {
        let stored = fleet.store.store_token(&issue(number), None).await.unwrap();
        assert_eq!(stored, TokenStored::Until(None));
    }
    assert_eq!(fleet.store.store_token(&issue(5), None).await.unwrap(), TokenStored::TooMany);
    // What is read first is what is worth something.
    let listed = fleet.store.list_tokens().await.unwrap();
    let ended = |token: &IssuedToken| token.revoked_at.is_some() || token.expires_at.is_some();
    assert_eq!(listed.iter().position(ended), Some(TOKENS_MAX));
}
