//! What is wrong with a fleet file is said with its place and the nearest key, before a fleet is asked.

use crate::program::{Ended, nobody, run};

/// Applies a file with this text, at an endpoint where nobody answers.
fn apply(text: &str) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fleet.toml");
    std::fs::write(&path, text).unwrap();
    run(&["--json", "apply", path.to_str().unwrap(), "--endpoint", &nobody()])
}

fn refused(text: &str) -> serde_json::Value {
    let ended = apply(text);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.is_empty(), "{ended:?}");
    ended.error()
}

/// Provokes `INVALID_FLEET_FILE`.
#[test]
fn an_unknown_key_is_named_with_its_place_and_the_nearest_key() {
    let error = refused("schema = 1\n[agents.greet]\nscript = \"true\"\n  timeoutt = \"5s\"\n");
    assert_eq!(error["code"], "INVALID_FLEET_FILE", "{error}");
    assert_eq!(error["details"]["line"], "4", "{error}");
    assert_eq!(error["details"]["column"], "3", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("line 4, column 3") && message.contains("timeoutt"), "{message}");
    assert!(message.replace("timeoutt", "").contains("timeout"), "the nearest key: {message}");
}

#[test]
fn a_wrong_type_is_refused_with_its_place() {
    let error = refused("schema = 1\n[agents.greet]\nscript = \"true\"\ntimeout = true\n");
    assert_eq!(error["code"], "INVALID_FLEET_FILE", "{error}");
    assert_eq!(error["details"]["line"], "4", "{error}");
}

#[test]
fn a_bad_name_is_refused_with_its_place() {
    let error = refused("schema = 1\n[agents.Greet_Me]\nscript = \"true\"\n");
    assert_eq!(error["code"], "INVALID_FLEET_FILE", "{error}");
    assert_eq!(error["details"]["line"], "2", "{error}");
}

#[test]
fn what_is_no_toml_is_refused_with_its_place() {
    let error = refused("schema = 1\n[agents.greet\n");
    assert_eq!(error["code"], "INVALID_FLEET_FILE", "{error}");
    assert_eq!(error["details"]["line"], "2", "{error}");
}

/// Provokes `NOT_SUPPORTED`.
#[test]
fn a_feature_that_does_not_exist_yet_is_named() {
    let error = refused("schema = 1\n[agents.greet]\nscript = \"true\"\nrepairs = 2\n");
    assert_eq!(error["code"], "NOT_SUPPORTED", "{error}");
    assert!(error["message"].as_str().unwrap().contains("repairs"), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_refused() {
    let ended = run(&["--json", "apply", "/nonexistent/fleet.toml"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(ended.error()["code"], "INVALID_FLEET_FILE");
}

#[test]
fn a_file_that_is_right_is_sent() {
    let ended = apply("schema = 1\n[agents.greet]\nscript = \"true\"\n");
    assert_eq!(ended.error()["code"], "COORDINATOR_UNAVAILABLE", "{ended:?}");
    assert_eq!(ended.code, 4);
}

#[test]
fn the_file_that_init_writes_is_right() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tenure.toml");
    let path = path.to_str().unwrap();
    assert_eq!(run(&["init", path]).code, 0);
    let ended = run(&["--json", "apply", path, "--endpoint", &nobody()]);
    assert_eq!(ended.error()["code"], "COORDINATOR_UNAVAILABLE", "{ended:?}");
}
