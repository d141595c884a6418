//! The schema: made, compared, refused; what no program may write; partitions.

use std::path::Path;

use sqlx::{AssertSqlSafe, migrate::Migrator};
use tenure_core::credential::Tenants;
use tenure_store::{Store, StoreError, StoreOptions};
use tenure_testkit::TestDatabase;

use crate::fleet::Fleet;

async fn empty() -> (TestDatabase, Store) {
    let db = TestDatabase::create_empty().await.unwrap();
    let store = Store::connect_unprepared(db.url(), StoreOptions::default()).await.unwrap();
    (db, store)
}

/// Every column, constraint, index, function and view, as one sorted text.
async fn describe(db: &TestDatabase) -> Vec<String> {
    let pool = db.connect(1).await.unwrap();
    let sql = "
        SELECT format('column %s.%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
            a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
        FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND c.relname <> '_sqlx_migrations'
        UNION ALL
        SELECT format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        UNION ALL
        SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL
        SELECT format('function %s', pg_get_functiondef(oid)) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION ALL
        SELECT format('view %s %s', viewname, definition) FROM pg_views WHERE schemaname = 'public'
        ORDER BY 1";
    sqlx::query_scalar(sql).fetch_all(&pool).await.unwrap()
}

#[tokio::test]
async fn fresh_schema_equals_one_that_was_migrated_step_by_step() {
    let (fresh, store) = empty().await;
    store.migrate(None).await.unwrap();
    let (stepwise, store) = empty().await;
    let all =
        Migrator::new(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations"))).await.unwrap();
    let pool = stepwise.connect(1).await.unwrap();
    for count in 1..=all.iter().count() {
        let mut some = Migrator::DEFAULT;
        some.migrations = all.iter().take(count).cloned().collect::<Vec<_>>().into();
        some.run(&pool).await.unwrap();
    }
    store.migrate(None).await.unwrap();
    let (fresh, stepwise) = (describe(&fresh).await, describe(&stepwise).await);
    assert!(fresh.len() > 100, "{fresh:#?}");
    assert_eq!(fresh, stepwise);
}

#[tokio::test]
async fn database_that_is_not_migrated_is_named_and_then_migrated() {
    let (_db, store) = empty().await;
    let known = match store.check_schema().await {
        Err(StoreError::NotMigrated { found: 0, known }) => known,
        other => panic!("{other:?}"),
    };
    let state = store.migrate(None).await.unwrap();
    assert_eq!((state.found, state.known), (known, known));
    assert_eq!(store.check_schema().await.unwrap(), state);
    assert_eq!(store.migrate(None).await.unwrap(), state, "once more changes nothing");
}

#[tokio::test]
async fn database_of_a_newer_release_is_left_alone() {
    let fleet = Fleet::start().await;
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', true, '', 0)",
    )
    .execute(&fleet.pool)
    .await
    .unwrap();
    for refused in [fleet.store.check_schema().await, fleet.store.migrate(None).await] {
        assert!(matches!(refused, Err(StoreError::DatabaseTooNew { found: 9999, .. })), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_who_migrate_at_once_both_succeed() {
    let (db, _store) = empty().await;
    let racers: Vec<_> = (0..4)
        .map(|_| {
            let url = db.url().to_owned();
            tokio::spawn(async move {
                let store = Store::connect_unprepared(&url, StoreOptions::default()).await.unwrap();
                store.migrate(None).await
            })
        })
        .collect();
    for racer in racers {
        let state = racer.await.unwrap().unwrap();
        assert_eq!(state.found, state.known);
    }
}

#[tokio::test]
async fn impossible_rows_cannot_be_written() {
    let fleet = Fleet::start().await;
    let worker = fleet.attach("w1").await;
    let mut done = fleet.run_job(&worker).await;
    fleet.append(done.success()).await;
    fleet.run_job(&worker).await;
    fleet.submit().await;
    for (sql, constraint) in [
        ("UPDATE jobs SET state = 'sleeping'", "state_is_known"),
        ("UPDATE jobs SET state = 'running' WHERE state = 'ready'", "running_has_a_run"),
        ("UPDATE jobs SET state = 'interrupted' WHERE state = 'running'", "interrupted_says_why"),
        ("UPDATE jobs SET state = 'failed' WHERE state = 'running'", "concluded_has_a_head"),
        ("UPDATE jobs SET concluded_hash = NULL WHERE state = 'succeeded'", "concluded_head_is_whole"),
        ("UPDATE jobs SET state = 'cancelled' WHERE state = 'succeeded'", "cancelled_was_asked_for"),
        ("UPDATE jobs SET priority = 4", "jobs_priority_check"),
        ("UPDATE ready SET not_before = now()", "numbered_or_delayed"),
        ("UPDATE ready SET queue_no = NULL", "numbered_or_delayed"),
        ("UPDATE leases SET epoch = 0", "epoch_never_falls"),
        ("UPDATE leases SET epoch = 2", "unreleased_has_its_own_epoch"),
        ("UPDATE journal SET salt = NULL WHERE seq = 1", "value_has_its_salt"),
        ("UPDATE journal SET n = 1 WHERE seq = 1", "number_has_its_request"),
        ("UPDATE journal SET run = 1 WHERE seq = 1", "run_has_an_epoch"),
        ("UPDATE journal SET hash = 'short'", "journal_hash_check"),
        ("UPDATE terms SET closed_at = now()", "closed_after_it_lapsed"),
        ("UPDATE terms SET ttl_ms = 4999", "terms_ttl_ms_check"),
        ("UPDATE terms SET fencing = 'hope'", "terms_fencing_check"),
        ("INSERT INTO installation SELECT false, 1, '00000001', 1", "installation_only_row_check"),
        ("INSERT INTO installation SELECT true, 1, '00000001', 1", "installation_pkey"),
        ("UPDATE agents SET digest = sha256('')", "agents_tenant_digest_fkey"),
    ] {
        let error = sqlx::query(AssertSqlSafe(sql)).execute(&fleet.pool).await.expect_err(sql);
        let found = error.as_database_error().and_then(|error| error.constraint()).map(str::to_owned);
        assert_eq!(found.as_deref(), Some(constraint), "{sql}: {error}");
    }
}

#[tokio::test]
async fn impossible_effects_cannot_be_written() {
    let fleet = Fleet::start().await;
    let job = fleet.submit().await.job;
    let insert = |state: &str, outcome: &str, disposition: &str, attempt: &str| {
        format!(
            "INSERT INTO effects (tenant, job, key, attempt, state, recovery, mutates, tool, request, run, epoch,
                 announced_seq, outcome_seq, disposition, compensation)
             VALUES ('default', '{job}', 'push/main', {attempt}, '{state}', 'ask', true, 'push', sha256(''), 1, 1, 4,
                 {outcome}, {disposition}, 'undeclared')"
        )
    };
    for (sql, constraint) in [
        (insert("started", "5", "NULL", "1"), "started_has_no_outcome"),
        (insert("done", "NULL", "NULL", "1"), "started_has_no_outcome"),
        (insert("done", "4", "NULL", "1"), "outcome_follows_announcement"),
        (insert("failed", "5", "NULL", "1"), "outcome_says_what_became"),
        (insert("done", "5", "'landed'", "1"), "outcome_says_what_became"),
        (insert("reconciled", "5", "NULL", "1"), "outcome_says_what_became"),
        (insert("perhaps", "5", "NULL", "1"), "state_is_known"),
        (insert("started", "NULL", "NULL", "0"), "effects_attempt_check"),
    ] {
        let error = sqlx::query(AssertSqlSafe(sql.clone())).execute(&fleet.pool).await.expect_err(&sql);
        let found = error.as_database_error().and_then(|error| error.constraint()).map(str::to_owned);
        assert_eq!(found.as_deref(), Some(constraint), "{sql}: {error}");
    }
    let announce = insert("started", "NULL", "NULL", "1");
    sqlx::query(AssertSqlSafe(announce.clone())).execute(&fleet.pool).await.unwrap();
    let second =
        sqlx::query(AssertSqlSafe(announce)).execute(&fleet.pool).await.expect_err("announced twice");
    assert!(second.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation));
}

#[tokio::test]
async fn partitions_are_made_ahead_once_and_hold_their_months() {
    let fleet = Fleet::start().await;
    let at = "2031-05-31T23:59:59Z".parse().unwrap();
    let report = fleet.store.ensure_partitions(at).await.unwrap();
    assert_eq!(report.made, ["2031_05", "2031_06", "2031_07"]);
    assert!(report.live >= 6 && !report.too_many);
    let again = fleet.store.ensure_partitions(at).await.unwrap();
    assert_eq!((again.made, again.live), (Vec::new(), report.live));
    let attached = fleet
        .count(
            "SELECT count(*) FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
             WHERE c.relkind = 'r' AND c.relname ~ '^(jobs|journal|effects|output)_2031'",
        )
        .await;
    assert_eq!(attached, 12);
    let mut job = fleet.new_job();
    let stamp = uuid::Timestamp::from_unix(uuid::NoContext, 1_938_034_799, 0);
    job.job = tenure_core::id::JobId(uuid::Uuid::new_v7(stamp));
    fleet.submit_as(job).await;
    assert_eq!(fleet.count("SELECT count(*) FROM jobs_2031_05").await, 1);
    assert_eq!(fleet.count("SELECT count(*) FROM journal_2031_05").await, 2);
}

#[tokio::test]
async fn a_table_that_came_later_gets_the_months_that_have_jobs() {
    let fleet = Fleet::start().await;
    let at = "2031-05-31T23:59:59Z".parse().unwrap();
    fleet.store.ensure_partitions(at).await.unwrap();
    sqlx::query("DROP TABLE testimony_2031_05, testimony_2031_06").execute(&fleet.pool).await.unwrap();
    let later = "2031-12-01T12:00:00Z".parse().unwrap();
    let report = fleet.store.ensure_partitions(later).await.unwrap();
    assert_eq!(report.made[..2], ["2031_05", "2031_06"], "{report:?}");
    let months = "SELECT count(*) FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
                  WHERE c.relname IN ('testimony_2031_05', 'testimony_2031_06')";
    assert_eq!(fleet.count(months).await, 2);
    assert_eq!(fleet.store.ensure_partitions(later).await.unwrap().made, Vec::<String>::new());
}

#[tokio::test]
async fn more_partitions_than_statements_should_pay_for_are_a_warning() {
    let fleet = Fleet::start().await;
    let mut last = None;
    for year in 2041..=2051 {
        let at = format!("{year}-05-15T00:00:00Z").parse().unwrap();
        last = Some(fleet.store.ensure_partitions(at).await.unwrap());
    }
    let report = last.unwrap();
    assert!(report.too_many && report.live > 32, "{report:?}");
}

#[tokio::test]
async fn job_outside_every_partition_is_refused_as_data() {
    let fleet = Fleet::start().await;
    let mut job = fleet.new_job();
    let stamp = uuid::Timestamp::from_unix(uuid::NoContext, 4_000_000_000, 0);
    job.job = tenure_core::id::JobId(uuid::Uuid::new_v7(stamp));
    let refused = fleet.store.submit_jobs(&[job]).await;
    assert!(matches!(refused, Err(StoreError::Data { .. })), "{refused:?}");
    assert_eq!(fleet.count("SELECT count(*) FROM sessions").await, 0);
}

#[tokio::test]
async fn nobody_at_the_address_is_unavailable_and_the_address_is_not_told() {
    let options =
        StoreOptions { acquire_timeout: std::time::Duration::from_millis(300), ..StoreOptions::default() };
    let refused = Store::connect("postgres://user:hunter2@127.0.0.1:1/x", options.clone()).await.unwrap_err();
    assert!(refused.is_retryable() && matches!(refused, StoreError::Unavailable { .. }), "{refused:?}");
    let wrong = Store::connect("mysql:hunter2", options).await.unwrap_err();
    for error in [refused, wrong] {
        let told = format!("{error:?} {error}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[tokio::test]
async fn statement_that_waits_too_long_for_a_lock_may_be_sent_again() {
    let fleet = Fleet::start().await;
    let mut lock = fleet.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE terms IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let refused = fleet.store.list_workers(&Tenants::All, None, 1).await.unwrap_err();
    assert!(matches!(refused, StoreError::LockTimeout { .. }) && refused.is_retryable(), "{refused:?}");
    lock.rollback().await.unwrap();
    fleet.store.list_workers(&Tenants::All, None, 1).await.unwrap();
}
