//! The numbered invariants of `ARCHITECTURE.md`.
//!
//! Owns the rule that each of I1 to I11 says where it is enforced and which tests show it, and that
//! those files and tests exist. An invariant, or a part of one, that is not built yet says so.

use regex::Regex;

use crate::tree::{File, assert_clean, find, read_tree};

/// How many invariants there are.
const COUNT: usize = 11;

fn check_invariants(architecture: &File, files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for number in 1..=COUNT {
        let Some(section) = find_section(&architecture.text, number) else {
            findings.push(format!("I{number} has no section"));
            continue;
        };
        for label in ["Enforced by", "Shown by"] {
            match find_paragraph(section, label) {
                Some(paragraph) => findings.extend(check_references(number, paragraph, files)),
                None if section.contains("Not built yet") => {}
                None => findings.push(format!("I{number} has no paragraph `{label}`")),
            }
        }
    }
    findings
}

/// The text under the heading `### I7 …`, up to the next heading.
fn find_section(text: &str, number: usize) -> Option<&str> {
    let heading = format!("\n### I{number} ");
    let start = text.find(&heading)? + heading.len();
    let end = text[start..].find("\n#").map_or(text.len(), |end| start + end);
    Some(&text[start..end])
}

fn find_paragraph<'a>(section: &'a str, label: &str) -> Option<&'a str> {
    section.split("\n\n").map(str::trim_start).find(|paragraph| paragraph.starts_with(label))
}

/// Everything in backticks is a path of the repository or the name of a test.
fn check_references(number: usize, paragraph: &str, files: &[File]) -> Vec<String> {
    let reference = Regex::new("`([^`]+)`").unwrap();
    let names: Vec<_> = reference.captures_iter(paragraph).map(|found| found[1].to_owned()).collect();
    if names.is_empty() {
        return vec![format!("I{number} names nothing in: {paragraph}")];
    }
    names
        .iter()
        .filter(|name| !exists(name, files))
        .map(|name| format!("I{number} names `{name}`, which is neither a file nor a test"))
        .collect()
}

fn exists(name: &str, files: &[File]) -> bool {
    if name.contains('/') {
        return files.iter().any(|file| file.path == name);
    }
    let function = format!("fn {name}(");
    files.iter().any(|file| file.is_rust() && file.test_part().contains(&function))
}

#[test]
fn every_invariant_names_its_place_and_its_test() {
    let files = read_tree();
    assert_clean(&check_invariants(find(&files, "ARCHITECTURE.md"), &files));
}

#[test]
fn missing_sections_and_invented_names_are_found() {
    let mut text = "# A\n".to_owned();
    for number in 1..COUNT {
        text += &format!(
            "\n### I{number} x\n\nWords.\n\nEnforced by `crates/a/src/a.rs`.\n\nShown by\n`it_holds`.\n"
        );
    }
    let files = [
        File::new("crates/a/src/a.rs", "fn a() {}\n"),
        File::new("crates/a/tests/b/main.rs", "fn it_holds() {}\n"),
    ];
    let found = check_invariants(&File::new("ARCHITECTURE.md", &text), &files);
    assert_eq!(found, ["I11 has no section"]);

    let invented = text.replacen("`it_holds`", "`it_never_held`", 1) + "\n### I11 x\n\nNot built yet.\n";
    let found = check_invariants(&File::new("ARCHITECTURE.md", &invented), &files);
    assert_eq!(found.len(), 1, "{found:?}");
}
