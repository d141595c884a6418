//! The steady figures, as they were committed: what a record and a job take, which hardly depends on the disk and on who
//! else uses the machine. One that got worse by more than its tolerance is a finding; one that got better is not, and the
//! next `make bench-baseline` writes it down.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::{report::rounded, row::Row};

/// A figure: its name, how much worse it may be, and where it stands in a row.
type Figure = (&'static str, f64, fn(&Row) -> f64);

/// How many items share a statement and a commit follows from how fast the disk is, hence the wide tolerances; the log has
/// some noise from full pages; the processor's time grows with whoever else is on the machine.
const FIGURES: [Figure; 8] = [
    ("statements_per_record", 3.0, |row| row.record.statements),
    ("statements_per_job", 3.0, |row| row.job.statements),
    ("commits_per_record", 3.0, |row| row.record.commits),
    ("commits_per_job", 3.0, |row| row.job.commits),
    ("wal_bytes_per_record", 0.10, |row| row.record.wal_bytes),
    ("wal_bytes_per_job", 0.10, |row| row.job.wal_bytes),
    ("cpu_ms_per_record", 0.5, |row| row.record.cpu_ms.total()),
    ("cpu_ms_per_job", 0.5, |row| row.job.cpu_ms.total()),
];

/// What was committed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Baseline(BTreeMap<String, Entry>);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    value: f64,
    /// A share of the value.
    tolerance: f64,
}

impl Baseline {
    /// The figures of a row.
    pub(crate) fn of(row: &Row) -> Self {
        let entry = |read: fn(&Row) -> f64, tolerance| Entry { value: rounded(read(row), 5), tolerance };
        Self(
            FIGURES
                .iter()
                .map(|(name, tolerance, read)| ((*name).to_owned(), entry(*read, *tolerance)))
                .collect(),
        )
    }

    /// Reads it.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// Writes it.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// What got worse, with both figures. A figure that is missing here is one too.
    pub(crate) fn find_worse(&self, row: &Row) -> Vec<String> {
        FIGURES.iter().filter_map(|(name, _, read)| self.compare(name, read(row))).collect()
    }

    fn compare(&self, name: &str, found: f64) -> Option<String> {
        let Some(Entry { value, tolerance }) = self.0.get(name) else {
            return Some(format!("{name} is not in the baseline: write it anew"));
        };
        let most = value * (1.0 + tolerance);
        (found > most).then(|| {
            format!("{name} is {found:.5}; the baseline is {value:.5}, and at most {most:.5} is taken")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::row;

    #[test]
    fn each_figure_may_be_worse_by_its_tolerance_and_no_more() {
        let baseline = Baseline::of(&row());
        let mut worse = row();
        worse.job.wal_bytes *= 1.09;
        assert_eq!(baseline.find_worse(&worse), Vec::<String>::new());
        worse.job.wal_bytes = row().job.wal_bytes * 1.11;
        assert_eq!(baseline.find_worse(&worse).len(), 1);
        worse.record.cpu_ms.bench *= 10.0;
        assert_eq!(baseline.find_worse(&worse).len(), 2);
    }

    #[test]
    fn a_baseline_that_lacks_a_figure_is_found() {
        let mut baseline = Baseline::of(&row());
        baseline.0.remove("wal_bytes_per_job");
        assert_eq!(baseline.find_worse(&row()).len(), 1);
    }

    #[test]
    fn what_is_written_reads_back_and_is_no_worse_than_itself() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let baseline = Baseline::of(&row());
        baseline.write(file.path()).unwrap();
        assert_eq!(Baseline::read(file.path()).unwrap(), baseline);
        assert_eq!(baseline.find_worse(&row()), Vec::<String>::new());
    }
}
