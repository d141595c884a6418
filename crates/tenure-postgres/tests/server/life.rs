//! Starting, stopping, killing, starting again.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenure_postgres::{Options, Server, Stop};

use crate::query;

#[test]
fn started_server_answers_with_durable_settings() {
    let server = Server::start(Options::default()).unwrap();
    let url = server.url("postgres");
    assert_eq!(query(&server, &url, "SHOW synchronous_commit"), "on");
    assert_eq!(query(&server, &url, "SHOW fsync"), "on");
    assert_eq!(query(&server, &url, "SHOW server_encoding"), "UTF8");
    assert_eq!(query(&server, &url, "SHOW listen_addresses"), "");
}

#[test]
fn settings_of_the_caller_go_before_the_defaults() {
    let options = Options::default().with_setting("max_connections", "17");
    let server = Server::start(options).unwrap();
    assert_eq!(query(&server, &server.url("postgres"), "SHOW max_connections"), "17");
}

#[test]
fn nobody_else_may_enter_the_socket_directory() {
    let root = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let directory = root.path().join("pg");
    let _server = Server::start(Options::in_directory(&directory)).unwrap();
    let mode = fs::metadata(directory.join("socket")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn rows_stay_over_stop_kill_and_reuse_of_the_directory() {
    let root = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let directory = root.path().join("with a blank & more");
    let mut server = Server::start(Options::in_directory(&directory)).unwrap();
    let url = server.url("postgres");
    query(&server, &url, "CREATE TABLE kept (how text); INSERT INTO kept VALUES ('first')");

    server.stop(Stop::Fast);
    assert!(!server.is_running());
    server.start_again().unwrap();
    query(&server, &url, "INSERT INTO kept VALUES ('after fast')");

    server.stop(Stop::Immediate);
    server.start_again().unwrap();
    query(&server, &url, "INSERT INTO kept VALUES ('after immediate')");

    server.kill9();
    assert!(!server.is_running());
    server.start_again().unwrap();
    query(&server, &url, "INSERT INTO kept VALUES ('after kill')");
    drop(server);

    let server = Server::start(Options::in_directory(&directory)).unwrap();
    assert_eq!(
        query(&server, &url, "SELECT string_agg(how, ',' ORDER BY ctid) FROM kept"),
        "first,after fast,after immediate,after kill"
    );
}

#[test]
fn tcp_wants_the_password_and_serves_loopback() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = Options { tcp_port: Some(port), ..Options::default() };
    let server = Server::start(options).unwrap();
    let url = server.tcp_url("postgres").unwrap().unwrap();
    assert_eq!(query(&server, &url, "SELECT inet_client_addr()"), "127.0.0.1");

    let (user_and_password, rest) = url.split_once('@').unwrap();
    let wrong = format!("{user_and_password}wrong@{rest}");
    let refused = std::process::Command::new(server.binaries().program("psql"))
        .args(["-X", "-c", "SELECT 1", &wrong])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("password authentication failed"));
}

#[test]
fn temporary_directory_is_gone_with_its_server() {
    let server = Server::start(Options::default()).unwrap();
    let data = server.data_directory();
    assert!(data.join("PG_VERSION").exists());
    drop(server);
    assert!(!data.exists());
}
