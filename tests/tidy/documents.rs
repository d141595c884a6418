//! What the documents promise about each other and about the code.
//!
//! Owns the rules that a link leads somewhere, also to a heading; that each document can be found from the index;
//! that the decisions are numbered and listed; that the reference of the fleet file has every key that the schema has;
//! and that the document of limits has every limit. Neighbours: `errors` holds the reason codes to their document,
//! `invariants` holds `ARCHITECTURE.md` to the tests, `commands` what is typed to what there is.

use std::path::{Component, Path, PathBuf};

use regex::Regex;

use crate::tree::{File, assert_clean, find, line_of, read_tree};

fn check_links(files: &[File]) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)").unwrap();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for found in link.captures_iter(&file.text) {
            let target = &found[1];
            if target.contains("://") {
                continue;
            }
            let path = if target.is_empty() { file.path.clone() } else { resolve(&file.path, target) };
            let folder = format!("{path}/");
            let line = line_of(&file.text, found.get(0).unwrap().start());
            let mut report = |what: &str| findings.push(format!("{}:{line}: {what}", file.path));
            match (files.iter().find(|file| file.path == path), found.get(2)) {
                (None, _) if files.iter().any(|file| file.path.starts_with(&folder)) => {}
                (None, _) => report(&format!("{target} leads nowhere")),
                (Some(document), Some(part))
                    if !list_anchors(document).contains(&part.as_str().to_owned()) =>
                {
                    report(&format!("{path} has no heading #{}", part.as_str()));
                }
                (Some(_), _) => {}
            }
        }
    }
    findings
}

