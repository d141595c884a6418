//! The plans of the statements that carry the load, on a table with many finished jobs: each looks its rows up by the
//! index that its header names, also where the planner does not see the values (force_generic_plan).

use serde_json::Value;
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection, postgres::PgConnectOptions};

use crate::fleet::Fleet;

const FINISHED: i32 = 100_000;

/// What a statement may read of the large tables: only by these indexes.
struct Expected {
    query: &'static str,
    /// Any values: plans are made, nothing is run. JOB stands for an id of this month, so that its partition is looked at.
    arguments: &'static str,
    /// Parts of the names of the indexes that are used; partitions' names contain the month.
    indexes: &'static [&'static str],
}

macro_rules! query {
    ($path:literal) => {
        include_str!(concat!("../../queries/", $path))
    };
}

const HOT: [Expected; 14] = [
    Expected {
        query: query!("journal/append_records.sql"),
        arguments: "'{0}', '{default}', '{JOB}', '{1}', '{0}', '{1}', '{3}', '{00}',
            '{1}', '{2}', '{0}', '{null}', '{null}', '{t}', '{succeeded}', '{null}', '{null}', '{null}', '{null}', '{null}',
            '{null}', '{5}', '{00}', '{0}', '{default}', '{JOB}', '{4}', '{1}', '{1}',
            '{note}', '{1}', '{00}', '{now}', '{00}', '{00}', '{null}', '{null}', '{0}', '{default}', '{JOB}', '{4}', '{1}',
            '{1}', '{push}', '{1}', '{0}', '{started}', '{null}', '{ask}', '{t}', '{git}', '{undo}', '{00}', 10000, '{null}', '{null}', '{null}', '{null}', '{1}', '{1}', '{1}', '{1}', '{null}',
            '{0}', '{default}', '{JOB}', '{null}',
            '{0}', '{default}', '{JOB}', '{4}', '{JOB}', '{JOB}', '{plain}', '{00}', '{null}', '{null}', '{7}', '{1}', '{null}',
            '{null}', '{00}', '{00}', '{null}', '{64}', '{1}', '{null}', '{null}', '{somebody}',
            '{0}', '{default}', '{JOB}', '{4}',
            '{developer}', '{1}', '{1}', '{null}', '{00}', '{t}'",
        indexes: &["journal_pkey", "jobs_pkey", "leases_pkey", "ready_pkey", "effects_pkey", "sessions_pkey", "sends_pkey"],
    },
    Expected {
        query: query!("ready/pick_jobs.sql"),
        arguments: "'{3,2,1,0}', '{0,0,0,0}', '{default}', '{}', '{git}', 8, '{5}', '{tenure.handler/mailer=1}'",
        indexes: &["ready_queue", "jobs_pkey", "sessions_pkey", "declarations_pkey", "bundles_pkey", "journal_pkey"],
    },
    Expected {
        query: query!("ready/claim_jobs.sql"),
        arguments: "'w1', 1, 1, 1, '{0}', '{default}', '{JOB}', '{3}', '{00}', '{1}',
            '{1}', '{now}', '{00}', '{00}', '{00}', '{JOB}', '{t}', '{t}'",
        indexes: &["terms_pkey", "journal_pkey", "jobs_pkey", "sessions_pkey", "ready_pkey"],
    },
    Expected {
        query: query!("terms/renew_term.sql"),
        arguments: "'w1', 1, 1, 1",
        indexes: &["terms_pkey", "leases_term", "jobs_pkey"],
    },
    Expected {
        query: query!("leases/list_lapsed_leases.sql"),
        arguments: "32, 'now', 'default', 'JOB'",
        indexes: &["leases_term", "terms_pkey"],
    },
    Expected {
        query: query!("journal/read_tail.sql"),
        arguments: "'default', 'JOB', 3, 100",
        indexes: &["journal_pkey"],
    },
    Expected {
        query: query!("journal/read_records.sql"),
        arguments: "'default', 'JOB', 3, '{}', 100, 1000",
        indexes: &["journal_pkey"],
    },
    Expected {
        query: query!("jobs/read_facts.sql"),
        arguments: "'{0}', '{default}', '{JOB}', 20",
        indexes: &[
            "jobs_pkey",
            "sessions_pkey",
            "bundles_pkey",
            "journal_pkey",
            "leases_pkey",
            "terms_pkey",
            "ready_pkey",
            "effects_pkey",
        ],
    },
    Expected {
        query: query!("effects/read_last_attempt.sql"),
        arguments: "'default', 'JOB', 'push'",
        indexes: &["effects_pkey", "journal_pkey"],
    },
    Expected {
        query: query!("effects/list_effects.sql"),
        arguments: "'default', 'JOB', 0, false, 100, 1000",
        indexes: &["effects_pkey", "journal_pkey", "leases_pkey"],
    },
    Expected {
        query: query!("effects/read_standings.sql"),
        arguments: "'{0}', '{default}', '{JOB}', '{push}'",
        indexes: &["effects_pkey"],
    },
    Expected {
        query: query!("testimony/keep_testimony.sql"),
        arguments: "'{default}', '{JOB}', '{1}', '{1}', '{0}', '{1}', '{push}', '{1}', '{done}', '{null}', '{null}', 8",
        indexes: &["effects_pkey", "testimony_pkey"],
    },
    Expected {
        query: query!("sessions/list_session_jobs.sql"),
        arguments: "'default', 'JOB', 100",
        indexes: &["jobs_session_idx"],
    },
    Expected {
        query: query!("jobs/find_jobs_by_ending.sql"),
        arguments: "'default', 'abcdef', 2",
        indexes: &["jobs_right_idx"],
    },
];

