//! The world that the agents change: a bare clone of a real repository, asked with git itself.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

/// A bare repository in the demo's work directory.
pub(crate) struct Repository {
    path: PathBuf,
    branches_before: usize,
}

impl Repository {
    /// Clones `source` to a bare repository under `directory`.
    pub(crate) fn clone_bare(source: &Path, directory: &Path) -> Result<Self> {
        let path = directory.join("remote.git");
        let status = Command::new("git")
            .args(["clone", "--quiet", "--bare", "--no-local"])
            .args([source, &path])
            .status()
            .context("starting git")?;
        ensure!(
            status.success(),
            "git could not clone {}: is it a git repository? (REPO= names another)",
            source.display()
        );
        let mut repository = Self { path, branches_before: 0 };
        repository.branches_before = repository.list_branches()?;
        Ok(repository)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The last commits of its default branch, newest first.
    pub(crate) fn last_commits(&self, at_most: usize) -> Result<Vec<String>> {
        let listed = self.git(&["rev-list", "--first-parent", &format!("--max-count={at_most}"), "HEAD"])?;
        let commits: Vec<String> = listed.lines().map(str::to_owned).collect();
        ensure!(!commits.is_empty(), "the repository has no commit");
        Ok(commits)
    }

    /// True where the branch of this commit's notes is there, is one commit, and its file names the commit.
    pub(crate) fn has_notes(&self, commit: &str) -> Result<bool> {
        let branch = format!("refs/heads/notes/{}", &commit[..12]);
        if self.git(&["for-each-ref", &branch])?.is_empty() {
            return Ok(false);
        }
        let commits = self.git(&["rev-list", "--count", &branch])?;
        let notes = self.git(&["show", &format!("{branch}:RELEASE-NOTES.md")])?;
        Ok(commits.trim() == "1" && notes.contains(commit))
    }

    /// How many branches of release notes were added since it was cloned, whoever pushed them.
    pub(crate) fn count_pushed(&self) -> Result<usize> {
        Ok(self.list_branches()?.saturating_sub(self.branches_before))
    }

    fn list_branches(&self) -> Result<usize> {
        Ok(self.git(&["for-each-ref", "--format=%(refname)", "refs/heads/notes/"])?.lines().count())
    }

    fn git(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new("git")
            .arg("--git-dir")
            .arg(&self.path)
            .args(arguments)
            .output()
            .context("starting git")?;
        ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}