/// The headings of a document as links name them: small letters, hyphens for blanks, and no other signs.
fn list_anchors(document: &File) -> Vec<String> {
    let headings = document.text.lines().filter(|line| line.starts_with('#'));
    let kept = |character: &char| character.is_alphanumeric() || " -_".contains(*character);
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|title| title.chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

/// Every document below `docs` is a link of the index or, for decisions, of theirs.
fn check_index(files: &[File]) -> Vec<String> {
    let linked = |index: &str, path: &str| {
        let name = path.strip_prefix(index.trim_end_matches("README.md")).unwrap_or(path);
        find(files, index).text.contains(&format!("]({name})"))
    };
    files
        .iter()
        .filter(|file| {
            file.path.starts_with("docs/") && file.path.ends_with(".md") && file.path != "docs/README.md"
        })
        .filter(|file| {
            let decision = file.path.starts_with("docs/adr/0");
            !linked(if decision { "docs/adr/README.md" } else { "docs/README.md" }, &file.path)
        })
        .map(|file| format!("{}: the index does not lead to it", file.path))
        .collect()
}

/// Decisions are numbered without gaps, and their titles are theirs.
fn check_decisions(files: &[File]) -> Vec<String> {
    let form = Regex::new(r"^docs/adr/(\d{4})-[a-z0-9-]+\.md$").unwrap();
    let decisions =
        files.iter().filter(|file| file.path.starts_with("docs/adr/") && !file.path.ends_with("README.md"));
    decisions
        .zip(1_u32..)
        .filter(|(file, expected)| {
            let number = form.captures(&file.path).and_then(|found| found[1].parse::<u32>().ok());
            number != Some(*expected) || !file.text.starts_with(&format!("# {expected}. "))
        })
        .map(|(file, expected)| {
            format!("{}: should be docs/adr/{expected:04}-name.md, headed {expected}.", file.path)
        })
        .collect()
}

/// The path in the repository of what `target` means in the file at `from`.
fn resolve(from: &str, target: &str) -> String {
    let mut path = PathBuf::new();
    for part in Path::new(from).parent().unwrap_or(Path::new("")).join(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path.to_string_lossy().into_owned()
}

fn check_keys(schema: &File, reference: &File) -> Vec<String> {
    let key = Regex::new(r#"\b(?:key|later|off_only)\("([a-z-]+)""#).unwrap();
    let keys: Vec<_> = key.captures_iter(schema.production()).map(|found| found[1].to_owned()).collect();
    assert!(!keys.is_empty(), "{} has no keys in the form that is looked for", schema.path);
    keys.iter()
        .filter(|key| {
            !reference
                .text
                .lines()
                .any(|line| line.starts_with(['|', '#']) && line.contains(&format!("`{key}`")))
        })
        .filter(|key| !["first", "max", "roles"].contains(&key.as_str()))
        .map(|key| format!("{}: the key `{key}` is not explained", reference.path))
        .collect()
}

fn check_limits(limits: &File, document: &File) -> Vec<String> {
    let constant = Regex::new(r"(?m)^pub const (\w+):").unwrap();
    let names: Vec<_> = constant.captures_iter(&limits.text).map(|found| found[1].to_owned()).collect();
    assert!(!names.is_empty(), "{} has no constants in the form that is looked for", limits.path);
    names
        .iter()
        .filter(|name| !document.text.lines().any(|line| line.starts_with(&format!("| `{name}` |"))))
        .map(|name| format!("{}: {name} has no row", document.path))
        .collect()
}

#[test]
fn links_lead_somewhere() {
    assert_clean(&check_links(&read_tree()));
}

#[test]
fn index_leads_to_every_document() {
    assert_clean(&check_index(&read_tree()));
}

#[test]
fn decisions_are_numbered() {
    assert_clean(&check_decisions(&read_tree()));
}

#[test]
fn every_key_of_the_fleet_file_is_explained() {
    let files = read_tree();
    let schema = find(&files, "crates/tenure-core/src/declaration/schema.rs");
    assert_clean(&check_keys(schema, find(&files, "docs/reference/fleet-file.md")));
}

#[test]
fn every_limit_is_listed() {
    let files = read_tree();
    let limits = find(&files, "crates/tenure-core/src/limits.rs");
    assert_clean(&check_limits(limits, find(&files, "docs/operate/limits.md")));
}

#[test]
fn unlisted_limit_is_found() {
    let limits = File::new("limits.rs", "pub const A_MAX: u8 = 1;\npub const B_MAX: u8 = 2;\n");
    assert_eq!(check_limits(&limits, &File::new("limits.md", "| `A_MAX` | 1 | |\nB_MAX\n")).len(), 1);
}

#[test]
fn dead_link_is_found() {
    let files = [
        File::new(
            "docs/a.md",
            "# A\n[b](../b.md#the-part-i) [c](c) [d](d.md) [e](https://example.com/e)\n[f](f.md) [a](#a)",
        ),
        File::new("b.md", "## The `part`, I\n[x](docs/a.md#b) [y](#c)"),
        File::new("docs/c/README.md", ""),
    ];
    let findings = check_links(&files);
    assert_eq!(
        findings,
        [
            "docs/a.md:2: d.md leads nowhere",
            "docs/a.md:3: f.md leads nowhere",
            "b.md:2: docs/a.md has no heading #b",
            "b.md:2: b.md has no heading #c",
        ]
    );
}

#[test]
fn unlisted_document_and_misnumbered_decision_are_found() {
    let files = [
        File::new("docs/README.md", "[a](operate/a.md) [all](adr/README.md)"),
        File::new("docs/adr/0001-a.md", "# 1. A"),
        File::new("docs/adr/0003-c.md", "# 3. C"),
        File::new("docs/adr/README.md", "[1. A](0001-a.md)"),
        File::new("docs/operate/a.md", ""),
        File::new("docs/operate/b.md", ""),
    ];
    let findings = check_index(&files);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].starts_with("docs/adr/0003-c.md") && findings[1].starts_with("docs/operate/b.md"));
    assert_eq!(check_decisions(&files).len(), 1);
}

#[test]
fn unexplained_key_is_found() {
    let schema = File::new("schema.rs", "key(\"timeout\", x), later(\"turns\", x), off_only(\"in-memory\")");
    let reference =
        File::new("fleet-file.md", "| `timeout` | a duration |\n`turns` is prose\n| `in-memory` | |\n");
    assert_eq!(check_keys(&schema, &reference).len(), 1);
}
