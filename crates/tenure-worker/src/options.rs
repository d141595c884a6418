//! What a worker is told at its start, and whether that can be. Each field is checked here, before anything is opened.

use std::{env, path::PathBuf, time::Duration};

use tenure_core::{handler::RESERVED_LABEL_PREFIX, id::WorkerName, limits, term::check_ttl};
use tenure_proto::tls::PlaintextToken;

use crate::{
    credential::WorkerCredential,
    endpoints::{Endpoints, InvalidEndpoint},
    runner::{RunUser, UserError, resolve_user},
};

/// What a worker is told at its start.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The coordinators, as `http://HOST:PORT` or `https://HOST:PORT`; any of them will do.
    pub endpoints: Vec<String>,
    /// Who it is to the fleet.
    pub credential: WorkerCredential,
    /// The worker's name; several may bear the same.
    pub name: String,
    /// Runs at the same time.
    pub slots: u32,
    /// What this host offers: `key` or `key=value`.
    pub labels: Vec<String>,
    /// The agents that it takes. Empty: all.
    pub agents: Vec<String>,
    /// How long its term lives without a renewal.
    pub ttl: Duration,
    /// The user as whom every child runs whose agent names none. Absent: the worker's own.
    pub run_as: Option<String>,
    /// Where run directories and sockets are made; created where it is missing. Sockets allow 107 bytes in all.
    pub data_dir: PathBuf,
    /// The `tenure` program: the guardian of each run, and what is first on a child's PATH.
    pub program: PathBuf,
    /// Keep the directory of each run after its end, for whoever looks into it. Otherwise it is removed once the end
    /// is acknowledged; what a killed worker left is removed a day later, at the next start.
    pub keep_runs: bool,
}

impl WorkerOptions {
    /// The defaults for a worker of this name at these coordinators.
    #[must_use]
    pub fn new(name: impl Into<String>, endpoints: Vec<String>, data_dir: PathBuf) -> Self {
        Self {
            endpoints,
            credential: WorkerCredential::default(),
            name: name.into(),
            slots: limits::SLOTS_DEFAULT,
            labels: Vec::new(),
            agents: Vec::new(),
            ttl: limits::TTL_DEFAULT,
            run_as: None,
            data_dir,
            program: env::current_exe().unwrap_or_else(|_| PathBuf::from("tenure")),
            keep_runs: false,
        }
    }
}

/// An option that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum InvalidOption {
    /// The name.
    #[error("the worker's name cannot be used")]
    Name(#[source] tenure_core::id::InvalidName),
    /// A coordinator.
    #[error(transparent)]
    Endpoint(#[from] InvalidEndpoint),
    /// A coordinator to which its token would go in plain text.
    #[error(transparent)]
    Plaintext(#[from] PlaintextToken),
    /// The slots.
    #[error("{given} slots are asked for, and a worker has 1 to {most}")]
    Slots {
        /// What was given.
        given: u32,
        /// The most.
        most: u32,
    },
    /// The life of the term.
    #[error("the worker's ttl cannot be used")]
    Ttl(#[source] tenure_core::refusal::Refusal),
    /// A label that only Tenure gives.
    #[error("the label {given:?} begins with `tenure.`, and such labels are given by Tenure alone")]
    ReservedLabel {
        /// What was given.
        given: String,
    },
    /// Too many labels.
    #[error("{given} labels are given, and a worker has at most {most}")]
    Labels {
        /// How many.
        given: usize,
        /// The most.
        most: usize,
    },
    /// The user of the children.
    #[error("the children of this worker cannot be given to user {user}")]
    RunAs {
        /// Who.
        user: String,
        /// Why not.
        #[source]
        source: UserError,
    },
}

/// Options that can be, in the types of the rest of this crate.
#[derive(Debug)]
pub(crate) struct CheckedOptions {
    pub(crate) name: WorkerName,
    pub(crate) endpoints: Endpoints,
    pub(crate) run_as: Option<RunUser>,
}

/// Checks each option.
pub(crate) fn check_options(options: &WorkerOptions) -> Result<CheckedOptions, InvalidOption> {
    if options.slots == 0 || options.slots > limits::SLOTS_MAX {
        return Err(InvalidOption::Slots { given: options.slots, most: limits::SLOTS_MAX });
    }
    if options.labels.len() > limits::LABELS_MAX {
        return Err(InvalidOption::Labels { given: options.labels.len(), most: limits::LABELS_MAX });
    }
    if let Some(given) = options.labels.iter().find(|label| label.starts_with(RESERVED_LABEL_PREFIX)) {
        return Err(InvalidOption::ReservedLabel { given: given.clone() });
    }
    let endpoints = Endpoints::parse(&options.endpoints, options.credential.clone())?;
    endpoints.check_plaintext()?;
    check_ttl(options.ttl).map_err(InvalidOption::Ttl)?;
    let run_as = options.run_as.as_deref().map(resolve_user).transpose();
    let named = || options.run_as.clone().unwrap_or_default();
    Ok(CheckedOptions {
        name: options.name.parse().map_err(InvalidOption::Name)?,
        endpoints,
        run_as: run_as.map_err(|source| InvalidOption::RunAs { user: named(), source })?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> WorkerOptions {
        WorkerOptions::new("w1", vec!["127.0.0.1:7420".to_owned()], PathBuf::from("data"))
    }

    #[test]
    fn the_defaults_can_be() {
        assert!(check_options(&options()).is_ok());
    }

    #[test]
    fn what_cannot_be_is_named() {
        let no_slots = WorkerOptions { slots: 0, ..options() };
        let blank_name = WorkerOptions { name: String::new(), ..options() };
        let short_ttl = WorkerOptions { ttl: Duration::from_secs(1), ..options() };
        let no_endpoint = WorkerOptions { endpoints: Vec::new(), ..options() };
        let nobody = WorkerOptions { run_as: Some("no such user here".to_owned()), ..options() };
        let named: Vec<String> = [no_slots, blank_name, short_ttl, no_endpoint, nobody]
            .iter()
            .map(|options| check_options(options).unwrap_err().to_string())
            .collect();
        for (said, wanted) in named.iter().zip(["0 slots", "name", "ttl", "endpoint", "no such user here"]) {
            assert!(said.contains(wanted), "{said}");
        }
    }
}
