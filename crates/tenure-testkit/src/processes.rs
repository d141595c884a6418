//! Looking at processes from outside, through `/proc`. It asks no part of the fleet.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use nix::unistd::Pid;

/// The guardians beside a worker: its children whose first argument is `guard`.
///
/// # Errors
/// `/proc` cannot be read.
pub fn guardians_of(worker: Pid) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("listing the processes")? {
        let path = entry?.path();
        let Some(pid) = path.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok()) else {
            continue;
        };
        if parent_of(&path) == Some(worker.as_raw()) && first_argument(&path).as_deref() == Some(b"guard") {
            found.push(Pid::from_raw(pid));
        }
    }
    Ok(found)
}

/// The parent of the process with this directory; none where it is gone.
fn parent_of(process: &Path) -> Option<i32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name in parentheses may itself hold parentheses and blanks: fields are counted after the last one.
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

fn first_argument(process: &Path) -> Option<Vec<u8>> {
    let arguments = fs::read(process.join("cmdline")).ok()?;
    arguments.split(|byte| *byte == 0).nth(1).map(<[u8]>::to_vec)
}
