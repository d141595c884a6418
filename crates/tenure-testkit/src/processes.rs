//! Looking at processes from outside, through `/proc`. It asks no part of the fleet.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// The guardians beside a worker: its children whose first argument is `guard`.
///
/// # Errors
/// `/proc` cannot be read.
pub fn guardians_of(worker: Pid) -> Result<Vec<Pid>> {
    let children = read_parents()?.into_iter().filter(|(_, parent)| *parent == worker);
    let is_guardian = |pid: &Pid| first_argument(*pid).as_deref() == Some(b"guard");
    Ok(children.map(|(pid, _)| pid).filter(is_guardian).collect())
}

/// The guardian beside a worker whose child works on this job, by the variables of what is below it; none where there is none.
///
/// # Errors
/// `/proc` cannot be read.
pub fn guardian_of(worker: Pid, job: &str) -> Result<Option<Pid>> {
    let variable = format!("TENURE_JOB={job}").into_bytes();
    for guardian in guardians_of(worker)? {
        if descendants_of(guardian)?.into_iter().any(|pid| has_variable(pid, &variable)) {
            return Ok(Some(guardian));
        }
    }
    Ok(None)
}

/// Everything below a process, nearest first: its children, theirs, and so on.
///
/// # Errors
/// `/proc` cannot be read.
pub fn descendants_of(root: Pid) -> Result<Vec<Pid>> {
    let parents = read_parents()?;
    let mut found = vec![root];
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).copied() {
        found.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(pid, _)| *pid));
        looked_at += 1;
    }
    Ok(found.split_off(1))
}

/// Sends SIGSTOP to a process and everything below it, until nobody is left who could start one more, and returns whom.
pub(crate) fn stop_tree(root: Pid) -> Result<Vec<Pid>> {
    let mut stopped = BTreeSet::new();
    loop {
        let tree: BTreeSet<Pid> = descendants_of(root)?.into_iter().chain([root]).collect();
        let new: Vec<Pid> = tree.difference(&stopped).copied().collect();
        if new.is_empty() {
            return Ok(stopped.into_iter().collect());
        }
        for pid in new {
            // One that ended meanwhile is as good as stopped.
            let _ = kill(pid, Signal::SIGSTOP);
            stopped.insert(pid);
        }
    }
}

/// Every process, with its parent.
fn read_parents() -> Result<BTreeMap<Pid, Pid>> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("listing the processes")? {
        let path = entry?.path();
        let pid = path.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok());
        if let Some((pid, parent)) = pid.zip(parent_of(&path)) {
            parents.insert(Pid::from_raw(pid), Pid::from_raw(parent));
        }
    }
    Ok(parents)
}

/// The parent of the process with this directory; none where it is gone.
fn parent_of(process: &Path) -> Option<i32> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name in parentheses may itself hold parentheses and blanks: fields are counted after the last one.
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

fn has_variable(pid: Pid, variable: &[u8]) -> bool {
    // One that is gone meanwhile has none.
    let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    variables.split(|byte| *byte == 0).any(|entry| entry == variable)
}

fn first_argument(pid: Pid) -> Option<Vec<u8>> {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    arguments.split(|byte| *byte == 0).nth(1).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn stopped_tree_holds_the_grandchild_too() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'echo up; sleep 600' & wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let root = Pid::from_raw(i32::try_from(shell.id()).unwrap());
        let stopped = stop_tree(root).unwrap();
        assert!(stopped.len() >= 2 && stopped.contains(&root), "{stopped:?}");
        for pid in stopped {
            kill(pid, Signal::SIGKILL).unwrap();
        }
        shell.wait().unwrap();
    }
}
