//! Test databases on a real server: fresh, apart from each other, gone afterwards.
#![allow(clippy::unwrap_used, reason = "tests")]

use sqlx::{Connection as _, PgConnection, Row as _};
use tenure_testkit::TestDatabase;

async fn exists(connection: &mut PgConnection, name: &str) -> bool {
    sqlx::query("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1) AS present")
        .bind(name)
        .fetch_one(connection)
        .await
        .unwrap()
        .get("present")
}

async fn count_tables(database: &TestDatabase) -> i64 {
    let pool = database.connect(1).await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        .fetch_one(&pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn databases_made_at_the_same_time_are_migrated_and_apart() {
    let (one, two, three) =
        tokio::join!(TestDatabase::create(), TestDatabase::create(), TestDatabase::create());
    let (one, two, _three) = (one.unwrap(), two.unwrap(), three.unwrap());
    let migrated = count_tables(&one).await;
    assert!(migrated > 0);
    let pool = one.connect(1).await.unwrap();
    sqlx::query("CREATE TABLE mine ()").execute(&pool).await.unwrap();
    assert_eq!(count_tables(&one).await, migrated + 1);
    assert_eq!(count_tables(&two).await, migrated);
}

#[tokio::test]
async fn empty_database_has_no_table() {
    let database = TestDatabase::create_empty().await.unwrap();
    assert_eq!(count_tables(&database).await, 0);
}

#[tokio::test]
async fn database_is_gone_after_its_test_even_while_somebody_is_connected() {
    let keeper = TestDatabase::create_empty().await.unwrap();
    let database = TestDatabase::create_empty().await.unwrap();
    let _open = PgConnection::connect(database.url()).await.unwrap();
    let mut connection = PgConnection::connect(keeper.url()).await.unwrap();
    let name = database.name().to_owned();
    assert!(exists(&mut connection, &name).await);
    drop(database);
    assert!(!exists(&mut connection, &name).await);
}
