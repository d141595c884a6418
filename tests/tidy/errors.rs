//! How refusals are worded.
//!
//! Owns the rules on the texts of errors. Neighbours: `codes` (the stable reason of each).

use regex::Regex;

use crate::tree::{File, assert_clean, line_of, read_tree};

/// Names that are written with a capital wherever they stand.
const PROPER_NAMES: [&str; 4] = ["PostgreSQL", "Tenure", "TENURE_", "TLS"];

fn check_texts(files: &[File]) -> Vec<String> {
    let attribute = Regex::new(r#"#\[error\(\s*"((?:[^"\\]|\\.|\\\n)*)""#).unwrap();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for found in attribute.captures_iter(file.production()) {
            let text = &found[1];
            let line = line_of(&file.text, found.get(0).unwrap().start());
            let mut report = |what: &str| findings.push(format!("{}:{line}: {what}: {text}", file.path));
            let proper = PROPER_NAMES.iter().any(|name| text.starts_with(name));
            if text.starts_with(char::is_uppercase) && !proper {
                report("an error begins in lower case");
            }
            if text.ends_with('.') {
                report("an error ends without a full stop");
            }
            if text.contains("{source") {
                report("the cause is linked, not repeated");
            }
        }
    }
    findings
}

#[test]
fn errors_are_worded_as_parts_of_a_sentence() {
    assert_clean(&check_texts(&read_tree()));
}

#[test]
fn badly_worded_errors_are_found() {
    for (text, expected) in [
        ("#[error(\"Job is gone\")]", 1),
        ("#[error(\"job is gone.\")]", 1),
        ("#[error(\n    \"could not read {path}: {source}\"\n)]", 1),
        ("#[error(\"could not read {path}\")]", 0),
        ("#[error(\"PostgreSQL is gone\")]", 0),
        ("#[error(transparent)]", 0),
    ] {
        assert_eq!(check_texts(&[File::new("a.rs", text)]).len(), expected, "{text}");
    }
}
