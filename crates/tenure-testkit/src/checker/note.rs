//! Every note that was acknowledged to its agent is in the journal, and none is there twice. Agents write texts that are
//! unique in their job, and after each acknowledgement the text as a line of a file that is called as the job.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result};
use sqlx::PgPool;
use uuid::Uuid;

use super::{Concern, Finding};

/// Compares the files in this directory with the journals of their jobs.
///
/// # Errors
/// The database or a file cannot be read, or a file is not called as a job.
pub async fn check_notes(database: &PgPool, acknowledged: &Path) -> Result<Vec<Finding>> {
    let rows: Vec<(Uuid, Option<Vec<u8>>)> =
        sqlx::query_as("SELECT job, value FROM journal WHERE kind = 'note' ORDER BY job, seq")
            .fetch_all(database)
            .await
            .context("reading the notes")?;
    let mut stored: BTreeMap<Uuid, BTreeSet<String>> = BTreeMap::new();
    let mut findings = Vec::new();
    for (job, value) in rows {
        let text = String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        if !stored.entry(job).or_default().insert(text.clone()) {
            findings.push(Finding::new(
                Concern::Duplicated,
                job,
                format!("the note {text:?} is there twice"),
            ));
        }
    }
    for entry in fs::read_dir(acknowledged).context("listing the acknowledged notes")? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let job: Uuid = name.parse().with_context(|| format!("{name} is no job"))?;
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        // A last line that a kill cut short was never finished being noted.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let missing =
            whole.lines().filter(|line| !stored.get(&job).is_some_and(|notes| notes.contains(*line)));
        findings.extend(missing.map(|line| {
            Finding::new(Concern::Lost, job, format!("the note {line:?} was acknowledged and is not there"))
        }));
    }
    Ok(findings)
}
