//! The reference of the command line.
//!
//! Owns `docs/reference/command-line.md`, which is what `tenure --help` and `tenure VERB --help` print, put together from
//! the help that the tests of the program pin. It is written by `make reference`, and held to that here. Neighbours:
//! `commands` holds what documents say to type to the same pins.

use std::{collections::BTreeMap, env, fs, path::Path};

use crate::tree::{File, find, read_tree};

/// Where the pins are, with the beginnings of their names.
const PINS: &str = "crates/tenure-cli/tests/cli/snapshots/cli__help__help";

/// The reference.
const REFERENCE: &str = "docs/reference/command-line.md";

/// Set by `make reference`: the reference is written, and not held to anything.
const WRITE: &str = "TENURE_WRITE_REFERENCE";

const HEAD: &str = "# The command line\n\nWhat `tenure --help` and `tenure VERB --help` print. `make reference` writes this file; \
                    [errors](../operate/errors.md) explains the\ncode of every refusal. What holds for every verb stands in the first \
                    block alone.\n";

/// The pinned help of each verb, and of the program itself under the empty name; verbs below a verb are `verb-below`.
pub(crate) type Pins = BTreeMap<String, String>;

pub(crate) fn read_pins(files: &[File]) -> Pins {
    let pinned = files.iter().filter_map(|file| {
        let name = file.path.strip_prefix(PINS)?.strip_suffix(".snap")?;
        // What insta writes before the text ends with the second line of three dashes.
        let help = file.text.splitn(3, "---\n").nth(2)?;
        Some((name.trim_start_matches('-').to_owned(), help.to_owned()))
    });
    let pins: Pins = pinned.collect();
    assert!(pins.len() > 10, "the help of the program is not pinned at {PINS}…");
    pins
}

/// The verbs in the order of the program's own list.
pub(crate) fn list_verbs(pins: &Pins) -> Vec<String> {
    let listing = pins.get("").map_or("", |help| help.split("Every verb:").next().unwrap_or_default());
    listing
        .lines()
        .filter(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn compose_reference(pins: &Pins) -> String {
    let mut text = HEAD.to_owned();
    let mut add = |title: &str, help: &str| {
        text.push_str(&format!("\n## `{title}`\n\n```text\n{}\n```\n", help.trim()));
    };
    add("tenure", &pins[""]);
    for verb in list_verbs(pins) {
        let below = format!("{verb}-");
        for (name, help) in pins.iter().filter(|(name, _)| **name == verb || name.starts_with(&below)) {
            let own = help.split("\nEvery verb:").next().unwrap_or_default();
            add(&format!("tenure {}", name.replacen(&below, &format!("{verb} "), 1)), own);
        }
    }
    text
}

#[test]
fn reference_of_the_command_line_is_what_the_program_prints() {
    let files = read_tree();
    let reference = compose_reference(&read_pins(&files));
    if env::var_os(WRITE).is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(REFERENCE);
        fs::write(path, reference).unwrap();
        return;
    }
    assert!(
        find(&files, REFERENCE).text == reference,
        "{REFERENCE} is not what the program prints: make reference"
    );
}

#[test]
fn reference_has_each_verb_once_without_what_holds_for_all() {
    let pins = Pins::from([
        (
            String::new(),
            "Runs\n\nWork:\n  submit  Submit\n  token  Tokens\n\nEvery verb:\n  --json\n".to_owned(),
        ),
        ("submit".to_owned(), "Submit\n\nEvery verb:\n  --json\n".to_owned()),
        ("token".to_owned(), "Tokens\n".to_owned()),
        ("token-new".to_owned(), "New\n".to_owned()),
    ]);
    let text = compose_reference(&pins);
    let titles: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(titles, ["## `tenure`", "## `tenure submit`", "## `tenure token`", "## `tenure token new`"]);
    assert_eq!(text.matches("--json").count(), 1, "{text}");
}
