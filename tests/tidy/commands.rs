//! What the documents tell people to type.
//!
//! Owns the rules that each `make` target and each `tenure` verb with its options, wherever a document shows it, exists,
//! and that each target that `make` lists is explained in a document. What the program takes is read from the help that
//! its own tests pin. Neighbours: `reference` holds the reference of the command line to the same pins.

use regex::Regex;

use crate::{
    reference::{Pins, list_verbs, read_pins},
    tree::{File, assert_clean, find, read_tree},
};

/// Fenced text in these languages is not typed.
const NOT_TYPED: [&str; 5] = ["rust", "json", "sql", "proto", "text"];

/// A command as it is typed, and where it stands.
struct Typed<'a> {
    path: &'a str,
    line: usize,
    program: &'a str,
    rest: &'a str,
}

/// Everything that looks like a call of `make` or `tenure` in the code of a document, fenced or between backticks.
fn list_typed(file: &File) -> Vec<Typed<'_>> {
    let call = Regex::new(r#"(?:^|[\s("';|&=])(make|tenure) ((?:'[^']*'?|"[^"]*"?|[^;|&#)"'\n])*)"#).unwrap();
    let span = Regex::new(r"`((?:make|tenure) [^`]*)`").unwrap();
    let (mut fenced, mut typed) = (None, Vec::new());
    for (line, number) in file.text.lines().zip(1..) {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fenced = if fenced.is_some() { None } else { Some(language.trim()) };
            continue;
        }
        let snippets: Vec<&str> = match fenced {
            Some(language) if NOT_TYPED.contains(&language) => Vec::new(),
            // What the program says to do next.
            Some(_) => line.split("   or: ").collect(),
            None => span.captures_iter(line).map(|found| found.get(1).unwrap().as_str()).collect(),
        };
        for found in snippets.into_iter().flat_map(|snippet| call.captures_iter(snippet)) {
            let part = |index| found.get(index).map_or("", |part: regex::Match<'_>| part.as_str());
            typed.push(Typed { path: &file.path, line: number, program: part(1), rest: part(2).trim() });
        }
    }
    typed
}

fn list_targets(makefile: &File) -> Vec<String> {
    let target = Regex::new(r"(?m)^([a-z][a-z-]*):").unwrap();
    target.captures_iter(&makefile.text).map(|found| found[1].to_owned()).collect()
}

