//! Bad input gets its reason code, and leaves nothing behind. What a fleet file can have wrong is tested beside the
//! program itself, which needs no fleet for it.

use std::{
    fs,
    net::TcpListener,
    process::{Command, Output},
};

use tenure_postgres::{Options, Server, Stop};

use crate::fixture::{Fleet, program, refusal_code};

const AGENTS: &str = r#"
[agents.small]
command = ["true"]
input-limit = "8 B"
"#;

async fn count_jobs(fleet: &Fleet) -> i64 {
    let row: (i64,) =
        sqlx::query_as("SELECT count(*) FROM jobs").fetch_one(&fleet.cluster.database).await.unwrap();
    row.0
}

/// Provokes `UNKNOWN_AGENT`, `INPUT_TOO_LARGE`, `INVALID_ARGUMENT` and `KEY_REUSED`.
#[tokio::test(flavor = "multi_thread")]
async fn refused_submissions_name_their_reason_and_store_nothing() {
    let fleet = Fleet::start(AGENTS, &[]).await;
    let refused = |arguments: &[&str]| refusal_code(&fleet.try_run(arguments));
    assert_eq!(refused(&["submit", "smal", "--json"]), "UNKNOWN_AGENT");
    assert_eq!(refused(&["submit", "small", "--input", "nine bytes", "--json"]), "INPUT_TOO_LARGE");
    let long = "k".repeat(513);
    assert_eq!(refused(&["submit", "small", "--key", &long, "--json"]), "INVALID_ARGUMENT");
    assert_eq!(count_jobs(&fleet).await, 0);

    let first = fleet.cluster.run(&["submit", "small", "--input", "a", "--key", "k"]).unwrap();
    assert_eq!(refused(&["submit", "small", "--input", "b", "--key", "k", "--json"]), "KEY_REUSED");
    let again = fleet.cluster.run(&["submit", "small", "--input", "a", "--key", "k"]).unwrap();
    assert_eq!(again, first);
    assert_eq!(count_jobs(&fleet).await, 1);
}

/// Provokes `JOB_ID_INVALID` and `JOB_NOT_FOUND`.
#[tokio::test(flavor = "multi_thread")]
async fn job_ids_that_name_no_job_are_refused() {
    let fleet = Fleet::start(AGENTS, &[]).await;
    let refused = |id: &str| refusal_code(&fleet.try_run(&["job", id, "--json"]));
    assert_eq!(refused("abc"), "JOB_ID_INVALID");
    assert_eq!(refused("not-hex-at-all"), "JOB_ID_INVALID");
    assert_eq!(refused("0123456789"), "JOB_NOT_FOUND");
    assert_eq!(refused("01890000-0000-7000-8000-000000000000"), "JOB_NOT_FOUND");
}

/// Provokes `DATABASE_UNAVAILABLE`.
#[tokio::test(flavor = "multi_thread")]
async fn database_that_goes_away_is_unavailable_and_comes_back() {
    let mut fleet = Fleet::start(AGENTS, &[]).await;
    tokio::task::block_in_place(|| fleet.cluster.postgres.stop(Stop::Immediate));
    let output = fleet.try_run(&["jobs", "--json"]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(refusal_code(&output), "DATABASE_UNAVAILABLE");
    tokio::task::block_in_place(|| fleet.cluster.postgres.start_again()).unwrap();
    tenure_testkit::wait_for("the fleet to come back", crate::fixture::PATIENCE, async || {
        let output = fleet.try_run(&["submit", "small", "--key", "after"]);
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    })
    .await;
}

/// Starts a coordinator that is expected to refuse.
fn refused_coordinator(url: &str, listen: &str) -> Output {
    Command::new(program())
        .args(["coordinator", "--json", "--database-url", url, "--listen", listen, "--http", "127.0.0.1:0"])
        .args(["--wait-for-database", "1s"])
        .output()
        .unwrap()
}

/// Provokes `NOT_MIGRATED`, `PORT_IN_USE`, `LOOPBACK_ONLY` and `DATABASE_TOO_NEW`.
#[test]
fn coordinator_says_what_is_wrong_with_its_database_or_port() {
    let mut postgres = Server::start(Options::default()).unwrap();
    let url = postgres.url("postgres");
    assert_eq!(refusal_code(&refused_coordinator(&url, "127.0.0.1:0")), "NOT_MIGRATED");

    let migrate = || Command::new(program()).args(["migrate", "--database-url", &url]).output().unwrap();
    assert!(migrate().status.success());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_eq!(refusal_code(&refused_coordinator(&url, &address)), "PORT_IN_USE");
    assert_eq!(refusal_code(&refused_coordinator(&url, "0.0.0.0:0")), "LOOPBACK_ONLY");

    let psql = postgres.binaries().program("psql");
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (999999, 'from a newer release', true, '', 0)";
    assert!(Command::new(psql).arg(&url).args(["-c", newer]).status().unwrap().success());
    assert_eq!(refusal_code(&refused_coordinator(&url, "127.0.0.1:0")), "DATABASE_TOO_NEW");

    postgres.stop(Stop::Immediate);
    let output = refused_coordinator(&url, "127.0.0.1:0");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(refusal_code(&output), "DATABASE_UNAVAILABLE");
}

/// Provokes `POSTGRES_NOT_FOUND`.
#[test]
fn dev_without_postgresql_says_what_to_install() {
    let empty = tempfile::tempdir().unwrap();
    fs::create_dir(empty.path().join("bin")).unwrap();
    let output = Command::new(program())
        .args(["dev", "--json", "--data-dir"])
        .arg(empty.path().join("data"))
        .env("TENURE_PG_BIN", empty.path().join("bin"))
        .output()
        .unwrap();
    assert_eq!(refusal_code(&output), "POSTGRES_NOT_FOUND");
}
