//! The fleet under faults, in the short form: the rows that take less than 20 s, with one seed. `make chaos-fleet` and `make chaos-handover` have all of
//! them, and judges how quick recoveries are, which says nothing while other tests run beside.

use std::process::Command;

use crate::fixture::program;

/// Runs one row of a book, expects that everything held, and returns the summary with all that was said.
fn run_row(book: &str, row: u32) -> (serde_json::Value, String) {
    program();
    let output = Command::new(env!("CARGO_BIN_EXE_chaos-fleet"))
        .args(["--book", book, "--short", "--seed", "1", "--row", &row.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let summary = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    (summary, said)
}

/// Runs one row, and expects that it passed or that this host has not what it needs.
fn assert_row_holds(row: u32) {
    let (summary, said) = run_row("fleet", row);
    assert_eq!(summary["passed"].as_u64().unwrap() + summary["skipped"].as_u64().unwrap(), 1, "{said}");
    println!("{said}");
}

/// The same of the book of handovers.
fn assert_scenario_holds(row: u32) {
    let (summary, said) = run_row("handover", row);
    for count in ["failed", "overlapping_children", "lost", "attempts_misused"] {
        assert_eq!(summary[count], 0, "{count}: {said}");
    }
    println!("{said}");
}

#[test]
fn a_killed_guardian_costs_its_job_no_attempt() {
    assert_scenario_holds(2);
}

#[test]
fn a_worker_and_its_guardians_may_die_at_once_and_the_children_do_not_overlap() {
    assert_scenario_holds(3);
}

#[test]
fn killed_workers_lose_no_work_and_double_no_effect() {
    assert_row_holds(1);
}

#[test]
fn work_survives_a_frozen_worker_whose_late_notes_are_fenced() {
    assert_row_holds(2);
}

#[test]
fn work_survives_a_host_that_hears_nothing() {
    assert_row_holds(3);
}

#[test]
fn submissions_are_stored_once_when_their_coordinator_dies_around_the_commit() {
    assert_row_holds(5);
}

#[test]
fn runs_do_not_notice_that_database_connections_are_ended() {
    assert_row_holds(7);
}

#[test]
fn runs_do_not_notice_that_the_database_is_killed() {
    assert_row_holds(8);
}

#[test]
fn no_lease_is_lost_when_the_database_has_no_connection_left() {
    assert_row_holds(12);
}

#[test]
fn messages_that_are_sent_again_count_once() {
    assert_row_holds(16);
}

#[test]
fn jobs_start_without_any_notification() {
    assert_row_holds(28);
}

#[test]
fn worker_is_unharmed_by_children_that_misbehave() {
    assert_row_holds(30);
}

#[test]
fn no_lease_is_lost_when_all_workers_reconnect_at_once() {
    assert_row_holds(19);
}