fn check_typed(documents: &[File], targets: &[String], pins: &Pins) -> Vec<String> {
    let verbs = list_verbs(pins);
    let option = Regex::new(r"(?:^|[\s\[])(--[a-z][a-z-]*)").unwrap();
    let quoted = Regex::new(r#"'[^']*'?|"[^"]*"?"#).unwrap();
    let mut findings = Vec::new();
    for typed in documents.iter().filter(|file| file.path.ends_with(".md")).flat_map(list_typed) {
        let mut report = |what: &str| {
            findings.push(format!("{}:{}: {} {}: {what}", typed.path, typed.line, typed.program, typed.rest));
        };
        let first = typed.rest.split_whitespace().next().unwrap_or_default().trim_end_matches(['\'', '"']);
        // A place holder, or an option of the program itself.
        if !first.starts_with(|character: char| character.is_ascii_lowercase()) {
            continue;
        }
        if typed.program == "make" {
            if !targets.iter().any(|target| target == first) {
                report("there is no such target");
            }
            continue;
        }
        if !verbs.iter().any(|verb| verb == first) {
            report("there is no such verb");
            continue;
        }
        // What follows is the command of the effect, and what is quoted is no option of ours.
        let own = quoted.replace_all(typed.rest.split(" -- ").next().unwrap_or_default(), "''");
        for found in option.captures_iter(&own) {
            if !takes_option(pins, first, &found[1]) {
                report(&format!("it takes no {}", &found[1]));
            }
        }
    }
    findings
}

/// Whether the help of a verb, or of one below it, names an option.
fn takes_option(pins: &Pins, verb: &str, option: &str) -> bool {
    let named = Regex::new(&format!(r"(?m)(?:^|[\s,\[]){option}(?:[\s=,.\]]|$)")).unwrap();
    let below = format!("{verb}-");
    pins.iter().any(|(name, help)| (name == verb || name.starts_with(&below)) && named.is_match(help))
}

/// What `make` lists is explained, and nothing that it can do is taken for a file.
fn check_targets(makefile: &File, documents: &[File]) -> Vec<String> {
    let listed = Regex::new(r"(?m)^([a-z][a-z-]*):.*## ").unwrap();
    let phony = Regex::new(r"(?m)^\.PHONY:((?:.*\\\n)*.*)$").unwrap();
    let phony = phony.captures(&makefile.text).map_or("", |found| found.get(1).unwrap().as_str());
    let typed: Vec<Typed<'_>> =
        documents.iter().filter(|file| file.path.ends_with(".md")).flat_map(list_typed).collect();
    let explained = |target: &str| {
        let targets = typed.iter().filter(|typed| typed.program == "make");
        targets.into_iter().any(|typed| typed.rest.split_whitespace().next() == Some(target))
    };
    let unexplained = listed
        .captures_iter(&makefile.text)
        .map(|found| found[1].to_owned())
        .filter(|target| target != "help" && !explained(target))
        .map(|target| format!("{}: no document explains make {target}", makefile.path));
    let mut targets = list_targets(makefile);
    targets.sort();
    targets.dedup();
    let files = targets
        .into_iter()
        .filter(|target| !phony.split_whitespace().any(|name| name == target))
        .map(|target| format!("{}: {target} is not in .PHONY", makefile.path));
    unexplained.chain(files).collect()
}

#[test]
fn what_documents_say_to_type_exists() {
    let files = read_tree();
    let targets = list_targets(find(&files, "Makefile"));
    assert!(!targets.is_empty());
    assert_clean(&check_typed(&files, &targets, &read_pins(&files)));
}

#[test]
fn every_target_is_explained() {
    let files = read_tree();
    assert_clean(&check_targets(find(&files, "Makefile"), &files));
}

#[test]
fn invented_commands_are_found() {
    let pins = Pins::from([
        (String::new(), "Work:\n  submit  Submit\n  token  Tokens\n\nEvery verb:\n".to_owned()),
        ("submit".to_owned(), "  --key <K>\n      --wait  Wait\n".to_owned()),
        ("token".to_owned(), "new".to_owned()),
        ("token-new".to_owned(), "--tenant <T>".to_owned()),
    ]);
    let targets = ["test".to_owned()];
    for (text, expected) in [
        ("run `make test` or `make tset`", 1),
        ("`tenure submit A --wait --key K`, `tenure sbumit`", 1),
        ("`tenure submit A --waits`", 1),
        ("`tenure token new --tenant T`", 0),
        ("`tenure VERB --help` and make do with a tenure track", 0),
        ("```sh\njob=$(tenure submit a --kee k)\ntenure submit a # --later\n```", 1),
        ("```\nmake test SEED=1 && make nothing\n```\n```text\nmake no sense\n```", 1),
        ("`tenure submit a -- cc --std`", 0),
        ("```\nnext: tenure submit a   or: tenure token new --tenant T\n```", 0),
        ("```\nnext: tenure submit a   or: tenure submit a --wits\n```", 1),
        ("```\ntenure submit a --key 'b --c && d' --wits\n```", 1),
    ] {
        let findings = check_typed(&[File::new("a.md", text)], &targets, &pins);
        assert_eq!(findings.len(), expected, "{text}: {findings:?}");
    }
}

#[test]
fn unexplained_and_unlisted_targets_are_found() {
    let makefile = File::new("Makefile", ".PHONY: a \\\n\tb\na: c ## the first\nb: ## the second\nc:\n");
    let findings = check_targets(&makefile, &[File::new("a.md", "`make a`")]);
    assert_eq!(findings, ["Makefile: no document explains make b", "Makefile: c is not in .PHONY"]);
}
