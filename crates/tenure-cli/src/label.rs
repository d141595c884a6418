//! Labels of jobs as they are typed: `KEY=VALUE`.

use std::collections::BTreeMap;

/// Reads `KEY=VALUE`; for the parser of the command line.
pub(crate) fn parse_label(given: &str) -> Result<(String, String), String> {
    match given.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is written KEY=VALUE".to_owned()),
    }
}

/// Labels as one set; the last of one key counts.
pub(crate) fn collect_labels(given: Vec<(String, String)>) -> BTreeMap<String, String> {
    given.into_iter().collect()
}
