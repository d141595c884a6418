//! What the documents promise about each other and about the code.
//!
//! Owns three rules: a link leads somewhere, the reference of the fleet file has every key that the
//! schema has, and the document of limits has every limit. Neighbours: `errors` holds the reason codes to their document, `invariants` holds
//! `ARCHITECTURE.md` to the tests.

use std::path::{Component, Path, PathBuf};

use regex::Regex;

use crate::tree::{File, assert_clean, find, line_of, read_tree};

fn check_links(files: &[File]) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)#\s]+)(?:#[^)]*)?\)").unwrap();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for found in link.captures_iter(&file.text) {
            let target = &found[1];
            if target.contains("://") {
                continue;
            }
            let path = resolve(&file.path, target);
            let folder = format!("{path}/");
            if !files.iter().any(|file| file.path == path || file.path.starts_with(&folder)) {
                let line = line_of(&file.text, found.get(0).unwrap().start());
                findings.push(format!("{}:{line}: {target} leads nowhere", file.path));
            }
        }
    }
    findings
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
        File::new("docs/a.md", "[b](../b.md#part) [c](c) [d](d.md) [e](https://example.com/e)\n[f](f.md)"),
        File::new("b.md", ""),
        File::new("docs/c/README.md", ""),
    ];
    let findings = check_links(&files);
    assert_eq!(findings, ["docs/a.md:1: d.md leads nowhere", "docs/a.md:2: f.md leads nowhere"]);
}

#[test]
fn unexplained_key_is_found() {
    let schema = File::new("schema.rs", "key(\"timeout\", x), later(\"turns\", x), off_only(\"in-memory\")");
    let reference =
        File::new("fleet-file.md", "| `timeout` | a duration |\n`turns` is prose\n| `in-memory` | |\n");
    assert_eq!(check_keys(&schema, &reference).len(), 1);
}
