//! What is written twice.
//!
//! Owns the rule that no run of lines stands in two places of what is compiled into the product. Lines that say nothing
//! by themselves (comments, imports, closing brackets) are left out of the comparison. Tests may repeat themselves: each
//! shows what it needs.

use std::collections::BTreeMap;

use crate::tree::{File, assert_clean, read_tree};

/// So many telling lines in a row are no coincidence any more.
const WINDOW_LINES: usize = 12;

/// The lines that are compared, with their numbers.
fn telling_lines(file: &File) -> Vec<(usize, &str)> {
    let silent = |line: &str| {
        line.is_empty()
            || ["//", "use ", "mod ", "pub use "].iter().any(|start| line.starts_with(start))
            || line.chars().all(|character| "{}()[],;".contains(character))
    };
    let lines = file.production().lines().map(str::trim).zip(1..).map(|(line, number)| (number, line));
    lines.filter(|(_, line)| !silent(line)).collect()
}

fn check_repetition(files: &[File]) -> Vec<String> {
    let mut seen: BTreeMap<Vec<&str>, (&str, usize)> = BTreeMap::new();
    // One finding for each pair of files, the first of the windows that they share.
    let mut found: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for window in telling_lines(file).windows(WINDOW_LINES) {
            let text: Vec<&str> = window.iter().map(|(_, line)| *line).collect();
            let here = (file.path.as_str(), window[0].0);
            match seen.get(&text) {
                Some((path, line)) => {
                    let finding = format!("{}:{}: says the same as {path}:{line}", here.0, here.1);
                    found.entry((path, here.0)).or_insert(finding);
                }
                None => drop(seen.insert(text, here)),
            }
        }
    }
    found.into_values().collect()
}

#[test]
fn nothing_is_written_twice() {
    assert_clean(&check_repetition(&read_tree()));
}

#[test]
fn repeated_lines_are_found_once_for_each_pair_of_files() {
    let body = |lines: usize| -> String { (0..lines).map(|line| format!("    step({line});\n")).collect() };
    let long = format!("fn a() {{\n{}}}\n", body(WINDOW_LINES + 3));
    let apart = format!("// prose\nuse b::c;\n{}", long.replace("step(2);", "step(2);\n\n    // between\n"));
    let files = [File::new("crates/a/src/a.rs", &long), File::new("crates/a/src/b.rs", &apart)];
    assert_eq!(check_repetition(&files), ["crates/a/src/b.rs:3: says the same as crates/a/src/a.rs:1"]);
    let short = body(WINDOW_LINES - 1);
    let files = [File::new("crates/a/src/a.rs", &short), File::new("crates/a/src/b.rs", &short)];
    assert_eq!(check_repetition(&files), Vec::<String>::new());
}
