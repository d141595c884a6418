//! What must be written, and what must not.
//!
//! Owns the rules on headers, on words that do not belong into landed code, on the names of tests, and on sleeping in them.

use regex::Regex;

use crate::tree::{File, assert_clean, line_of, read_tree};

/// A header shorter than this, in bytes, says nothing.
const HEADER_MIN_BYTES: usize = 20;

/// What is missing is said in the documents, not left in the code. Cut in two, so that this file
/// does not find itself.
const UNFINISHED: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("unimpl", "emented!"),
    concat!("to", "do!("),
];

/// First parts of absolute paths that exist on somebody's machine only.
const PRIVATE_PLACES: &str = r#"(?m)(?:^|[\s"'`(=:])/(?:root|work|workspace|Users|mnt)/[\w.-]+"#;

/// Hosts of package registries and of mirrors: where packages come from is the reader's choice.
const REGISTRY_HOSTS: &str = r"https?://[^/\s]*(?:registry|mirror|index\.|proxy\.)";

/// How the code came about is nothing that a reader can look up.
const HOW_IT_CAME: &str = r"(?i)\bissue #?\d|\.\./shared\b";

/// A file `name/tests.rs` is the end of `name.rs`, whose header speaks for both.
fn check_headers(files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.is_rust() && !file.path.ends_with("/tests.rs"))
        .filter(|file| {
            let header = file.text.lines().take_while(|line| line.starts_with("//!"));
            header.map(|line| line.len() - 3).sum::<usize>() < HEADER_MIN_BYTES
        })
        .map(|file| format!("{}: begins without a header that says what it owns", file.path))
        .collect()
}

fn check_unfinished(files: &[File]) -> Vec<String> {
    let written_by_us = |file: &&File| {
        [".rs", ".sql", ".proto", ".toml", ".md", "Makefile", ".sh"]
            .iter()
            .any(|end| file.path.ends_with(end))
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(written_by_us) {
        for (line, number) in file.text.lines().zip(1..) {
            if let Some(word) = UNFINISHED.iter().find(|word| line.contains(*word)) {
                findings.push(format!("{}:{number}: {word} does not land", file.path));
            }
        }
    }
    findings
}

fn check_places(files: &[File]) -> Vec<String> {
    let rules = [
        (Regex::new(PRIVATE_PLACES).unwrap(), "is a path of somebody's machine"),
        (Regex::new(REGISTRY_HOSTS).unwrap(), "is the host of a registry"),
        (Regex::new(HOW_IT_CAME).unwrap(), "is known to those who wrote it only"),
    ];
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path != "Cargo.lock") {
        for (rule, why) in &rules {
            for found in rule.find_iter(&file.text) {
                let line = line_of(&file.text, found.start());
                findings.push(format!("{}:{line}: {} {why}", file.path, found.as_str().trim()));
            }
        }
    }
    findings
}

/// A test waits for a condition. Loops that look again and again are functions named `wait_…`, which
/// report what they last saw.
fn check_sleeps(files: &[File]) -> Vec<String> {
    let sleep = Regex::new(r"\bsleep(?:_until)?\(").unwrap();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.path.starts_with("tests/tidy/")) {
        let offset = file.production().len();
        for found in sleep.find_iter(file.test_part()) {
            let before = &file.test_part()[..found.start()];
            let function = before.rfind("fn ").map_or("", |start| &before[start + 3..]);
            if function.starts_with("wait_") {
                continue;
            }
            let line = line_of(&file.text, offset + found.start());
            findings.push(format!("{}:{line}: a test waits for a condition, not for time", file.path));
        }
    }
    findings
}

/// A test's name is a fact, which takes a subject and what holds of it.
fn check_facts(files: &[File]) -> Vec<String> {
    let test =
        Regex::new(r"#\[(?:tokio::)?test(?:\([^\]]*\))?\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)").unwrap();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for found in test.captures_iter(&file.text) {
            let name = &found[1];
            if name.starts_with("test_") || name.split('_').count() < 3 {
                let line = line_of(&file.text, found.get(1).unwrap().start());
                findings.push(format!("{}:{line}: {name} states no fact", file.path));
            }
        }
    }
    findings
}

#[test]
fn names_of_tests_are_facts() {
    assert_clean(&check_facts(&read_tree()));
}

#[test]
fn names_that_state_nothing_are_found() {
    let attribute = concat!("#[te", "st]");
    for (name, expected) in [("a_lease_ends", 0), ("lease_ends", 1), ("test_that_a_lease_ends", 1)] {
        for more in ["", "#[should_panic]\n", "#[expect(x, reason = \"y\")]\nasync "] {
            let text = format!("{attribute}\n{more}fn {name}() {{}}\n");
            assert_eq!(check_facts(&[File::new("a.rs", &text)]).len(), expected, "{text}");
        }
    }
}

#[test]
fn every_file_begins_with_its_header() {
    assert_clean(&check_headers(&read_tree()));
}

#[test]
fn nothing_unfinished_has_landed() {
    assert_clean(&check_unfinished(&read_tree()));
}

#[test]
fn nothing_names_a_private_machine_or_a_registry() {
    assert_clean(&check_places(&read_tree()));
}

#[test]
fn no_test_sleeps() {
    assert_clean(&check_sleeps(&read_tree()));
}

#[test]
fn missing_and_empty_headers_are_found() {
    let files = [
        File::new("a.rs", "use std::fs;\n"),
        File::new("b.rs", "//! b\n"),
        File::new("c.rs", "//! Owns c and promises that it stays one.\n"),
    ];
    assert_eq!(check_headers(&files).len(), 2);
}

#[test]
fn unfinished_word_is_found_with_its_line() {
    let file = File::new("a.sql", &format!("-- fine\n-- {}: later\n", UNFINISHED[0]));
    assert!(check_unfinished(&[file])[0].starts_with("a.sql:2:"));
}

#[test]
fn private_places_are_found_and_public_ones_are_not() {
    let texts = [
        ("cd /ro", "ot/x", 1),
        ("\"/Us", "ers/ann/x\"", 1),
        ("/home/linuxbrew/.linuxbrew", "", 0),
        ("the route /work", "ers/7", 0),
        ("https://my-mir", "ror.example/simple", 1),
        ("https://example.com/", "", 0),
        ("as is", "sue 7 says", 1),
        ("an issue", " of the day", 0),
    ];
    for (start, end, expected) in texts {
        let file = File::new("a.md", &format!("{start}{end}"));
        assert_eq!(check_places(&[file]).len(), expected, "{start}{end}");
    }
}

#[test]
fn sleep_is_found_in_tests_only() {
    let files = [
        File::new("crates/a/src/b.rs", "fn a() { sleep(b) }\n\n#[cfg(test)]\nmod tests { sleep(b) }\n"),
        File::new("crates/a/tests/c/main.rs", "fn a() { thread::sleep(b) }\n"),
        File::new("crates/a/tests/c/wait.rs", "fn wait_for() { sleep(b) }\n"),
        File::new("crates/a/tests/d/main.rs", "fn a() { run(\"sleep 60\") }\n"),
    ];
    let findings = check_sleeps(&files);
    assert_eq!(findings.len(), 2);
    assert!(findings[0].starts_with("crates/a/src/b.rs:4:"));
}
