//! The world that the robot changes: a bare repository, asked with git itself, a registry that is a directory, and a ledger
//! that counts the announcements. It knows nothing of the fleet.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use tenure_testkit::Ledger;

/// The version that the project has before the robot begins.
pub const FIRST_VERSION: &str = "1.0.0";

/// A project with its main branch, its registry, and who hears of it.
pub struct World {
    /// The bare repository.
    pub remote: PathBuf,
    /// Where archives are published.
    pub registry: PathBuf,
    /// Files that let the robot go on.
    pub gates: PathBuf,
    /// Somebody else's service: who announces twice is written down twice.
    pub ledger: Ledger,
}

impl World {
    /// Makes a project of one commit in a bare repository.
    ///
    /// # Errors
    /// A directory cannot be made, git fails, or the ledger does not start.
    pub async fn create(directory: &Path) -> Result<Self> {
        let (remote, registry, gates) =
            (directory.join("remote.git"), directory.join("registry"), directory.join("gates"));
        for made in [&registry, &gates] {
            fs::create_dir(made).with_context(|| format!("making {}", made.display()))?;
        }
        let ledger = Ledger::start(&directory.join("ledger.jsonl")).await?;
        let world = Self { remote, registry, gates, ledger };
        world.commit_first_version(&directory.join("first"))?;
        Ok(world)
    }

    fn commit_first_version(&self, tree: &Path) -> Result<()> {
        let remote = self.remote.display().to_string();
        git(Path::new("/"), &["init", "--quiet", "--bare", "--initial-branch=main", &remote])?;
        git(Path::new("/"), &["clone", "--quiet", &remote, &tree.display().to_string()])?;
        fs::write(tree.join("VERSION"), format!("{FIRST_VERSION}\n"))?;
        fs::write(tree.join("greet.sh"), "#!/bin/sh\necho \"hello from $(cat VERSION)\"\n")?;
        git(tree, &["add", "."])?;
        let author = ["-c", "user.name=somebody", "-c", "user.email=somebody@localhost"];
        git(tree, &[&author[..], &["commit", "--quiet", "--message", "Begin"]].concat())?;
        git(tree, &["push", "--quiet", "origin", "HEAD:main"])?;
        Ok(())
    }

    /// Lets the robot pass a gate.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open_gate(&self, name: &str) -> Result<()> {
        fs::write(self.gates.join(name), "").with_context(|| format!("opening the gate {name}"))
    }

    /// The version on the main branch.
    ///
    /// # Errors
    /// git fails.
    pub fn version(&self) -> Result<String> {
        Ok(self.ask(&["show", "main:VERSION"])?.trim().to_owned())
    }

    /// The tags, sorted.
    ///
    /// # Errors
    /// git fails.
    pub fn tags(&self) -> Result<Vec<String>> {
        Ok(self.ask(&["tag", "--list"])?.lines().map(str::to_owned).collect())
    }

    /// How many commits of the main branch have exactly this subject.
    ///
    /// # Errors
    /// git fails.
    pub fn count_commits(&self, subject: &str) -> Result<usize> {
        let subjects = self.ask(&["log", "--format=%s", "main"])?;
        Ok(subjects.lines().filter(|line| *line == subject).count())
    }

    /// The archives in the registry, sorted.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn published(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(&self.registry).context("reading the registry")?;
        let names: std::io::Result<Vec<String>> =
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
        let mut names = names.context("reading the registry")?;
        names.sort();
        Ok(names)
    }

    /// What was announced, in that order.
    ///
    /// # Errors
    /// The ledger's file cannot be read.
    pub fn announced(&self) -> Result<Vec<String>> {
        Ok(self.ledger.entries()?.into_iter().map(|entry| entry.text).collect())
    }

    fn ask(&self, arguments: &[&str]) -> Result<String> {
        git(&self.remote, arguments)
    }
}

fn git(directory: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .output()
        .with_context(|| format!("starting git {arguments:?}"))?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("reading what git said")
}
