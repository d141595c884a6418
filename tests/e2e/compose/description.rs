//! What docker-compose.yml and the Dockerfile say, as far as it can be carried out without containers.
//!
//! Promises to read the files themselves, merges and anchors included. Does not know how anything is run; neighbours:
//! `stand` runs it.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use nix::sys::signal::Signal;
use serde::Deserialize;

/// The whole file.
#[derive(Debug, Deserialize)]
pub(crate) struct Description {
    pub(crate) services: BTreeMap<String, Service>,
    pub(crate) secrets: BTreeMap<String, SecretFile>,
}

/// One service.
#[derive(Debug, Deserialize)]
pub(crate) struct Service {
    pub(crate) image: String,
    #[serde(default)]
    pub(crate) entrypoint: Vec<String>,
    #[serde(default)]
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) secrets: Vec<String>,
    #[serde(default)]
    pub(crate) depends_on: BTreeMap<String, Dependency>,
    #[serde(default)]
    pub(crate) ports: Vec<String>,
    #[serde(default)]
    pub(crate) security_opt: Vec<String>,
    #[serde(default)]
    pub(crate) cap_drop: Vec<String>,
    #[serde(default)]
    pub(crate) read_only: bool,
    pub(crate) healthcheck: Option<HealthCheck>,
    pub(crate) stop_signal: Option<String>,
    pub(crate) stop_grace_period: Option<String>,
    pub(crate) deploy: Option<Deploy>,
}

/// What a service waits for.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) condition: String,
}

/// How a service is asked for its health.
#[derive(Debug, Deserialize)]
pub(crate) struct HealthCheck {
    test: Vec<String>,
}

/// How many there are.
#[derive(Debug, Deserialize)]
pub(crate) struct Deploy {
    pub(crate) replicas: usize,
}

/// Where a secret comes from.
#[derive(Debug, Deserialize)]
pub(crate) struct SecretFile {
    pub(crate) file: String,
}

/// The repository.
pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Reads a YAML file of the repository.
pub(crate) fn read_yaml<T: serde::de::DeserializeOwned>(path: &str) -> T {
    let text = fs::read_to_string(repository().join(path)).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

impl Description {
    pub(crate) fn read() -> Self {
        read_yaml("docker-compose.yml")
    }
}

impl Service {
    /// What is executed: the entry point, which is the image's where the service has none, and the command.
    pub(crate) fn words(&self) -> Vec<String> {
        let own = [self.entrypoint.clone(), self.command.clone()].concat();
        if self.is_ours() && self.entrypoint.is_empty() { [read_entry_point(), own].concat() } else { own }
    }

    /// Whether it runs our image.
    pub(crate) fn is_ours(&self) -> bool {
        self.image == "tenure"
    }

    /// The words of the health check.
    pub(crate) fn health_words(&self) -> Vec<String> {
        match self.healthcheck.as_ref().map(|check| check.test.as_slice()) {
            Some([kind, words @ ..]) if kind == "CMD" && !words.is_empty() => words.to_vec(),
            other => panic!("no health check that runs a program: {other:?}"),
        }
    }

    /// What asks it to stop.
    pub(crate) fn stop_signal(&self) -> Signal {
        self.stop_signal.as_deref().unwrap_or("SIGTERM").parse().unwrap()
    }

    /// How long it has then.
    pub(crate) fn stop_grace(&self) -> Duration {
        let text = self.stop_grace_period.as_deref().unwrap_or("10s");
        Duration::from_secs(text.strip_suffix('s').and_then(|seconds| seconds.parse().ok()).unwrap())
    }
}

fn read_entry_point() -> Vec<String> {
    let dockerfile = fs::read_to_string(repository().join("deploy/docker/Dockerfile")).unwrap();
    let last = dockerfile.lines().filter_map(|line| line.strip_prefix("ENTRYPOINT ")).next_back();
    serde_json::from_str(last.expect("the image has an entry point")).unwrap()
}
