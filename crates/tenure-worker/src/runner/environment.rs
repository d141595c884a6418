//! The environment of a child: exactly what is allowed, composed in one place.
//!
//! A child gets PATH (the worker's own `tenure` first), HOME, LANG and TZ of the worker, `TRACEPARENT` and
//! `TENURE_*` of its run, the agent's own variables, and the secrets that the agent names, by their names. Nothing
//! else of the worker reaches it. Later ones win over earlier ones, but nobody overrides `TENURE_*`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use thiserror::Error;

use super::Redactor;

/// What the worker passes on where it has it.
const INHERITED: [&str; 3] = ["HOME", "LANG", "TZ"];
/// Where programs are found when the worker itself has no PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// From what an environment is composed.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentPlan {
    /// The directory of the worker's own `tenure`, first on PATH. Absent: PATH as it is.
    pub tenure_directory: Option<PathBuf>,
    /// The home of the run's user. Absent: the worker's HOME.
    pub home: Option<String>,
    /// W3C trace context. Absent: none.
    pub traceparent: Option<String>,
    /// The run's own variables; each name begins with `TENURE_`.
    pub tenure: BTreeMap<String, String>,
    /// The agent's `env`.
    pub agent: BTreeMap<String, String>,
    /// Names of variables of the worker, redacted everywhere.
    pub secrets: Vec<String>,
}

/// Why a child would not get what its agent declares.
#[derive(Debug, Error)]
pub enum EnvironmentError {
    /// The worker was started without it.
    #[error("secret {name:?} is not set in the worker's environment")]
    SecretMissing {
        /// The name that the agent declares.
        name: String,
    },
    /// Its bytes are no text.
    #[error("secret {name:?} of the worker's environment is not UTF-8")]
    SecretNotText {
        /// The name that the agent declares.
        name: String,
    },
    /// Together too large to be searched for.
    #[error("the {count} secrets cannot be searched for in the output")]
    Unsearchable {
        /// How many they are.
        count: usize,
        /// What the search says.
        #[source]
        source: aho_corasick::BuildError,
    },
}

/// Composes the environment, and what redacts its secrets. `worker` looks up a variable of the worker:
/// [`std::env::var_os`].
pub fn compose_environment(
    plan: &EnvironmentPlan,
    worker: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Result<(BTreeMap<String, String>, Redactor), EnvironmentError> {
    let text = |name: &str| worker(name).and_then(|value| value.into_string().ok());
    let mut environment: BTreeMap<String, String> =
        INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), text(name)?))).collect();
    environment.extend(plan.home.clone().map(|home| ("HOME".to_owned(), home)));
    environment.extend(plan.agent.clone());
    environment.insert("PATH".to_owned(), compose_path(plan, text("PATH")));
    let secrets = read_secrets(&plan.secrets, worker)?;
    environment.extend(secrets.iter().cloned());
    environment.extend(plan.traceparent.clone().map(|value| ("TRACEPARENT".to_owned(), value)));
    environment.retain(|name, _| !name.starts_with("TENURE_"));
    environment.extend(plan.tenure.clone());
    let count = secrets.len();
    let redactor =
        Redactor::new(secrets).map_err(|source| EnvironmentError::Unsearchable { count, source })?;
    Ok((environment, redactor))
}

fn compose_path(plan: &EnvironmentPlan, worker_path: Option<String>) -> String {
    let path = plan.agent.get("PATH").cloned().or(worker_path).unwrap_or_else(|| DEFAULT_PATH.to_owned());
    match &plan.tenure_directory {
        Some(directory) => format!("{}:{path}", directory.display()),
        None => path,
    }
}

fn read_secrets(
    names: &[String],
    worker: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Result<Vec<(String, String)>, EnvironmentError> {
    names
        .iter()
        .map(|name| {
            let value = worker(name).ok_or_else(|| EnvironmentError::SecretMissing { name: name.clone() })?;
            let text =
                value.into_string().map_err(|_| EnvironmentError::SecretNotText { name: name.clone() })?;
            Ok((name.clone(), text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn worker(name: &str) -> Option<OsString> {
        let variables = map(&[
            ("PATH", "/usr/bin"),
            ("HOME", "/home/worker"),
            ("TZ", "UTC"),
            ("GIT_TOKEN", "s3cret"),
            ("DATABASE_URL", "postgres://"),
            ("TENURE_TOKEN", "worker's own"),
        ]);
        variables.get(name).map(OsString::from)
    }

    #[test]
    fn a_child_gets_what_is_allowed_and_nothing_else() {
        let plan = EnvironmentPlan {
            tenure_directory: Some(PathBuf::from("/opt/tenure")),
            traceparent: Some("00-aa-bb-01".to_owned()),
            tenure: map(&[("TENURE_JOB", "j")]),
            agent: map(&[("LANG", "C.UTF-8"), ("TENURE_EPOCH", "99")]),
            secrets: vec!["GIT_TOKEN".to_owned()],
            ..EnvironmentPlan::default()
        };
        let (environment, redactor) = compose_environment(&plan, worker).unwrap();
        let expected = map(&[
            ("GIT_TOKEN", "s3cret"),
            ("HOME", "/home/worker"),
            ("LANG", "C.UTF-8"),
            ("PATH", "/opt/tenure:/usr/bin"),
            ("TENURE_JOB", "j"),
            ("TRACEPARENT", "00-aa-bb-01"),
            ("TZ", "UTC"),
        ]);
        assert_eq!(environment, expected);
        assert_eq!(redactor.redact_text("s3cret"), "[redacted:GIT_TOKEN]");
    }

    #[test]
    fn an_agents_own_path_still_has_tenure_first() {
        let plan = EnvironmentPlan {
            tenure_directory: Some(PathBuf::from("/opt/tenure")),
            agent: map(&[("PATH", "/agent/bin")]),
            home: Some("/home/agents".to_owned()),
            ..EnvironmentPlan::default()
        };
        let (mut environment, _) = compose_environment(&plan, worker).unwrap();
        assert_eq!(environment.remove("PATH").as_deref(), Some("/opt/tenure:/agent/bin"));
        assert_eq!(environment.remove("HOME").as_deref(), Some("/home/agents"));
    }

    #[test]
    fn a_missing_secret_is_named() {
        let plan = EnvironmentPlan { secrets: vec!["NPM_TOKEN".to_owned()], ..EnvironmentPlan::default() };
        let error = compose_environment(&plan, worker).unwrap_err();
        assert_eq!(error.to_string(), "secret \"NPM_TOKEN\" is not set in the worker's environment");
    }
}
