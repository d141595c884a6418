//! The help of every verb is a snapshot: what it takes is what users learn.

use crate::program::run;

/// The verbs, as the program's own list names them.
fn listed_verbs() -> Vec<String> {
    let help = run(&["--help"]);
    assert_eq!(help.code, 0, "{help:?}");
    let listing = help.stdout.split("Every verb:").next().unwrap();
    listing
        .lines()
        .filter(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_list_of_verbs_is_pinned() {
    insta::assert_snapshot!("help", run(&["--help"]).stdout);
}

#[test]
fn the_help_of_every_verb_is_pinned() {
    let verbs = listed_verbs();
    assert!(verbs.len() > 10, "{verbs:?}");
    for verb in verbs {
        let help = run(&[&verb, "--help"]);
        assert_eq!(help.code, 0, "{verb}: {help:?}");
        insta::assert_snapshot!(format!("help-{verb}"), help.stdout);
    }
}

#[test]
fn the_help_of_the_verbs_below_a_verb_is_pinned() {
    for below in ["new", "list", "revoke"] {
        let help = run(&["token", below, "--help"]);
        assert_eq!(help.code, 0, "{below}: {help:?}");
        insta::assert_snapshot!(format!("help-token-{below}"), help.stdout);
    }
}

#[test]
fn help_does_not_show_what_stands_in_the_environment() {
    let mut command = crate::program::tenure(&["migrate", "--help"]);
    command.env("TENURE_DATABASE_URL", "postgres://me:hunter2@localhost/t");
    let help = crate::program::end(command);
    assert!(help.stdout.contains("TENURE_DATABASE_URL"), "{help:?}");
    assert!(!help.stdout.contains("hunter2"), "{help:?}");
}
