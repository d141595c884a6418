//! What keeps a coordinator or a worker from starting, before any database is asked. What its database keeps it from is
//! tested end to end.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use crate::program::{nobody, run, tenure};

/// An address of a database that nobody has; it is asked for last.
const NOWHERE: &str = "postgres://tenure:hunter2@127.0.0.1:9/tenure";

fn refused(arguments: &[&str]) -> serde_json::Value {
    let ended = run(&[&["--json", "coordinator", "--database-url", NOWHERE], arguments].concat());
    assert!(!ended.stderr.contains("hunter2"), "{ended:?}");
    assert!(ended.stdout.is_empty(), "{ended:?}");
    let last = ended.stderr.lines().last().unwrap();
    let mut error: serde_json::Value = serde_json::from_str(last).unwrap();
    error["exit"] = ended.code.into();
    error
}

#[test]
fn probes_are_served_on_loopback_alone() {
    let error = refused(&["--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"]);
    assert_eq!((&error["code"], &error["exit"]), (&"LOOPBACK_ONLY".into(), &1.into()), "{error}");
}

#[test]
fn an_address_that_is_not_loopback_wants_tls() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    let tokens = tokens.path().to_str().unwrap();
    let error = refused(&["--listen", "0.0.0.0:0", "--http", "127.0.0.1:0", "--tokens", tokens]);
    assert_eq!((&error["code"], &error["exit"]), (&"TLS_REQUIRED".into(), &1.into()), "{error}");
}

#[test]
fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for arguments in
        [&["--listen", &address, "--http", "127.0.0.1:0"], &["--listen", "127.0.0.1:0", "--http", &address]]
    {
        let error = refused(arguments);
        assert_eq!((&error["code"], &error["exit"]), (&"PORT_IN_USE".into(), &1.into()), "{error}");
        assert!(error["message"].as_str().unwrap().contains(&address), "{error}");
    }
}

#[test]
fn a_database_that_does_not_answer_is_unavailable_after_the_wait() {
    let error = refused(&["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--wait-for-database", "0s"]);
    assert_eq!((&error["code"], &error["exit"]), (&"DATABASE_UNAVAILABLE".into(), &4.into()), "{error}");
    let ended = run(&["--json", "migrate", "--database-url", NOWHERE]);
    assert_eq!((ended.code, ended.error()["code"].as_str()), (4, Some("DATABASE_UNAVAILABLE")), "{ended:?}");
    assert!(!ended.stderr.contains("hunter2"), "{ended:?}");
}

#[test]
fn an_address_that_is_no_database_is_refused() {
    let ended = run(&["--json", "migrate", "--database-url", "mysql://tenure:hunter2@localhost/tenure"]);
    assert_eq!((ended.code, ended.error()["code"].as_str()), (2, Some("INVALID_ARGUMENT")), "{ended:?}");
    assert!(!ended.stderr.contains("hunter2"), "{ended:?}");
}

#[test]
fn the_address_of_the_database_is_read_from_a_file_where_none_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("database-url");
    let migrate = |arguments: &[&str]| {
        let ended =
            run(&[&["--json", "migrate", "--database-url-file", file.to_str().unwrap()], arguments].concat());
        assert!(!ended.stderr.contains("hunter2"), "{ended:?}");
        (ended.code, ended.error()["code"].as_str().unwrap().to_owned())
    };
    assert_eq!(migrate(&[]), (1, "INVALID_ARGUMENT".to_owned()));
    std::fs::write(&file, "mysql://tenure:hunter2@localhost/tenure\n").unwrap();
    assert_eq!(migrate(&[]), (2, "INVALID_ARGUMENT".to_owned()));
    assert_eq!(migrate(&["--database-url", NOWHERE]), (4, "DATABASE_UNAVAILABLE".to_owned()));
    std::fs::write(&file, format!("{NOWHERE}\n")).unwrap();
    assert_eq!(migrate(&[]), (4, "DATABASE_UNAVAILABLE".to_owned()));
}

#[test]
fn a_worker_that_cannot_be_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    for arguments in
        [&["--slots", "0"][..], &["--ttl", "1s"], &["--name", "not a name"], &["--run-as", "no such user"]]
    {
        let ended = run(&[&["--json", "worker", "--data-dir", data], arguments].concat());
        assert_eq!(ended.code, 1, "{arguments:?}: {ended:?}");
        let last = ended.stderr.lines().last().unwrap();
        let error: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!(error["code"], "INVALID_ARGUMENT", "{arguments:?}: {error}");
    }
}

#[test]
fn a_log_filter_that_cannot_be_read_is_refused() {
    let ended = run(&["--json", "worker", "--log", "a=b=c"]);
    assert_eq!((ended.code, ended.error()["code"].as_str()), (1, Some("INVALID_ARGUMENT")), "{ended:?}");
}

#[test]
fn a_worker_that_no_coordinator_attached_is_not_ready_and_says_why() {
    let address = nobody().replace("http://", "");
    let ask = || run(&["--json", "ping", "--http", &address]);
    let absent = ask();
    assert_eq!((absent.code, absent.error()["code"].as_str()), (4, Some("COORDINATOR_UNAVAILABLE")));
    assert!(absent.error()["message"].as_str().unwrap().contains("Connection refused"), "{absent:?}");

    let directory = tempfile::tempdir().unwrap();
    let mut worker = tenure(&["worker", "--http", &address, "--endpoint", &nobody()]);
    worker.arg("--data-dir").arg(directory.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut worker = worker.spawn().unwrap();
    let said = BufReader::new(worker.stderr.take().unwrap()).lines().map_while(Result::ok);
    let served = said.take_while(|line| !line.contains("probes and metrics are served")).collect::<Vec<_>>();
    let unattached = ask();
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert_eq!(unattached.code, 4, "{served:?}: {unattached:?}");
    let message = unattached.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("not ready: no coordinator has attached the worker"), "{message}");
}
