//! How refusals are worded and explained.
//!
//! Owns the rules on the texts of errors, and on `docs/operate/errors.md`, which explains every
//! stable reason code under a heading of its own.

use regex::Regex;

use crate::tree::{File, assert_clean, find, line_of, read_tree};

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

fn check_codes(reasons: &File, document: &File) -> Vec<String> {
    let code = Regex::new(r#"= "([A-Z][A-Z0-9_]+)", \w+;"#).unwrap();
    let codes: Vec<_> = code.captures_iter(&reasons.text).map(|found| found[1].to_owned()).collect();
    assert!(!codes.is_empty(), "{} defines no codes in the form that is looked for", reasons.path);
    let heading = Regex::new(r"(?m)^#+ `?([A-Z][A-Z0-9_]+)`?$").unwrap();
    let explained: Vec<_> = heading.captures_iter(&document.text).map(|found| found[1].to_owned()).collect();
    let missing = codes.iter().filter(|code| !explained.contains(code));
    let unknown = explained.iter().filter(|code| !codes.contains(code));
    missing
        .map(|code| format!("{}: {code} is not explained", document.path))
        .chain(unknown.map(|code| format!("{}: {code} is no reason code", document.path)))
        .collect()
}

#[test]
fn errors_are_worded_as_parts_of_a_sentence() {
    assert_clean(&check_texts(&read_tree()));
}

#[test]
fn every_reason_code_is_explained() {
    let files = read_tree();
    let reasons = find(&files, "crates/tenure-core/src/reason.rs");
    assert_clean(&check_codes(reasons, find(&files, "docs/operate/errors.md")));
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

#[test]
fn unexplained_and_invented_codes_are_found() {
    let reasons = File::new("reason.rs", "A = \"JOB_GONE\", Rejected;\nB = \"FENCED\", Fenced;\n");
    let document = File::new("errors.md", "# Errors\n\n## FENCED\n\n## `MOON_PHASE`\n");
    assert_eq!(check_codes(&reasons, &document).len(), 2);
}
