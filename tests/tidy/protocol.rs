//! What the comments of the protocol promise.
//!
//! Owns the rule that each call says which reason codes come back, after the word `Codes:`, and that there are such codes.
//! Whether they do come back is tested where they are provoked. Neighbours: `codes` holds the codes to their document and
//! their tests; `buf` checks the rest of the protocol's form.

use regex::Regex;

use crate::tree::{File, assert_clean, find, read_tree};

/// A call with the comment before it.
const CALL: &str = r"(?m)((?:^ *//.*\n)+) *rpc (\w+)";

fn check_promised_codes(reasons: &File, protocol: &[File]) -> Vec<String> {
    let code = Regex::new(r#"= "([A-Z][A-Z0-9_]+)", \w+;"#).unwrap();
    let codes: Vec<&str> =
        code.captures_iter(&reasons.text).map(|found| found.get(1).unwrap().as_str()).collect();
    let call = Regex::new(CALL).unwrap();
    let word = Regex::new(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b").unwrap();
    let mut findings = Vec::new();
    for file in protocol.iter().filter(|file| file.path.ends_with(".proto")) {
        for found in call.captures_iter(&file.text) {
            let mut report = |what: &str| findings.push(format!("{}: {} {what}", file.path, &found[2]));
            let Some((_, promised)) = found[1].split_once("Codes:") else {
                report("does not say which codes come back");
                continue;
            };
            for unknown in word.find_iter(promised).filter(|word| !codes.contains(&word.as_str())) {
                report(&format!("promises {}, which is no code", unknown.as_str()));
            }
        }
    }
    findings
}

#[test]
fn every_call_says_which_codes_come_back() {
    let files = read_tree();
    assert_clean(&check_promised_codes(find(&files, "crates/tenure-core/src/reason.rs"), &files));
}

#[test]
fn unknown_and_missing_promises_are_found() {
    let reasons = File::new("reason.rs", "A = \"JOB_GONE\", Rejected;\n");
    let good = "  // Does it. Codes: JOB_GONE.\n  rpc DoIt(A) returns (B);\n";
    let calls = |text: &str| check_promised_codes(&reasons, &[File::new("a.proto", text)]).len();
    assert_eq!(calls(good), 0);
    assert_eq!(calls(&good.replace("JOB_GONE", "JOB_GOES")), 1);
    assert_eq!(calls(&good.replace(" Codes: JOB_GONE.", "")), 1);
}
