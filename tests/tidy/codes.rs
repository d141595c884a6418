//! The stable reason codes: what the product can refuse with, what `docs/operate/errors.md` explains, and what tests
//! provoke are the same set.
//!
//! Owns the comparison of the three, and the rule that something of the product can return each code: a code is no plan.
//! A test says what it provokes in its documentation, as ``/// Provokes `JOB_NOT_FOUND`.`` or ``/// Provokes `FENCED` and
//! `RUN_OVER`.``, and names the code again where it asserts it. The sentence may also stand on a function that a test calls.
//! Neighbours: `errors` (how refusals are worded).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::Regex;

use crate::tree::{File, assert_clean, find, read_tree};

const REASONS: &str = "crates/tenure-core/src/reason.rs";
/// The one table to gRPC, which names every code and returns none.
const TABLE: &str = "crates/tenure-proto/src/status.rs";
const DOCUMENT: &str = "docs/operate/errors.md";

// Every file is searched with each of these: compiling them is what would take the time.
static PROVOKES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?m)^(?P<indent> *)/// Provokes (?P<codes>`[^\n]*)\.\n(?P<head>(?: *(?:///|#\[|//)[^\n]*\n)*) *(?:pub\(crate\) )?(?:async )?fn (?P<name>\w+)",
    )
    .unwrap()
});
static QUOTED_CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`([A-Z][A-Z0-9_]+)`").unwrap());
static RETURNED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"\bReason::(?P<variant>\w+)|"(?P<code>[A-Z][A-Z0-9_]+)""#).unwrap());

/// A code and the name of its variant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Code {
    code: String,
    variant: String,
}

impl Code {
    /// Whether a text names it: as the variant, or as programs see it.
    fn is_named_in(&self, text: &str) -> bool {
        has_word(text, &format!("Reason::{}", self.variant)) || has_word(text, &self.code)
    }
}

/// Whether `word` stands in the text with no part of another word beside it.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        !text[..start].ends_with(is_part) && !text[start + word.len()..].starts_with(is_part)
    })
}

/// A function in test code that says what it provokes.
struct Provocation {
    /// Where it is, for a finding.
    place: String,
    /// What it says it provokes.
    codes: Vec<String>,
    body: String,
    /// True where it is a test, or something in its file calls it.
    runs: bool,
}

