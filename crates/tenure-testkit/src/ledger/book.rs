//! The ledger's file: one JSON line an entry, only ever added to, each on disk before it counts.
//!
//! Owns the idempotency check: the keys are read from the file when it is opened, so a restart forgets none. A last line that
//! a kill cut short was never answered and is taken away then; any other line that is no entry is an error, which is how
//! tampering shows. Neighbours: `service`.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One thing that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its place, from 1, as the ledger counted when it entered it.
    pub number: u64,
    /// The idempotency key that came with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What was posted.
    pub text: String,
    /// When, by the clock of the ledger's host.
    pub at: Timestamp,
}

/// What the ledger cannot do.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Its file cannot be read or written.
    #[error("using the ledger's file {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A line of its file is no entry.
    #[error("reading line {line} of the ledger's file {path}")]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// Why.
        #[source]
        cause: serde_json::Error,
    },
    /// The same key came with another text.
    #[error("key {key:?} was entered with another text")]
    OtherText {
        /// Which.
        key: String,
    },
    /// It was not reached, or did not answer.
    #[error("{attempt} at the ledger {url}")]
    Unanswered {
        /// What was tried.
        attempt: &'static str,
        /// Where.
        url: String,
        /// Why.
        #[source]
        cause: anyhow::Error,
    },
    /// It answered with something else than was asked for.
    #[error("the ledger {url} answered {status}: {words}")]
    Refused {
        /// Where.
        url: String,
        /// With which status.
        status: u16,
        /// In its words.
        words: String,
    },
}

/// Everything that a ledger's file holds, in the order of its lines. A last line without an end was never answered and does
/// not count.
///
/// # Errors
/// The file cannot be read, or a line is no entry.
pub fn read_entries(path: &Path) -> Result<Vec<Entry>, LedgerError> {
    let text =
        std::fs::read_to_string(path).map_err(|cause| LedgerError::File { path: path.to_owned(), cause })?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .zip(1..)
        .map(|(words, line)| {
            serde_json::from_str(words).map_err(|cause| LedgerError::Line {
                path: path.to_owned(),
                line,
                cause,
            })
        })
        .collect()
}

/// The file, open for adding.
#[derive(Debug)]
pub(super) struct Book {
    path: PathBuf,
    file: File,
    by_key: BTreeMap<String, Entry>,
    last_number: u64,
}

impl Book {
    /// Opens the file, or begins it.
    pub(super) fn open(path: &Path) -> Result<Self, LedgerError> {
        let failed = |cause| LedgerError::File { path: path.to_owned(), cause };
        let file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        cut_unended_line(path, &file).map_err(failed)?;
        let mut book = Self { path: path.to_owned(), file, by_key: BTreeMap::new(), last_number: 0 };
        for entry in read_entries(path)? {
            book.remember(&entry);
        }
        Ok(book)
    }

    /// Enters a text; true where it was there already under this key.
    pub(super) fn enter(&mut self, key: Option<&str>, text: &str) -> Result<(Entry, bool), LedgerError> {
        if let Some(entry) = key.and_then(|key| self.by_key.get(key)) {
            if entry.text != text {
                return Err(LedgerError::OtherText { key: key.unwrap_or_default().to_owned() });
            }
            return Ok((entry.clone(), true));
        }
        let entry = Entry {
            number: self.last_number + 1,
            key: key.map(str::to_owned),
            text: text.to_owned(),
            at: Timestamp::now(),
        };
        self.write(&entry).map_err(|cause| LedgerError::File { path: self.path.clone(), cause })?;
        self.remember(&entry);
        Ok((entry, false))
    }

    /// What the file holds now.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, LedgerError> {
        read_entries(&self.path)
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }

    fn remember(&mut self, entry: &Entry) {
        self.last_number = self.last_number.max(entry.number);
        if let Some(key) = &entry.key {
            self.by_key.entry(key.clone()).or_insert_with(|| entry.clone());
        }
    }
}

fn cut_unended_line(path: &Path, file: &File) -> io::Result<()> {
    let bytes = std::fs::read(path)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    file.set_len(whole as u64)
}