/// Finished jobs of this month, with three records and two effects each, and a few that are not.
async fn fill(fleet: &Fleet) {
    let statements = [
        "CREATE TEMPORARY TABLE made AS
         SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '70008000'
             || lpad(to_hex(g), 12, '0'))::uuid AS job, g FROM generate_series(1, $1) AS g",
        "INSERT INTO sessions (tenant, session, started_at, hops, run_cap, budget_micros)
         SELECT 'default', job, now(), 8, 64, 1 FROM made",
        "INSERT INTO jobs (tenant, job, session, agent, declaration, state, run, hops_left, priority, recovery,
             concluded_seq, concluded_hash)
         SELECT 'default', job, job, 'notes', sha256(''), 'succeeded', 1, 8, 1, '{}', 3, sha256('') FROM made",
        "INSERT INTO journal (tenant, job, seq, generation, epoch, run, kind, at, bytes, hash)
         SELECT 'default', job, seq, 1, 1, 1, 'note', now(), '{}', sha256('')
         FROM made, generate_series(1, 3) AS seq",
        "INSERT INTO effects (tenant, job, key, attempt, state, recovery, mutates, tool, request, run, epoch,
             announced_seq, outcome_seq, compensation)
         SELECT 'default', job, 'push/' || key, 1, 'done', 'ask', true, 'push', sha256(''), 1, 1, 4, 5, 'undeclared'
         FROM made, generate_series(1, 2) AS key",
        "INSERT INTO leases (tenant, job, epoch, run_epoch, run, generation, worker, term, attach, secret_hash)
         SELECT 'default', job, 1, 1, 1, 1, 'w' || g % 100, 1, 1, sha256('') FROM made WHERE g % 20 = 0",
        "INSERT INTO terms (worker, term, secret_hash, tenants, labels, agents, slots, ttl_ms, fencing, version,
             expires_at, answer)
         SELECT 'w' || g, 1, sha256(''), '{default}', '{}', '{}', 4, 30000, 'kernel', '1', now(), 1
         FROM generate_series(1, 1000) AS g",
        "INSERT INTO ready (tenant, job, agent, priority, queue_no, requires, cause)
         SELECT 'default', job, 'notes', 1, nextval('queue_numbers'), '{}', '{}' FROM made WHERE g % 20 = 1",
        "DROP TABLE made",
    ];
    let mut connection = fleet.pool.acquire().await.unwrap();
    for sql in statements {
        let query = sqlx::query(sql);
        let query = if sql.contains("$1") { query.bind(FINISHED) } else { query };
        query.execute(&mut *connection).await.unwrap_or_else(|error| panic!("{error}: {sql}"));
    }
}

