//! `tenure dev`: one command is a fleet, which goes on after a restart and leaves nothing behind.

use rustix::process::{Signal, kill_process};

use crate::dev_fleet::{Home, wait_until};

#[test]
fn a_fleet_goes_on_after_a_restart_with_what_it_had() {
    let home = Home::make();
    let fleet = home.start();
    let job = fleet.submit(&["greet", "--input", "world", "--wait"]);
    assert_eq!(fleet.ok(&["result", &job]), "world");
    let stopped = fleet.stop(Signal::INT);
    assert!(stopped.success(), "{stopped}");
    assert_eq!(home.processes(), Vec::<std::path::PathBuf>::new());
    let fleet = home.start();
    assert_eq!(fleet.ok(&["result", &job]), "world");
    assert_eq!(fleet.submit(&["greet", "--input", "again", "--wait"]).len(), job.len());
}

#[test]
fn a_fleet_that_is_killed_leaves_no_process_behind() {
    let home = Home::make();
    let fleet = home.start();
    assert!(!home.processes().is_empty());
    fleet.stop(Signal::KILL);
    wait_until("every process of the fleet to be gone", || match home.processes() {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    });
}

#[test]
fn a_worker_that_is_killed_is_started_again() {
    let home = Home::make();
    let fleet = home.start();
    let killed = home.worker().unwrap();
    kill_process(killed, Signal::KILL).unwrap();
    wait_until("another worker", || match home.worker() {
        Some(worker) if worker != killed => Ok(()),
        seen => Err(seen),
    });
    assert!(!fleet.submit(&["greet", "--input", "world", "--wait"]).is_empty());
}

#[test]
fn a_second_fleet_at_a_taken_port_is_refused_before_anything_is_started() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let home = Home::make();
    let data = home.path().join("data");
    let ended =
        crate::program::run(&["--json", "dev", "--listen", &address, "--data-dir", data.to_str().unwrap()]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(ended.error()["code"], "PORT_IN_USE");
    assert!(!data.exists());
}
