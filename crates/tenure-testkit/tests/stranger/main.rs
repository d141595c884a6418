//! The test kit as a stranger uses it: the complete example of the README, with the dependencies that stand there, as a crate
//! of its own that is no member of this workspace. It is built and run. What it was built from before is shared with this
//! workspace's target directory, because building the same again takes minutes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const README: &str = include_str!("../../README.md");

/// Where the README says that Tenure is.
const PLACE: &str = "../tenure/";

/// As in this workspace, so that its dependencies need not be built again.
const PROFILE: &str =
    "[profile.dev]\ndebug = \"line-tables-only\"\n[profile.dev.package.\"*\"]\ndebug = false\n";

/// The first block of the README in this language, as its fence names it.
fn read_block(language: &str) -> &'static str {
    let (_, block) = README.split_once(&format!("\n```{language}\n")).unwrap();
    block.split_once("\n```\n").unwrap().0
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Writes the crate that the README describes.
fn write_crate(directory: &Path) {
    let repository = repository();
    let dependencies = read_block("toml").replace(PLACE, &format!("{}/", repository.display()));
    assert!(!dependencies.contains(PLACE) && dependencies.contains("tenure-testkit"), "{dependencies}");
    let package = "[package]\nname = \"stranger\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(directory.join("Cargo.toml"), format!("{package}{dependencies}\n{PROFILE}")).unwrap();
    // The versions that are there already: nothing is fetched.
    fs::copy(repository.join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();
    fs::create_dir(directory.join("src")).unwrap();
    fs::write(directory.join("src/main.rs"), read_block("rust,standalone_crate")).unwrap();
}

fn target_directory() -> PathBuf {
    env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

#[test]
#[ignore = "it builds a crate of its own for minutes: make test-stranger"]
fn the_complete_example_of_the_readme_runs_as_a_crate_of_its_own_outside_the_workspace() {
    let directory = tempfile::tempdir().unwrap();
    write_crate(directory.path());
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--offline"])
        .current_dir(directory.path())
        .env("CARGO_TARGET_DIR", target_directory())
        // A stranger's surroundings have neither.
        .env_remove("SQLX_OFFLINE")
        .env_remove("DATABASE_URL")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