/// Gathers statistics as the server does by itself: of what has rows. A table that was analyzed while it was empty costs the
/// same by its key as whole, and either may be chosen until it is analyzed again, which the server does soon after it fills.
async fn analyze(fleet: &Fleet) {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT oid::regclass::text FROM pg_class
         WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0",
    )
    .fetch_all(&fleet.pool)
    .await
    .unwrap();
    assert!(tables.len() > 8, "{tables:?}");
    let sql = format!("ANALYZE {}", tables.join(", "));
    sqlx::query(AssertSqlSafe(sql)).execute(&fleet.pool).await.unwrap();
}

/// A connection with the settings of the store's own, which stand on the role.
async fn connect_like_the_store(fleet: &Fleet) -> PgConnection {
    let options: PgConnectOptions = fleet.db.url().parse().unwrap();
    options.connect().await.unwrap()
}

async fn explain(connection: &mut PgConnection, expected: &Expected, mode: &str) -> Value {
    let prepare = format!("PREPARE hot AS {}", expected.query);
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("SET plan_cache_mode = {mode}")))
        .execute(&mut *connection)
        .await
        .unwrap();
    let arguments = expected.arguments.replace("JOB", &uuid::Uuid::now_v7().to_string());
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE hot ({arguments})");
    let plan = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut *connection).await.unwrap();
    sqlx::raw_sql("DEALLOCATE hot").execute(connection).await.unwrap();
    let text: String = sqlx::Row::try_get_unchecked(&plan, 0).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The nodes of a plan that read tables: (node, table, index, has a condition on the index).
fn scans(plan: &Value, found: &mut Vec<(String, String, String, bool)>) {
    match plan {
        Value::Array(parts) => parts.iter().for_each(|part| scans(part, found)),
        Value::Object(node) => {
            let text = |key: &str| node.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            if node.get("Node Type").and_then(Value::as_str).is_some_and(|kind| kind.contains("Scan")) {
                let table = text("Relation Name") + &text("Index Name");
                if !table.is_empty() {
                    let conditional = node.contains_key("Index Cond");
                    found.push((text("Node Type"), text("Relation Name"), text("Index Name"), conditional));
                }
            }
            node.values().for_each(|part| scans(part, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A partition's index under the name of its parent: `journal_2026_11_pkey` is `journal_pkey`.
fn without_month(index: &str) -> String {
    let parts: Vec<_> = index.split('_').filter(|part| part.parse::<u32>().is_err()).collect();
    parts.join("_")
}

async fn check_plans(fleet: &Fleet, when: &str) {
    let mut connection = connect_like_the_store(fleet).await;
    for expected in &HOT {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let plan = explain(&mut connection, expected, mode).await;
            let mut found = Vec::new();
            scans(&plan, &mut found);
            let title = expected.query.lines().next().unwrap();
            for (node, table, index, conditional) in &found {
                // One row; and a handful of halts, which are looked through.
                let small = ["installation", "halts"].iter().any(|it| table == it || index.starts_with(it));
                assert!(small || *conditional, "{when}, {mode}, {title}: {node} of {table}{index}\n{plan:#}");
            }
            let used: Vec<_> = found.iter().map(|(.., index, _)| without_month(index)).collect();
            for index in expected.indexes {
                assert!(
                    used.iter().any(|used| used == index),
                    "{when}, {mode}, {title}: not by {index}, {used:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn hot_statements_look_rows_up_by_their_indexes_whatever_the_size_of_the_tables() {
    let fleet = Fleet::start().await;
    check_plans(&fleet, "empty").await;
    fill(&fleet).await;
    check_plans(&fleet, "full, without statistics").await;
    analyze(&fleet).await;
    check_plans(&fleet, "full, with statistics").await;
}

#[tokio::test]
async fn listing_reads_backwards_along_the_key_and_sorts_nothing() {
    let fleet = Fleet::start().await;
    fill(&fleet).await;
    analyze(&fleet).await;
    let mut connection = connect_like_the_store(&fleet).await;
    let listing = Expected {
        query: query!("jobs/list_jobs.sql"),
        arguments: "'default', 'ffffffff-0000-0000-0000-000000000000', '{}', null, null, '{}', 50",
        indexes: &[],
    };
    let plan = explain(&mut connection, &listing, "force_generic_plan").await;
    let text = plan.to_string();
    assert!(!text.contains("\"Sort\""), "{plan:#}");
    let mut found = Vec::new();
    scans(&plan, &mut found);
    assert!(found.iter().any(|(_, _, index, _)| without_month(index) == "jobs_pkey"), "{plan:#}");
}
