//! What a server cannot be started with.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenure_postgres::{Options, SearchPlaces, Server};

#[test]
fn without_binaries_nothing_is_written() {
    let root = tempfile::tempdir_in("/tmp").unwrap();
    let directory = root.path().join("pg");
    let mut options = Options::in_directory(&directory);
    options.places = SearchPlaces::default();
    let error = Server::start(options).unwrap_err();
    assert_eq!(error.reason_code(), "POSTGRES_NOT_FOUND");
    assert!(!directory.exists());
}

/// Provokes `POSTGRES_NOT_STARTED`.
#[test]
fn bad_setting_is_reported_with_the_end_of_the_log() {
    let options = Options::default().with_setting("max_connections", "many");
    let error = Server::start(options).unwrap_err();
    assert_eq!(error.reason_code(), "POSTGRES_NOT_STARTED");
    assert!(error.to_string().contains("max_connections"), "{error}");
}

#[test]
fn data_of_a_version_that_is_not_here_is_left_alone() {
    let root = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let data = root.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("PG_VERSION"), "9\n").unwrap();
    let error = Server::start(Options::in_directory(root.path())).unwrap_err();
    assert!(error.to_string().contains("written by PostgreSQL 9"), "{error}");
    assert_eq!(fs::read_to_string(data.join("PG_VERSION")).unwrap(), "9\n");
}

#[test]
fn half_initialised_directory_is_initialised_anew() {
    let root = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let half = root.path().join("data.new");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("PG_VERSION"), "15\n").unwrap();
    let mut server = Server::start(Options::in_directory(root.path())).unwrap();
    assert!(server.is_running());
    assert!(!half.exists());
}
