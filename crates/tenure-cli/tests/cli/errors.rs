//! What goes wrong before a fleet is asked, or because none answers: each with its exit code and its stable code.

use crate::program::{end, nobody, run, tenure};

#[test]
fn a_command_line_that_cannot_be_meant_exits_with_2() {
    for arguments in [
        &["frobnicate"][..],
        &[],
        &["submit"],
        &["cancel", "9f3c21"],
        &["cancel", "--why", "x"],
        &["submit", "greet", "--deadline", "1h", "--no-deadline"],
        &["submit", "greet", "--deadline", "1500ms"],
        &["submit", "greet", "--label", "team"],
        &["submit", "greet", "--timeout", "1s"],
        &["jobs", "--state", "sleeping"],
        &["ping", "--endpoint", "not an address"],
        &["guard"],
        &["guard", "--help"],
    ] {
        let ended = run(arguments);
        assert_eq!(ended.code, 2, "{arguments:?}: {ended:?}");
        assert!(ended.stdout.is_empty(), "{arguments:?}: {ended:?}");
        assert!(!ended.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_usage_error_is_json_where_json_is_asked_for() {
    let ended = run(&["--json", "jobs", "--state", "sleeping"]);
    assert_eq!(ended.code, 2);
    assert_eq!(ended.error()["code"], "INVALID_ARGUMENT");
}

#[test]
fn a_token_is_not_sent_to_another_host_in_plain_text_unless_that_was_allowed() {
    let token = "tenure_abababababababab_notasecret";
    // Of a block that nobody has: nothing is sent anywhere.
    let endpoint = "http://192.0.2.1:7420";
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().to_str().unwrap();
    for arguments in [&["jobs"][..], &["worker", "--data-dir", data_dir]] {
        let mut command = tenure(arguments);
        command.args(["--json", "--endpoint", endpoint]).env("TENURE_TOKEN", token);
        let ended = end(command);
        assert_eq!(ended.error()["code"], "TLS_REQUIRED", "{arguments:?}: {ended:?}");
        assert!(
            ended.stderr.contains("--allow-plaintext") && !ended.stderr.contains("notasecret"),
            "{ended:?}"
        );
    }
    let mut command =
        tenure(&["jobs", "--json", "--allow-plaintext", "--endpoint", "http://[::ffff:127.0.0.1]:1"]);
    command.env("TENURE_TOKEN", token);
    assert_eq!(end(command).error()["code"], "COORDINATOR_UNAVAILABLE");
}

/// Provokes `NOT_INSIDE_RUN`.
#[test]
fn a_verb_of_a_run_outside_a_run_exits_with_2_and_names_what_was_meant() {
    for arguments in [&["note", "hello"][..], &["status"]] {
        let ended = run(arguments);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert_eq!(
            ended.stderr,
            "error: not inside a run: TENURE_SOCKET is unset; did you mean tenure job JOB?\n       \
             code NOT_INSIDE_RUN\n"
        );
    }
}

#[test]
fn a_socket_without_a_worker_exits_with_4() {
    let mut command = tenure(&["--json", "status"]);
    command.env("TENURE_SOCKET", "/nonexistent/tenure.sock");
    let ended = end(command);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert_eq!(ended.error()["code"], "COORDINATOR_UNAVAILABLE");
}

/// Provokes `COORDINATOR_UNAVAILABLE`.
#[test]
fn a_fleet_that_does_not_answer_exits_with_4() {
    let endpoint = nobody();
    for arguments in [
        &["ping"][..],
        &["jobs"],
        &["job", "9f3c21"],
        &["submit", "greet", "--input", "world"],
        &["watch", "9f3c21"],
        &["cancel", "9f3c21", "--why", "tired"],
        &["workers"],
        &["agents"],
    ] {
        let mut command = tenure(arguments);
        command.args(["--json", "--endpoint", &endpoint]);
        let ended = end(command);
        assert_eq!(ended.code, 4, "{arguments:?}: {ended:?}");
        assert!(ended.stdout.is_empty(), "{arguments:?}: {ended:?}");
        let error = ended.error();
        assert_eq!(error["code"], "COORDINATOR_UNAVAILABLE", "{arguments:?}");
        assert!(error["message"].as_str().unwrap().contains(&endpoint), "{error}");
    }
}

#[test]
fn the_endpoints_are_taken_from_the_environment_too() {
    let mut command = tenure(&["ping"]);
    let endpoints = [nobody(), nobody()].join(",");
    command.env("TENURE_ENDPOINT", &endpoints);
    let ended = end(command);
    assert_eq!(ended.code, 4);
    assert!(ended.stderr.contains(&endpoints.replace(',', ", ")), "{ended:?}");
    assert!(ended.stderr.contains("code COORDINATOR_UNAVAILABLE"), "{ended:?}");
}

#[test]
fn a_blank_reason_is_refused() {
    let ended = run(&["--json", "cancel", "9f3c21", "--why", "  "]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(ended.error()["code"], "REASON_MISSING");
}

#[test]
fn input_that_cannot_be_read_is_refused_before_anything_is_sent() {
    let ended = run(&["--json", "submit", "greet", "--input", "@/nonexistent/input"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(ended.error()["code"], "INVALID_ARGUMENT");
    assert!(ended.error()["message"].as_str().unwrap().contains("/nonexistent/input"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child =
        tenure(&["--help"]).stdout(std::process::Stdio::piped()).spawn().expect("the program starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("it ends").code().is_some());
}
