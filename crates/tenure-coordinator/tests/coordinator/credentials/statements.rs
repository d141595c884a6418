//! What calls without a credential cost the database: nothing. PostgreSQL itself counts the statements.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use sqlx::PgPool;
use tenure_postgres::{Options, Server};
use tenure_proto::caller::CallerMetadata;
use tenure_testkit::{TestDatabase, wait_for};

use super::{matrix::made_up_calls, raw::call, scene::Scene, scene::issue};
use crate::fleet::{PATIENCE, Way, open_way};

const CLIENTS: usize = 300;

/// How often each statement ran in this database, but for the count itself.
async fn count(pool: &PgPool) -> BTreeMap<String, i64> {
    let counted = "SELECT s.query, sum(s.calls)::bigint FROM pg_stat_statements AS s
                   JOIN pg_database AS d ON d.oid = s.dbid
                   WHERE d.datname = current_database() AND s.query NOT LIKE '%pg_stat_statements%'
                   GROUP BY s.query";
    sqlx::query_as(counted).fetch_all(pool).await.unwrap().into_iter().collect()
}

/// Makes every call once, and is refused or answered without the database; returns how many calls that were.
async fn call_all(way: Way) -> usize {
    let calls = made_up_calls();
    for (method, message) in &calls {
        let answer = call(way.clone(), method, message.clone()).await;
        let open = method.starts_with("grpc.health");
        assert_eq!(answer.is_ok(), open, "{method}: {answer:?}");
    }
    calls.len()
}

/// A coordinator on a database of its own whose statements are counted from the beginning.
async fn start_counted(server: &Server) -> (Scene, PgPool) {
    let database = TestDatabase::create_on(&server.url("postgres")).await.unwrap();
    let pool = database.connect(1).await.unwrap();
    sqlx::query("CREATE EXTENSION pg_stat_statements").execute(&pool).await.unwrap();
    (Scene::start_on(database, |_| {}).await.0, pool)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_reaches_the_database_for_calls_without_a_credential() {
    let counting = Options::default().with_setting("shared_preload_libraries", "pg_stat_statements");
    let server = tokio::task::spawn_blocking(|| Server::start(counting)).await.unwrap().unwrap();
    let (scene, pool) = start_counted(&server).await;
    // Nobody ever calls its twin.
    let (_twin, twin_pool) = start_counted(&server).await;
    let (unknown, _) = issue("acme", &tenure_core::credential::Scope::ALL);
    let caller = |number: usize| {
        let token = number.is_multiple_of(2).then_some(&unknown);
        // Each has a connection of its own.
        call_all(open_way(&scene.coordinator, CallerMetadata::new(token, None)))
    };
    let calls: usize = join_all((0..CLIENTS).map(caller)).await.into_iter().sum();
    let during = count(&pool).await;
    assert!(calls > 6_000, "{calls}");
    let statements: i64 = during.values().sum();
    assert!(usize::try_from(statements).unwrap() < calls / 2, "{statements} statements: {during:?}");
    // Whatever ran here runs also where nobody calls.
    wait_for("the statements that ran to run by themselves", PATIENCE * 2, async || {
        let alone = count(&twin_pool).await;
        let caused: Vec<&String> = during.keys().filter(|query| !alone.contains_key(*query)).collect();
        if caused.is_empty() { Ok(()) } else { Err(format!("{caused:?}")) }
    })
    .await;
}
