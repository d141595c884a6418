//! Behind a pooler that shares connections out by the transaction: nothing is left in a session that the next client would
//! miss or meet. Shown twice: by what a coordinator says to its database, and by a real PgBouncer where there is one.

mod pgbouncer;
mod wire;

use tenure_coordinator::CoordinatorOptions;
use tenure_proto::v1::{self, JobState, run_end::How};

use crate::{
    fleet::{Fleet, PATIENCE},
    worker::{Worker, applied, introduction, register},
};
use pgbouncer::PgBouncer;
use wire::Wire;

/// What a pooler takes from a client that connects, and keeps apart for it.
const TRACKED: [&str; 6] =
    ["user", "database", "client_encoding", "DateStyle", "TimeZone", "application_name"];

/// What would be left in a session.
const LEAVES_STATE: [&str; 12] = [
    "SET ",
    "RESET ",
    "LISTEN",
    "UNLISTEN",
    "DISCARD",
    "PREPARE",
    "DEALLOCATE",
    "DECLARE",
    "LOAD ",
    "CREATE TEMP",
    "PG_ADVISORY_LOCK",
    "SET_CONFIG",
];

/// Everything that a coordinator is asked, once: submitting, starting, noting, ending, cancelling, watching, listing.
async fn carry_jobs_through(fleet: &Fleet) {
    let (second, channel) = fleet.start_another().await;
    let mut worker = Worker::start(fleet, "w1", 2).await;
    let (kept, ended) = (fleet.submit("plain").await, fleet.submit("plain").await);
    let grants = [worker.hear_grant().await, worker.hear_grant().await];
    for grant in &grants {
        applied(worker.note(grant, 1, "a note").await);
    }
    fleet.cancel(&kept).await.unwrap();
    worker.hear_order().await;
    let other = grants.iter().find(|grant| grant.run.as_ref().unwrap().job_id == ended).unwrap();
    applied(worker.end(other, 2, How::ExitCode(0)).await);
    worker.renew(Some(Vec::new())).await;
    fleet.job_in(&ended, JobState::Succeeded).await;
    let watched = v1::WatchJobRequest { job: ended.clone(), from_seq: 1 };
    let mut watch = fleet.jobs().watch_job(watched).await.unwrap().into_inner();
    let mut count = 0;
    while watch.message().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 5);
    fleet.jobs().list_jobs(v1::ListJobsRequest::default()).await.unwrap();
    let registration = register(&channel, introduction("w2")).await;
    let mut elsewhere = Worker::attach(&channel, &registration).await.unwrap();
    elsewhere.want(1).await;
    let job = fleet.submit("plain").await;
    let grant = elsewhere.hear_grant().await;
    applied(elsewhere.end(&grant, 1, How::ExitCode(0)).await);
    fleet.job_in(&job, JobState::Succeeded).await;
    second.shutdown(PATIENCE).await;
}

#[tokio::test]
async fn a_coordinator_leaves_nothing_in_its_sessions_but_prepared_statements() {
    let mut wire = None;
    let fleet = Fleet::start_through(async |database| {
        let (listening, url) = Wire::before(database).await;
        wire = Some(listening);
        url
    })
    .await;
    carry_jobs_through(&fleet).await;
    let wire = wire.unwrap();
    let asked = wire.parameters();
    assert!(asked.iter().any(|name| name == "application_name"), "{asked:?}");
    assert!(asked.iter().all(|name| TRACKED.contains(&name.as_str())), "{asked:?}");
    let statements = wire.statements();
    for seen in ["INSERT INTO JOURNAL", "UPDATE TERMS", "PG_NOTIFY", "BEGIN ISOLATION"] {
        assert!(statements.iter().any(|statement| statement.contains(seen)), "nobody said {seen}");
    }
    // What is set for a transaction ends with it.
    for statement in statements.iter().filter(|statement| !statement.starts_with("SET LOCAL ")) {
        let left = LEAVES_STATE.iter().find(|left| {
            statement.starts_with(**left)
                || (left.starts_with("PG_") || left.ends_with("CONFIG")) && statement.contains(**left)
        });
        assert_eq!(left, None, "{statement}");
    }
}

#[tokio::test]
async fn jobs_go_through_pgbouncer_that_shares_two_connections_by_the_transaction() {
    let program = match pgbouncer::find_program() {
        Ok(program) => program,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let mut pooler = None;
    let fleet = Fleet::start_through(async |database| {
        let (started, url) = PgBouncer::start(&program, database).await;
        pooler = Some(started);
        url
    })
    .await;
    for _ in 0..3 {
        carry_jobs_through(&fleet).await;
    }
    let pool = fleet.pool().await;
    let servers: i64 = sqlx::query_scalar(
        "SELECT count(pid) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
            AND application_name = 'tenure coordinator'",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert!(
        servers <= i64::from(pgbouncer::CONNECTIONS),
        "{servers} connections, so the pooler was passed by"
    );
}

/// Coordinators that reach their database through something, and listen without it.
fn through(url: String, direct: String) -> impl Fn(&mut CoordinatorOptions) {
    move |options| {
        options.database_url.clone_from(&url);
        options.listen_database_url = Some(direct.clone());
    }
}

impl Fleet {
    async fn start_through(before: impl AsyncFnOnce(&tenure_testkit::TestDatabase) -> String) -> Self {
        let database = tenure_testkit::TestDatabase::create().await.unwrap();
        let url = before(&database).await;
        let change = through(url, database.url().to_owned());
        Self::start_on(database, change).await
    }
}
