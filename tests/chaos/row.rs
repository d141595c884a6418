//! A row: a fault, what it needs, and the function that makes it and has everything checked. A row that panics has failed,
//! like one that returns an error; what it started ends with it.
//!
//! Neighbours: `rows`, `scenarios`, `report`.

use std::{any::Any, fmt, path::PathBuf, pin::Pin, thread};

use anyhow::Result;
use tenure_testkit::{Finding, Recoveries};
use tokio::runtime::Runtime;

/// What holds for every row of one call.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// What is random follows from it.
    pub(crate) seed: u64,
    /// The shortest form.
    pub(crate) short: bool,
    /// The `tenure` program.
    pub(crate) program: PathBuf,
}

/// What a row found.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// What did not hold.
    pub(crate) findings: Vec<Finding>,
    /// How long recoveries took that are fair to measure.
    pub(crate) recoveries: Recoveries,
    /// Late writes that were refused.
    pub(crate) fenced_writes: u64,
    /// What is worth saying besides.
    pub(crate) remarks: Vec<String>,
}

/// What became of a row.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Everything held.
    Passed(Account),
    /// Something did not.
    Broken(Account),
    /// It could not be carried out to its end.
    Failed(String),
    /// This host has not what it needs.
    Skipped(String),
}

impl Outcome {
    /// Whether something did not hold, or could not be found out.
    pub(crate) const fn has_failed(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Failed(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(account) => {
                write!(f, "passed")?;
                account.remarks.iter().try_for_each(|remark| write!(f, "; {remark}"))
            }
            Self::Broken(account) => {
                write!(f, "FAILED")?;
                account.findings.iter().try_for_each(|finding| write!(f, "\n  {finding}"))
            }
            Self::Failed(words) => write!(f, "FAILED: {words}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

/// A row on its way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Account>>>>;

/// A fault, and how it is made.
pub(crate) struct Row {
    /// Its number in the list of faults.
    pub(crate) number: u32,
    /// The fault in few words.
    pub(crate) title: &'static str,
    /// True where its short form takes less than 20 s.
    pub(crate) quick: bool,
    /// What this host lacks for it.
    pub(crate) find_hindrance: fn() -> Option<String>,
    /// Makes it.
    pub(crate) make: fn(Setting) -> Running,
}

impl Row {
    /// Carries it out, in a thread and a runtime of its own, so that a panic is a failure of this row alone.
    ///
    /// # Errors
    /// It was interrupted by a person. What it started has ended.
    pub(crate) fn run(&self, setting: &Setting) -> Result<Outcome> {
        if let Some(why) = (self.find_hindrance)() {
            return Ok(Outcome::Skipped(why));
        }
        let (make, setting) = (self.make, setting.clone());
        let thread = thread::spawn(move || Runtime::new()?.block_on(make_until_interrupted(make, setting)));
        match thread.join() {
            Ok(Ok(account)) if account.findings.is_empty() => Ok(Outcome::Passed(account)),
            Ok(Ok(account)) => Ok(Outcome::Broken(account)),
            Ok(Err(error)) if error.is::<Interrupted>() => Err(error),
            Ok(Err(error)) => Ok(Outcome::Failed(format!("{error:#}"))),
            Err(panic) => Ok(Outcome::Failed(describe_panic(panic.as_ref()))),
        }
    }
}

/// A person wants it to end.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
struct Interrupted;

async fn make_until_interrupted(make: fn(Setting) -> Running, setting: Setting) -> Result<Account> {
    tokio::select! {
        made = make(setting) => made,
        signalled = tokio::signal::ctrl_c() => {
            signalled?;
            Err(Interrupted.into())
        }
    }
}

fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// For rows that need nothing.
pub(crate) fn nothing_hinders() -> Option<String> {
    None
}
