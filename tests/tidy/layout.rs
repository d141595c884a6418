//! Where things are, and how large they may get.
//!
//! Owns the rules on file names and file lengths. The list of exceptions may only get shorter: an
//! entry that is no longer needed is a finding too.

use crate::tree::{File, assert_clean, read_tree};

/// Past this many lines, test modules not counted, a file hides a second idea.
const LIMIT_LINES: usize = 600;

/// Files that may be longer for now. Only ever remove from here.
const LONGER_FOR_NOW: [&str; 0] = [];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"];

fn check_names(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for part in file.path.split('/') {
            let name = part.trim_end_matches(".rs");
            if part == "mod.rs" {
                findings.push(format!("{}: a module is name.rs, with children in name/", file.path));
            }
            if part.ends_with(".rs") && name.ends_with(|end: char| end.is_ascii_digit()) {
                findings.push(format!("{}: a number says nothing about what is inside", file.path));
            }
            if EMPTY_NAMES.iter().any(|empty| name.split('_').any(|word| word == *empty)) {
                findings.push(format!("{}: `{name}` does not say what is inside", file.path));
            }
        }
    }
    findings
}

fn check_lengths(files: &[File], exceptions: &[&str]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = file.production().lines().count();
        let excepted = exceptions.contains(&file.path.as_str());
        if lines > LIMIT_LINES && !excepted {
            findings.push(format!("{}: {lines} lines, {LIMIT_LINES} are the end", file.path));
        }
        if lines <= LIMIT_LINES && excepted {
            findings.push(format!("{}: no longer needs its exception", file.path));
        }
    }
    findings
}

/// One test binary per level: files directly in a crate's `tests` would each become one.
fn check_test_binaries(files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.is_rust())
        .filter(|file| {
            let parts: Vec<_> = file.path.split('/').collect();
            matches!(parts[..], ["crates" | "examples", _, "tests", _])
        })
        .map(|file| format!("{}: integration tests live in tests/LEVEL/main.rs", file.path))
        .collect()
}

#[test]
fn names_say_what_is_inside() {
    assert_clean(&check_names(&read_tree()));
}

#[test]
fn no_file_is_past_the_end() {
    assert_clean(&check_lengths(&read_tree(), &LONGER_FOR_NOW));
}

#[test]
fn every_level_has_one_test_binary() {
    assert_clean(&check_test_binaries(&read_tree()));
}

#[test]
fn empty_names_are_found() {
    let files = ["a/mod.rs", "a/common/b.rs", "a/job_utils.rs", "a/job_v2.rs", "a/commonly.rs"]
        .map(|path| File::new(path, "//! x\n"));
    assert_eq!(check_names(&files).len(), 4);
}

#[test]
fn long_file_is_found_and_its_test_module_is_not_counted() {
    let long = "\n".repeat(LIMIT_LINES + 1);
    let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
    let files = [File::new("a/long.rs", &long), File::new("a/tested.rs", &tested)];
    assert_eq!(check_lengths(&files, &[]).len(), 1);
    assert_eq!(check_lengths(&files, &["a/long.rs"]).len(), 0);
    assert_eq!(check_lengths(&files, &["a/long.rs", "a/tested.rs"]).len(), 1);
}

#[test]
fn second_test_binary_is_found() {
    let files = [
        File::new("crates/a/tests/b.rs", ""),
        File::new("crates/a/tests/b/main.rs", ""),
        File::new("crates/a/src/tests/b.rs", ""),
    ];
    assert_eq!(check_test_binaries(&files).len(), 1);
}
