//! The script that makes the secrets, as people run it: with the program on PATH, or without it, and then through the image.
//! What it makes can be read by containers, which run as another user, and reached on this host by its owner alone.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use super::description::{Description, repository};
use crate::fixture::program;

/// Docker, as far as the script asks it for anything: what was asked is written down, and the program in the image is ours.
const DOCKER: &str = r#"#!/bin/sh
echo "$*" >>"$DIRECTORY/asked"
[ "$1" = run ] || exit 0
while [ "$1" != tenure ]; do shift; done
shift
exec "$PROGRAM" "$@"
"#;

/// A directory for secrets, and one that goes before everything else on PATH.
struct Place {
    directory: TempDir,
}

impl Place {
    fn make() -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path("bin")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the script as somebody who keeps everything private, without `TENURE`.
    fn run_script(&self, arguments: &[&str]) {
        let mut script = Command::new("sh");
        script
            .args(["-c", "umask 077; exec \"$0\" \"$@\""])
            .arg(repository().join("deploy/docker/make-credentials"));
        script.args(arguments).stdin(Stdio::null());
        script.env_clear().env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()));
        script.env("TENURE_SECRETS", self.path("secrets"));
        script.env("DIRECTORY", self.directory.path()).env("PROGRAM", program());
        let output = script.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn read(&self, secret: &str) -> String {
        fs::read_to_string(self.path("secrets").join(secret)).unwrap()
    }

    fn assert_complete(&self) {
        assert_eq!(mode(&self.path("secrets")), 0o700);
        for name in Description::read().secrets.keys() {
            let path = self.path("secrets").join(name);
            assert_eq!(mode(&path), 0o644, "{name}");
            assert!(!self.read(name).trim().is_empty(), "{name} is empty");
        }
        let there = fs::read_dir(self.path("secrets")).unwrap().count();
        assert_eq!(there, Description::read().secrets.len(), "nothing half made is left");
        for token in ["worker-token", "operator-token"] {
            assert!(self.is_valid(&self.read(token)), "{token}");
        }
    }

    /// Whether what coordinators know of tokens has this one, and not as revoked.
    fn is_valid(&self, token: &str) -> bool {
        let id = token.strip_prefix("tenure_").and_then(|rest| rest.split('_').next()).unwrap();
        let mut list = Command::new(program());
        list.args(["--json", "token", "list", "--tokens"]).arg(self.path("secrets/tokens"));
        let listed: Value = serde_json::from_slice(&list.output().unwrap().stdout).unwrap();
        let tokens = listed["tokens"].as_array().unwrap();
        tokens.iter().any(|token| token["id"] == id && token["revoked_at"].is_null())
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn secrets_are_made_with_the_program_on_path_and_a_token_that_is_replaced_is_revoked() {
    let place = Place::make();
    symlink(program(), place.path("bin/tenure")).unwrap();
    place.run_script(&[]);
    place.assert_complete();
    let (before, kept) = (place.read("worker-token"), place.read("operator-token"));
    place.run_script(&["--replace", "worker-token"]);
    place.assert_complete();
    assert_ne!(place.read("worker-token"), before);
    assert!(!place.is_valid(&before));
    assert_eq!(place.read("operator-token"), kept);
}

#[test]
fn secrets_are_made_through_the_image_where_there_is_no_program() {
    let place = Place::make();
    let docker = place.path("bin/docker");
    fs::write(&docker, DOCKER).unwrap();
    fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).unwrap();
    place.run_script(&[]);
    place.assert_complete();
    let asked = fs::read_to_string(place.path("asked")).unwrap();
    let secrets = place.path("secrets").display().to_string();
    assert!(asked.lines().any(|line| line.starts_with("compose ") && line.contains(" build ")), "{asked}");
    let runs: Vec<_> = asked.lines().filter(|line| line.starts_with("run --rm --user ")).collect();
    assert_eq!(runs.len(), 2, "{asked}");
    assert!(
        runs.iter().all(|run| run.contains(&format!(" --volume {secrets}:{secrets} tenure "))),
        "{asked}"
    );
}
