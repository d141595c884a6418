//! A cluster that wants credentials: one token for everybody in it, for every tenant and with every scope. Coordinators
//! that are started from then on may also serve beyond loopback, in plain text (`--listen`, `--allow-plaintext`).
//!
//! Neighbours: `cluster`.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use super::{Cluster, run};

/// The tenant of the cluster's own verbs, where they name none.
const TENANT: &str = "default";

/// The one token of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Credential {
    tokens: PathBuf,
    token_file: PathBuf,
    token: String,
}

impl Cluster {
    /// From now on coordinators are started with a file of tokens, and whoever calls has one.
    ///
    /// # Errors
    /// The token cannot be made.
    pub fn require_tokens(&mut self) -> Result<()> {
        let (tokens, token_file) = (self.directory().join("tokens"), self.directory().join("token"));
        let mut making = Command::new(&self.program);
        making
            .args(["token", "new", "--quiet", "--tenant", "*", "--actor", "cluster", "--tokens"])
            .arg(&tokens);
        making.args(["--scope", "submit,read,work,operate,administer"]);
        let token = run(&mut making)?.trim().to_owned();
        fs::write(&token_file, &token).context("writing the token")?;
        self.credential = Some(Credential { tokens, token_file, token });
        Ok(())
    }

    /// The file of tokens that the coordinators know, where credentials are wanted.
    #[must_use]
    pub fn tokens_path(&self) -> Option<PathBuf> {
        self.credential.as_ref().map(|credential| credential.tokens.clone())
    }

    /// The token with which everybody in the cluster calls, where credentials are wanted.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.credential.as_ref().map(|credential| credential.token.as_str())
    }
}

impl Credential {
    pub(super) fn give_client(&self, command: &mut Command) {
        command.env("TENURE_TOKEN", &self.token).env("TENURE_TENANT", TENANT);
    }

    pub(super) fn give_worker(&self, command: &mut Command) {
        command.arg("--token-file").arg(&self.token_file);
    }

    pub(super) fn give_coordinator(&self, command: &mut Command) {
        command.arg("--tokens").arg(&self.tokens);
    }
}