fn read_codes(reasons: &File) -> Vec<Code> {
    let line = Regex::new(r#"(\w+) = "([A-Z][A-Z0-9_]+)", \w+;"#).unwrap();
    let codes: Vec<_> = line
        .captures_iter(&reasons.text)
        .map(|found| Code { variant: found[1].to_owned(), code: found[2].to_owned() })
        .collect();
    assert!(!codes.is_empty(), "{} defines no codes in the form that is looked for", reasons.path);
    codes
}

fn check_explanations(codes: &[Code], document: &File) -> Vec<String> {
    let heading = Regex::new(r"(?m)^#+ `?([A-Z][A-Z0-9_]+)`?$").unwrap();
    let explained: Vec<_> = heading.captures_iter(&document.text).map(|found| found[1].to_owned()).collect();
    let missing = codes.iter().filter(|code| !explained.contains(&code.code));
    let unknown = explained.iter().filter(|name| !codes.iter().any(|code| code.code == **name));
    missing
        .map(|code| format!("{}: {} is not explained", document.path, code.code))
        .chain(unknown.map(|name| format!("{}: {name} is no reason code", document.path)))
        .collect()
}

fn read_provocations(file: &File) -> Vec<Provocation> {
    let text = file.test_part();
    PROVOKES
        .captures_iter(text)
        .map(|found| {
            let start = found.get(0).unwrap().end();
            let end = text[start..].find(&format!("\n{}}}", &found["indent"])).unwrap_or(0);
            let (name, is_test) =
                (&found["name"], found["head"].contains("test]") || found["head"].contains("test("));
            let called = text.matches(&format!("{name}(")).count() > 1;
            Provocation {
                place: format!("{}: {name}", file.path),
                codes: QUOTED_CODE.captures_iter(&found["codes"]).map(|found| found[1].to_owned()).collect(),
                body: text[start..start + end].to_owned(),
                runs: is_test || called,
            }
        })
        .collect()
}

fn check_provocations(codes: &[Code], files: &[File]) -> Vec<String> {
    let mut provoked: BTreeMap<&str, usize> = codes.iter().map(|code| (code.code.as_str(), 0)).collect();
    let mut findings = Vec::new();
    let provocations = files.iter().filter(|file| file.is_rust()).flat_map(read_provocations);
    for Provocation { place, codes: said, body, runs } in provocations {
        if !runs {
            findings.push(format!("{place} is no test, and nothing calls it"));
        }
        for name in said {
            let Some(code) = codes.iter().find(|code| code.code == name) else {
                findings.push(format!("{place} provokes {name}, which is no reason code"));
                continue;
            };
            if !code.is_named_in(&body) {
                findings.push(format!("{place} says that it provokes {name}, and never asserts it"));
            }
            *provoked.entry(code.code.as_str()).or_default() += 1;
        }
    }
    let untested = provoked.iter().filter(|(_, times)| **times == 0);
    findings.extend(untested.map(|(code, _)| {
        format!("{REASONS}: no test provokes {code}: write one, and say ``/// Provokes `{code}`.`` above it")
    }));
    findings
}

fn check_life(codes: &[Code], files: &[File]) -> Vec<String> {
    let product = files.iter().filter(|file| {
        file.is_rust() && file.path.starts_with("crates/") && file.path != REASONS && file.path != TABLE
    });
    let returned: BTreeSet<&str> = product
        .flat_map(|file| RETURNED.captures_iter(file.production()))
        .filter_map(|found| found.name("variant").or(found.name("code")))
        .map(|name| name.as_str())
        .collect();
    codes
        .iter()
        .filter(|code| !returned.contains(&*code.variant) && !returned.contains(&*code.code))
        .map(|code| format!("{REASONS}: nothing returns {}", code.code))
        .collect()
}

#[test]
fn every_reason_code_can_be_returned_is_explained_and_is_provoked_by_a_test() {
    let files = read_tree();
    let codes = read_codes(find(&files, REASONS));
    let mut findings = check_explanations(&codes, find(&files, DOCUMENT));
    findings.extend(check_provocations(&codes, &files));
    findings.extend(check_life(&codes, &files));
    assert_clean(&findings);
}

fn two_codes() -> Vec<Code> {
    read_codes(&File::new("reason.rs", "Gone = \"JOB_GONE\", Rejected;\nFenced = \"FENCED\", Fenced;\n"))
}

#[test]
fn unexplained_and_invented_codes_are_found() {
    let document = File::new("errors.md", "# Errors\n\n## FENCED\n\n## `MOON_PHASE`\n");
    assert_eq!(check_explanations(&two_codes(), &document).len(), 2);
}

#[test]
fn codes_that_no_test_provokes_or_asserts_are_found() {
    let test = |words: &str, attribute: &str, body: &str| {
        let text = format!("/// {words}\n{attribute}async fn it_is_refused() {{\n    {body}\n}}\n");
        let files = [
            File::new("crates/a/tests/b/main.rs", &text),
            File::new(
                "crates/a/tests/b/other.rs",
                "/// Provokes `JOB_GONE`.\n#[test]\nfn gone() {\n    is(Reason::Gone);\n}\n",
            ),
        ];
        check_provocations(&two_codes(), &files)
    };
    let ran = "#[tokio::test]\n";
    assert!(test("Provokes `FENCED` and `JOB_GONE`.", ran, "is(Reason::Fenced, \"JOB_GONE\");").is_empty());
    assert_eq!(test("Shows `FENCED`.", ran, "is(Reason::Fenced);").len(), 1, "it says nothing");
    assert_eq!(test("Provokes `FENCED`.", ran, "is(Reason::FencedOff);").len(), 1, "it asserts another");
    assert_eq!(test("Provokes `FENCED`.", "", "is(Reason::Fenced);").len(), 1, "nothing runs it");
    assert_eq!(
        test("Provokes `MOON`.", ran, "is(\"MOON\");").len(),
        2,
        "it is no code, and FENCED is missing"
    );
}

#[test]
fn codes_that_nothing_returns_are_found() {
    let files = [
        File::new("crates/a/src/a.rs", "fn a() { refuse(Reason::Gone) }\n"),
        File::new("crates/a/tests/b/main.rs", "fn b() { is(Reason::Fenced) }\n"),
        File::new(TABLE, "Reason::Fenced => 1,\n"),
    ];
    assert_eq!(check_life(&two_codes(), &files), [format!("{REASONS}: nothing returns FENCED")]);
}
