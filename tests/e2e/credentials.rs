//! Credentials of real processes: made, given, ended, and never to be found anywhere but where they were given.

use std::{fs, process::Output};

use sqlx::AssertSqlSafe;
use tenure_postgres::Options;
use tenure_testkit::{Cluster, wait_for};

use crate::fixture::{Fleet, PATIENCE, program};

/// Whatever it can see of its surroundings: its environment, that of its parent, and the arguments of all that it sees.
const NOSY: &str = r#"
[agents.nosy]
script = """
env
tr '\\0' '\\n' < /proc/$PPID/environ
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '
tenure note "looked around"
"""
"#;

/// The random part of a token.
fn secret_of(token: &str) -> &str {
    token.splitn(3, '_').nth(2).unwrap()
}

fn refusal_code(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let error: serde_json::Value = serde_json::from_str(stderr.lines().last().unwrap_or_default())
        .unwrap_or_else(|_| panic!("an error in JSON, and not {stderr}"));
    error["code"].as_str().unwrap().to_owned()
}

/// Everything that the database holds, as text.
async fn read_tables(fleet: &Fleet) -> String {
    let tables: Vec<(String,)> =
        sqlx::query_as("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
            .fetch_all(&fleet.cluster.database)
            .await
            .unwrap();
    let mut text = String::new();
    for (table,) in tables {
        let statement = format!("SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} AS t");
        let (rows,): (String,) =
            sqlx::query_as(AssertSqlSafe(statement)).fetch_one(&fleet.cluster.database).await.unwrap();
        text.push_str(&rows);
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_in_no_log_record_output_error_argument_or_environment() {
    let mut cluster = Cluster::start_database(program(), Options::default()).await.unwrap();
    cluster.require_tokens().unwrap();
    let url = cluster.postgres.url("postgres");
    cluster.start_coordinator_with("c1", &url, &["--log", "trace"]).await.unwrap();
    // Where there is one to pass on, none is: neither to a guardian nor to a child.
    let given = cluster.token().unwrap().to_owned();
    cluster.set_environment("TENURE_TOKEN", given);
    cluster.start_worker("w1", &["--log", "trace"]).unwrap();
    let fleet = Fleet::with_cluster(cluster, NOSY);
    let job = fleet.submit("nosy", "");
    fleet.wait_for_state(job, "succeeded").await;
    let output = fleet.cluster.run(&["output", &job.to_string()]).unwrap();
    assert!(output.contains("TENURE_SOCKET") && output.contains("/script"), "{output}");
    assert!(output.contains("guard"), "it saw its guardian: {output}");
    let journal = fleet.cluster.run(&["journal", &job.to_string(), "--json"]).unwrap();
    assert!(journal.contains("authenticated") && journal.contains("cluster"), "{journal}");
    let token = fleet.cluster.token().unwrap().to_owned();
    let secret = secret_of(&token);
    let in_hex = hex::encode(secret);
    let mut places = vec![("output", output), ("journal", journal), ("database", read_tables(&fleet).await)];
    let of_process = |pid, what| {
        let held = fs::read(format!("/proc/{pid}/{what}")).unwrap();
        String::from_utf8_lossy(&held).into_owned()
    };
    let (coordinator, worker) =
        (fleet.cluster.coordinator_pid("c1").unwrap(), fleet.cluster.worker_pid("w1").unwrap());
    for (pid, verb) in [(coordinator, "coordinator"), (worker, "worker")] {
        let arguments = of_process(pid, "cmdline");
        assert!(arguments.contains(verb), "{arguments}");
        places.push(("arguments", arguments));
    }
    places.push(("environment", of_process(coordinator, "environ")));
    assert!(
        of_process(worker, "environ").contains(&token),
        "the worker was given it there, and passed it on to nobody"
    );
    for name in ["c1", "w1"] {
        let log = fs::read_to_string(fleet.cluster.log_path(name)).unwrap();
        assert!(log.contains("TRACE"), "{name} logs little");
        places.push((name, log));
    }
    let kept = fs::read_to_string(fleet.cluster.tokens_path().unwrap()).unwrap();
    places.push(("file of tokens", kept));
    for (place, text) in places {
        assert!(!text.contains(secret) && !text.contains(&in_hex), "the token is in the {place}");
    }
}

/// Provokes `TOKENS_UNREADABLE`.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_presented_wrongly_is_not_repeated() {
    let fleet = Fleet::with_cluster(Cluster::start_guarded(program()).await.unwrap(), NOSY);
    let token = fleet.cluster.token().unwrap().to_owned();
    let (unknown, mistyped) = (format!("{token}x"), token.replacen("tenure_", "tenur_", 1));
    for (presented, code) in [(unknown.as_str(), "CREDENTIAL_INVALID"), (&mistyped, "TOKENS_UNREADABLE")] {
        let output =
            fleet.cluster.tenure(&["jobs", "--json"]).env("TENURE_TOKEN", presented).output().unwrap();
        assert_eq!((refusal_code(&output).as_str(), output.status.code()), (code, Some(1)));
        let said = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains(secret_of(&token)));
    }
    let nobody = fleet.cluster.tenure(&["jobs", "--json"]).env_remove("TENURE_TOKEN").output().unwrap();
    assert_eq!(refusal_code(&nobody), "CREDENTIAL_MISSING");
    assert!(
        fleet.cluster.tenure(&["ping", "--ready"]).env_remove("TENURE_TOKEN").status().unwrap().success()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_the_database_are_made_listed_and_revoked_while_the_fleet_runs() {
    let fleet = Fleet::with_cluster(Cluster::start_guarded(program()).await.unwrap(), NOSY);
    let url = fleet.cluster.postgres.url("postgres");
    let in_database = |arguments: &[&str]| {
        let mut command = fleet.cluster.tenure(&[&["token"], arguments].concat());
        let output = command.env("TENURE_DATABASE_URL", &url).env_remove("TENURE_TENANT").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let made =
        ["new", "--quiet", "--tenant", "default", "--actor", "ada", "--scope", "read", "--expires-in", "1h"];
    let token = in_database(&made).trim().to_owned();
    let id = token.split('_').nth(1).unwrap().to_owned();
    assert!(in_database(&["list"]).contains(&id));
    let ask = |arguments: &[&str]| {
        let mut command = fleet.cluster.tenure(arguments);
        command.env("TENURE_TOKEN", &token).env_remove("TENURE_TENANT").output().unwrap()
    };
    wait_for("the token to be known", PATIENCE, async || {
        let output = ask(&["jobs", "--json"]);
        if output.status.success() { Ok(()) } else { Err(refusal_code(&output)) }
    })
    .await;
    assert_eq!(refusal_code(&ask(&["submit", "nosy", "--input", "", "--json"])), "SCOPE_MISSING");
    in_database(&["revoke", &id]);
    wait_for("the token to be worth nothing", PATIENCE, async || {
        let output = ask(&["jobs", "--json"]);
        if output.status.success() { Err("it is let in") } else { Ok(refusal_code(&output)) }
    })
    .await;
    assert_eq!(refusal_code(&ask(&["jobs", "--json"])), "CREDENTIAL_INVALID");
}
