//! The program `with-postgres`: what its command sees, and what comes back.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_with-postgres")).args(arguments).output().unwrap()
}

#[test]
fn command_reaches_the_server_and_its_exit_code_comes_back() {
    let script = r#"psql -X -A -t -c "SELECT 6 * 7" "$TENURE_TEST_DATABASE_URL"; exit 9"#;
    let output = run(&["--", "sh", "-c", script]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "42");
    assert_eq!(output.status.code(), Some(9));
}

#[test]
fn durability_is_given_up_only_where_asked() {
    let script = r#"psql -X -A -t -c "SHOW fsync" -c "SHOW synchronous_commit" "$TENURE_TEST_DATABASE_URL""#;
    let durable = run(&["sh", "-c", script]);
    assert_eq!(String::from_utf8_lossy(&durable.stdout), "on\non\n");
    let fast = run(&["--no-fsync", "sh", "-c", script]);
    assert_eq!(String::from_utf8_lossy(&fast.stdout), "off\non\n");
}

#[test]
fn absent_binaries_are_reported_and_the_command_does_not_run() {
    let output = Command::new(env!("CARGO_BIN_EXE_with-postgres"))
        .args(["echo", "ran"])
        .env("TENURE_PG_BIN", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("install it"));
}
