//! The guardian alone, for workers that are embedded in another program: give its path to the runner as the guard
//! command. The `tenure` program contains the same as its internal command `guard`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tenure_worker::guardian::run_guardian()
}
