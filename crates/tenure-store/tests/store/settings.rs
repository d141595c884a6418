//! The settings that every statement relies on stand on the role, and nothing is written without them.

use sqlx::AssertSqlSafe;
use tenure_core::reason::Reason;
use tenure_store::{Store, StoreError, StoreOptions};
use tenure_testkit::TestDatabase;

use crate::fleet::Fleet;

async fn connect(db: &TestDatabase) -> Result<Store, StoreError> {
    Store::connect(db.url(), StoreOptions::default()).await
}

/// Provokes `SETTINGS_MISSING`.
#[tokio::test]
async fn a_database_whose_role_lacks_a_setting_is_refused_with_the_statement_that_helps() {
    let fleet = Fleet::start().await;
    let reset = format!("ALTER ROLE CURRENT_USER IN DATABASE {} RESET synchronous_commit", fleet.db.name());
    let weaken = reset.replace("RESET synchronous_commit", "SET synchronous_commit = 'off'");
    for damage in [weaken, reset.replace("synchronous_commit", "lock_timeout")] {
        sqlx::query(AssertSqlSafe(damage)).execute(&fleet.pool).await.unwrap();
        let refused = connect(&fleet.db).await.unwrap_err();
        assert_eq!(refused.reason(), Reason::SettingsMissing);
        assert!(!refused.is_retryable());
        let StoreError::SettingsMissing { statements, .. } = refused else { panic!("{refused:?}") };
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&fleet.pool).await.unwrap();
        connect(&fleet.db).await.unwrap();
    }
}

#[tokio::test]
async fn migrating_writes_the_settings_where_they_are_not_in_force() {
    let db = TestDatabase::create_empty().await.unwrap();
    let store = Store::connect_unprepared(db.url(), StoreOptions::default()).await.unwrap();
    assert!(matches!(connect(&db).await, Err(StoreError::NotMigrated { .. })));
    store.migrate(None).await.unwrap();
    connect(&db).await.unwrap();
}

#[tokio::test]
async fn a_role_that_may_not_alter_the_other_is_told_what_somebody_else_has_to_run() {
    let fleet = Fleet::start().await;
    let own = fleet.db.name().replace("tenure_test", "humble");
    for made in [format!("CREATE ROLE {own} LOGIN"), format!("CREATE ROLE {own}_other LOGIN")] {
        sqlx::query(AssertSqlSafe(made)).execute(&fleet.pool).await.unwrap();
    }
    let mut url = url_of(&fleet.db, &own);
    let humble = Store::connect_unprepared(&url, StoreOptions::default()).await.unwrap();
    humble.prepare_role(None).await.expect("a role may alter its own settings");
    let refused = humble.prepare_role(Some(&format!("{own}_other"))).await.unwrap_err();
    let StoreError::SettingsMissing { statements, .. } = refused else { panic!("{refused:?}") };
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(&fleet.pool).await.unwrap();
    url = url_of(&fleet.db, &format!("{own}_other"));
    let other = Store::connect_unprepared(&url, StoreOptions::default()).await.unwrap();
    other.check_settings().await.unwrap();
}

/// The same address for another role.
fn url_of(db: &TestDatabase, role: &str) -> String {
    let (scheme, rest) = db.url().split_once("://").unwrap();
    let after_role = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    format!("{scheme}://{role}@{after_role}")
}
