//! The form of the changelog.
//!
//! Owns the rules on `CHANGELOG.md`: *Unreleased* comes first, releases follow newest first with their dates, changes
//! stand under the headings of Keep a Changelog, and each is a sentence. What the changes say is left to review.

use regex::Regex;

use crate::tree::{File, assert_clean, find, read_tree};

/// The headings under which changes may stand, and their order.
const KINDS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

fn check_changelog(changelog: &File) -> Vec<String> {
    let sections: Vec<(usize, &str)> = headings(&changelog.text, "## ");
    let mut findings = Vec::new();
    if sections.first().is_none_or(|(_, name)| *name != "[Unreleased]") {
        findings.push("the first section is [Unreleased]".to_owned());
    }
    findings.extend(check_releases(&sections));
    findings.extend(check_kinds(&changelog.text));
    findings.extend(check_entries(&changelog.text));
    findings.iter().map(|finding| format!("{}: {finding}", changelog.path)).collect()
}

/// The headings of one depth, with the numbers of their lines.
fn headings<'a>(text: &'a str, mark: &str) -> Vec<(usize, &'a str)> {
    text.lines().zip(1..).filter_map(|(line, number)| Some((number, line.strip_prefix(mark)?))).collect()
}

/// Releases are `[1.2.3] - 2026-01-31`, and each is older than the one before it.
fn check_releases(sections: &[(usize, &str)]) -> Vec<String> {
    let form = Regex::new(r"^\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d{2}-\d{2})$").unwrap();
    let mut findings = Vec::new();
    let mut newer: Option<([u32; 3], String)> = None;
    for (line, name) in sections.iter().filter(|(_, name)| *name != "[Unreleased]") {
        let Some(found) = form.captures(name) else {
            findings.push(format!("line {line}: a release is [VERSION] - DATE"));
            continue;
        };
        let version = [1, 2, 3].map(|part| found[part].parse().unwrap_or(0));
        let date = found[4].to_owned();
        if newer.is_some_and(|(newer, newest_date)| version >= newer || date > newest_date) {
            findings.push(format!("line {line}: releases go from the newest to the oldest"));
        }
        newer = Some((version, date));
    }
    findings
}

/// Within one section every kind stands once at most, in their order.
fn check_kinds(text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut last = None;
    for (line, number) in text.lines().zip(1..) {
        if line.starts_with("## ") {
            last = None;
        }
        let Some(kind) = line.strip_prefix("### ") else { continue };
        match KINDS.iter().position(|known| *known == kind) {
            None => findings.push(format!("line {number}: {kind} is none of {}", KINDS.join(", "))),
            Some(place) if last.is_some_and(|last| place <= last) => {
                findings.push(format!("line {number}: {kind} stands twice, or too late"));
            }
            place => last = place,
        }
    }
    findings
}

/// A change is a list item of one or more sentences, and belongs to a kind.
fn check_entries(text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut kind = false;
    for (index, line) in lines.iter().enumerate() {
        if line.starts_with('#') {
            kind = line.starts_with("### ");
        }
        if !line.starts_with("- ") {
            continue;
        }
        let more = lines[index + 1..].iter().take_while(|line| line.starts_with("  "));
        let end = more.last().unwrap_or(line);
        if !kind {
            findings.push(format!("line {}: a change stands under its kind", index + 1));
        }
        if !end.ends_with(['.', '?', ')']) {
            findings.push(format!("line {}: a change is a sentence", index + 1));
        }
    }
    findings
}

#[test]
fn changelog_has_the_form_that_readers_know() {
    assert_clean(&check_changelog(find(&read_tree(), "CHANGELOG.md")));
}

#[test]
fn misshapen_changelogs_are_found() {
    let good = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing\n  of two lines.\n\n### Fixed\n\n- One.\n\n\
                ## [0.2.0] - 2026-03-01\n\n### Added\n\n- Two.\n\n## [0.1.9] - 2026-02-28\n";
    assert_eq!(check_changelog(&File::new("CHANGELOG.md", good)), Vec::<String>::new());
    for (from, to) in [
        ("## [Unreleased]\n", "## [0.3.0] - 2026-04-01\n"),
        ("[0.1.9]", "[0.2.1]"),
        ("2026-02-28", "2026-03-28"),
        ("2026-02-28", "February"),
        ("### Fixed", "### Repaired"),
        ("### Fixed", "### Added"),
        ("of two lines.", "of two lines"),
        ("### Fixed\n", "## [0.2.1] - 2026-03-02\n"),
    ] {
        let bad = good.replacen(from, to, 1);
        let findings = check_changelog(&File::new("CHANGELOG.md", &bad));
        assert_eq!(findings.len(), 1, "{from} → {to}: {findings:?}");
    }
}
