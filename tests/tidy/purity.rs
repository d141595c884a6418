//! What a crate may know.
//!
//! Owns the arrows between our crates, the libraries that only some of them may use, and the purity of
//! the core. A new crate is a finding until its arrows are written down here.

use regex::Regex;

use crate::tree::{File, assert_clean, line_of, read_tree};

/// Which of our crates each one may depend on, tests not counted. Arrows point to the core.
const ARROWS: [(&str, &[&str]); 16] = [
    ("tenure-core", &[]),
    ("tenure-postgres", &[]),
    ("tenure-proto", &["tenure-core"]),
    ("tenure-store", &["tenure-core"]),
    ("tenure-telemetry", &["tenure-core"]),
    ("tenure-coordinator", &["tenure-core", "tenure-proto", "tenure-store", "tenure-telemetry"]),
    ("tenure-worker", &["tenure-core", "tenure-proto", "tenure-telemetry"]),
    ("tenure-client", &["tenure-core", "tenure-proto"]),
    (
        "tenure-cli",
        &[
            "tenure-client",
            "tenure-coordinator",
            "tenure-core",
            "tenure-postgres",
            "tenure-proto",
            "tenure-store",
            "tenure-telemetry",
            "tenure-worker",
        ],
    ),
    ("tenure-testkit", &["tenure-client", "tenure-core", "tenure-postgres", "tenure-proto", "tenure-store"]),
    ("tenure-bench", &["tenure-client", "tenure-postgres", "tenure-proto"]),
    ("tenure-example-handler", &["tenure-telemetry", "tenure-testkit", "tenure-worker"]),
    ("tenure-example-payment", &["tenure-testkit", "tenure-worker"]),
    ("tenure-example-release", &["tenure-testkit"]),
    ("tenure-example-team", &["tenure-testkit"]),
    ("tenure-demo", &["tenure-client", "tenure-core", "tenure-postgres", "tenure-proto", "tenure-testkit"]),
];

/// Libraries that only some crates may use, tests not counted.
const RESERVED: [(&str, &[&str]); 4] = [
    ("sqlx", &["tenure-store", "tenure-testkit", "tenure-bench", "tenure-demo"]),
    (
        "tonic",
        &[
            "tenure-proto",
            "tenure-coordinator",
            "tenure-worker",
            "tenure-client",
            "tenure-cli",
            "tenure-bench",
            "tenure-testkit",
        ],
    ),
    ("prost", &["tenure-proto", "tenure-coordinator"]),
    ("axum", &["tenure-coordinator", "tenure-cli"]),
];

/// What the core may not touch: clocks, randomness, the operating system, waiting.
const IMPURE: &str = r"\btokio\b|\bInstant\b|\bSystemTime\b|\bstd::(?:net|fs|thread|env|process|io)\b|\brand::|\bnow_v7\b|\bnew_v4\b|\b(?:Timestamp|Zoned)::now\b|\basync\b|\.await\b";

fn check_arrows(manifests: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in manifests {
        let (name, dependencies) = read_manifest(file);
        let Some((_, allowed)) = ARROWS.iter().find(|(crate_name, _)| *crate_name == name) else {
            findings.push(format!("{}: {name} has no arrows in tests/tidy/purity.rs", file.path));
            continue;
        };
        for dependency in &dependencies {
            if dependency.starts_with("tenure-") && !allowed.contains(&dependency.as_str()) {
                findings.push(format!("{}: {name} may not know {dependency}", file.path));
            }
            let reserved = RESERVED.iter().find(|(library, _)| library == dependency);
            if reserved.is_some_and(|(_, users)| !users.contains(&name.as_str())) {
                findings.push(format!("{}: {name} may not use {dependency}", file.path));
            }
        }
    }
    findings
}

/// A crate's name and what it is built from, for every target platform; not what it is tested with.
fn read_manifest(file: &File) -> (String, Vec<String>) {
    let manifest: toml::Table = file.text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.path));
    let name = manifest["package"]["name"].as_str().unwrap_or_default().to_owned();
    let of_targets = manifest
        .get("target")
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(|targets| targets.values().filter_map(|target| target.get("dependencies")));
    let dependencies = manifest
        .get("dependencies")
        .into_iter()
        .chain(of_targets)
        .filter_map(toml::Value::as_table)
        .flat_map(|table| table.keys().cloned())
        .collect();
    (name, dependencies)
}

fn check_core(files: &[File]) -> Vec<String> {
    let impure = Regex::new(IMPURE).unwrap();
    let braces = Regex::new(r"\bstd::\{[^}]*\b(?:net|fs|thread|env|process|io)\b").unwrap();
    let mut findings = Vec::new();
    for file in files {
        let text = without_comments(file.production());
        for found in impure.find_iter(&text).chain(braces.find_iter(&text)) {
            let line = line_of(&text, found.start());
            findings.push(format!("{}:{line}: the core may not use {}", file.path, found.as_str()));
        }
    }
    findings
}

/// The same lines with the comments emptied: prose may speak of clocks.
fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| if line.trim_start().starts_with("//") { "\n".to_owned() } else { format!("{line}\n") })
        .collect()
}

#[test]
fn arrows_between_crates_point_to_the_core() {
    let manifests: Vec<_> = read_tree()
        .into_iter()
        .filter(|file| file.path.ends_with("/Cargo.toml") && file.path.split('/').count() == 3)
        .collect();
    assert!(manifests.len() >= 9, "only {} manifests were found", manifests.len());
    assert_clean(&check_arrows(&manifests));
}

#[test]
fn core_decides_without_clock_randomness_or_system() {
    let files: Vec<_> = read_tree()
        .into_iter()
        .filter(|file| file.is_rust() && file.path.starts_with("crates/tenure-core/src/"))
        .collect();
    assert!(!files.is_empty());
    assert_clean(&check_core(&files));
}

#[test]
fn wrong_arrow_and_reserved_library_are_found() {
    let manifest = |name: &str, rest: &str| {
        File::new("crates/x/Cargo.toml", &format!("[package]\nname = \"{name}\"\n{rest}"))
    };
    let wrong = [
        manifest("tenure-worker", "[dependencies]\ntenure-store.workspace = true\n"),
        manifest("tenure-coordinator", "[dependencies]\nsqlx.workspace = true\n"),
        manifest("tenure-store", "[target.'cfg(unix)'.dependencies]\ntonic = \"1\"\n"),
        manifest("tenure-unheard-of", ""),
    ];
    assert_eq!(check_arrows(&wrong).len(), 4);
    let right = [manifest("tenure-worker", "[dev-dependencies]\ntenure-store.workspace = true\n")];
    assert_eq!(check_arrows(&right), Vec::<String>::new());
}

#[test]
fn impure_core_is_found() {
    for line in [
        "use tokio::sync::mpsc;",
        "use std::time::Instant;",
        "use std::{fmt, fs};",
        "let now = Timestamp::now();",
        "let id = Uuid::now_v7();",
        "async fn decide() {}",
    ] {
        assert_eq!(check_core(&[File::new("a.rs", line)]).len(), 1, "{line}");
    }
    let pure = "// an Instant is not ours\nuse std::{fmt, time::Duration};\n#[cfg(test)]\nmod tests { use std::fs; }\n";
    assert_eq!(check_core(&[File::new("a.rs", pure)]), Vec::<String>::new());
}
