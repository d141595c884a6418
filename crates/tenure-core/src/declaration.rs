//! The declaration of an agent: how to run it, and under which policies. It is content-addressed: its digest is taken over
//! the canonical JSON of the agent's table as written, with `[defaults]` merged and files read in. Built-in defaults are
//! *not* filled in, so that a new release does not change digests; the accessors fill them in when asked. What a person
//! wrote is checked against one schema, whichever way it arrives. Neighbours: `fleet` makes declarations from a file,
//! `canonical` makes their bytes.

mod bundle;
pub(crate) mod check;
pub(crate) mod node;
mod quantity;
pub(crate) mod schema;

pub use bundle::PolicyBundle;
pub use quantity::{read_duration, read_size_bytes};

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use self::{
    check::{Flaw, check_table},
    node::{Content, Node, Table},
};
use crate::{
    canonical::write_canonical,
    deadline::duration_ms,
    handler::HandlerVersion,
    id::Digest,
    limits,
    money::{Micros, read_money},
    reason::Reason,
    recovery::{Policy, RecoveryPolicy},
    refusal::Refusal,
};

/// What an agent runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments, on the worker's host.
    Argv(Vec<String>),
    /// A script for `sh -eu`.
    Script(String),
    /// A function in a worker that holds this version of it.
    Handler(HandlerVersion),
}

/// What a child reads on its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// The raw bytes of the input.
    Input,
    /// All that the run is told, and then the raw bytes of the input.
    Payload,
    /// Nothing.
    Nothing,
}

/// An agent as declared.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    document: Vec<u8>,
    digest: Digest,
    table: Value,
}

impl Declaration {
    /// Reads a declaration from its canonical JSON.
    ///
    /// # Errors
    /// It is no canonical JSON, has an unknown key or a bad value, or needs a feature that does not exist yet.
    pub fn parse(document: &[u8]) -> Result<Self, Refusal> {
        let table: Value = serde_json::from_slice(document)
            .map_err(|error| invalid(format!("the declaration is no JSON: {error}")))?;
        let Content::Table(written) = Node::from_json(&table).content else {
            return Err(invalid("the declaration is no table"));
        };
        if let Some(flaw) = check_table(&written, schema::AGENT, "").first() {
            return Err(Refusal::new(flaw.reason(Reason::InvalidDeclaration), flaw.to_string())
                .with_detail("key", &flaw.path));
        }
        let declaration = Self::from_table(&written).map_err(|flaw| invalid(flaw.to_string()))?;
        if declaration.document != document {
            return Err(invalid("the declaration is not in canonical form: keys in order, no white space"));
        }
        Ok(declaration)
    }

    /// Makes a declaration from a table that was checked against the schema; what is left to check is what concerns
    /// several keys.
    pub(crate) fn from_table(table: &Table) -> Result<Self, Flaw> {
        check::check_command(table)?;
        let table = node::table_to_json(table);
        let document = write_canonical(&table);
        check::check_document_size(&document)?;
        Ok(Self { digest: Digest::of(&document), document, table })
    }

    /// The canonical JSON.
    #[must_use]
    pub fn document(&self) -> &[u8] {
        &self.document
    }

    /// SHA-256 of the canonical JSON.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// What it runs.
    #[must_use]
    pub fn command(&self) -> Command {
        match (self.handler(), self.text("script")) {
            (Some(version), _) => Command::Handler(version),
            (None, Some(script)) => Command::Script(script.to_owned()),
            (None, None) => Command::Argv(self.texts("command")),
        }
    }

    /// The version of its handler, where it has one.
    #[must_use]
    pub fn handler(&self) -> Option<HandlerVersion> {
        self.text("handler").and_then(|version| version.parse().ok())
    }

    /// What the child reads.
    #[must_use]
    pub fn stdin(&self) -> Stdin {
        match self.text("stdin") {
            Some("none") => Stdin::Nothing,
            Some("payload") => Stdin::Payload,
            Some(_) | None => Stdin::Input,
        }
    }

    /// The declaration of this canonical JSON, where its child reads a payload. Looks at the words first, because this is asked of every
    /// job that is submitted.
    #[must_use]
    pub fn with_payload(document: &[u8]) -> Option<Self> {
        const WORDS: &[u8] = br#""stdin":"payload""#;
        let has_words = document.windows(WORDS.len()).any(|window| window == WORDS);
        let declaration = has_words.then(|| Self::parse(document).ok())??;
        (declaration.stdin() == Stdin::Payload).then_some(declaration)
    }

    /// The text of its instructions.
    #[must_use]
    pub fn instructions(&self) -> Option<&str> {
        self.text("instructions")
    }

    /// Variables of the child's environment.
    #[must_use]
    pub fn env(&self) -> BTreeMap<String, String> {
        let table = self.table.get("env").and_then(Value::as_object);
        let pairs = table.into_iter().flatten();
        pairs.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    }

    /// Names of the worker's variables that the child gets, and that are redacted everywhere.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        self.texts("secrets")
    }

    /// Labels that its worker must have, `key` or `key=value`.
    #[must_use]
    pub fn requires(&self) -> Vec<String> {
        self.texts("requires")
    }

    /// Where it runs; none: in the run directory.
    #[must_use]
    pub fn cwd(&self) -> Option<&str> {
        self.text("cwd")
    }

    /// As whom it runs; none: as its worker does.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.text("user")
    }

    /// Memory that its group may use, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.size_bytes("memory")
    }

    /// Processor cores that its group may use.
    #[must_use]
    pub fn cpu_cores(&self) -> Option<f64> {
        self.table.get("cpu").and_then(Value::as_f64)
    }

    /// One invocation.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.duration("timeout").unwrap_or(limits::TIMEOUT_DEFAULT)
    }

    /// No output and no note for so long: timed out. None: no such limit.
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.duration("idle-timeout")
    }

    /// SIGTERM to SIGKILL.
    #[must_use]
    pub fn stop_grace(&self) -> Duration {
        self.duration("stop-grace").unwrap_or(limits::STOP_GRACE_DEFAULT)
    }

    /// Captured output of a run.
    #[must_use]
    pub fn output_limit_bytes(&self) -> u64 {
        self.size_bytes("output-limit").unwrap_or(limits::OUTPUT_LIMIT_DEFAULT_BYTES)
    }

    /// The largest input.
    #[must_use]
    pub fn input_limit_bytes(&self) -> u64 {
        self.size_bytes("input-limit").unwrap_or(limits::VALUE_MAX_BYTES)
    }

    /// Exit codes that are a failure for good.
    #[must_use]
    pub fn final_exit_codes(&self) -> Vec<i32> {
        let codes = self.table.get("final-exit-codes").and_then(Value::as_array);
        let codes = codes.into_iter().flatten().filter_map(Value::as_i64);
        codes.filter_map(|code| i32::try_from(code).ok()).collect()
    }

    /// True where a failure is undone before a job is called failed.
    #[must_use]
    pub fn unwinds_on_failure(&self) -> bool {
        self.table.get("unwind-on-failure").and_then(Value::as_bool).unwrap_or(false)
    }

    /// How its jobs may be restarted: its own keys go before the tenant's, and those before the built-in ones.
    #[must_use]
    pub fn recovery_policy(&self, bundle: Option<&PolicyBundle>) -> RecoveryPolicy {
        let key = |path: &[&str]| self.find(path).or_else(|| bundle.and_then(|bundle| bundle.find(path)));
        let number = |path: &[&str], otherwise| key(path).and_then(read_u32).unwrap_or(otherwise);
        let pause =
            |path: &[&str], otherwise| duration_ms(key(path).and_then(as_duration).unwrap_or(otherwise));
        let policy = match key(&["recovery", "policy"]).and_then(Value::as_str) {
            Some("manual") => Policy::Manual,
            Some("never") => Policy::Never,
            Some(_) | None => Policy::Automatic,
        };
        RecoveryPolicy {
            policy,
            max_attempts: number(&["recovery", "max-attempts"], limits::MAX_ATTEMPTS_DEFAULT),
            max_losses: number(&["recovery", "max-losses"], limits::MAX_LOSSES_DEFAULT),
            backoff_first_ms: pause(&["recovery", "backoff", "first"], limits::BACKOFF_FIRST_DEFAULT),
            backoff_max_ms: pause(&["recovery", "backoff", "max"], limits::BACKOFF_MAX_DEFAULT),
            final_exit_codes: self.final_exit_codes(),
            unwind_on_failure: self.unwinds_on_failure(),
        }
    }

    /// The ceiling of a session that is submitted to it and says nothing itself.
    #[must_use]
    pub fn deadline(&self, bundle: Option<&PolicyBundle>) -> Duration {
        self.find_limit("deadline", bundle).and_then(as_duration).unwrap_or(limits::DEADLINE_DEFAULT)
    }

    /// Hops of a session that is submitted to it.
    #[must_use]
    pub fn hops(&self, bundle: Option<&PolicyBundle>) -> u32 {
        self.find_limit("hops", bundle).and_then(read_u32).unwrap_or(limits::HOPS_DEFAULT)
    }

    /// Runs of a session that is submitted to it.
    #[must_use]
    pub fn run_cap(&self, bundle: Option<&PolicyBundle>) -> u32 {
        self.find_limit("runs", bundle).and_then(read_u32).unwrap_or(limits::RUN_CAP_DEFAULT)
    }

    /// What a session that is submitted to it may spend.
    #[must_use]
    pub fn budget(&self, bundle: Option<&PolicyBundle>) -> Micros {
        let written = self.find_limit("budget", bundle).and_then(Value::as_str);
        let read = written.and_then(|written| read_money(written).ok());
        read.unwrap_or(Micros(limits::BUDGET_DEFAULT_MICROS))
    }

    /// A limit: its own goes before the tenant's.
    fn find_limit<'a>(&'a self, key: &str, bundle: Option<&'a PolicyBundle>) -> Option<&'a Value> {
        let path = &["limits", key];
        self.find(path).or_else(|| bundle.and_then(|bundle| bundle.find(path)))
    }

    fn find(&self, path: &[&str]) -> Option<&Value> {
        find_in(&self.table, path)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.table.get(key).and_then(Value::as_str)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        let items = self.table.get(key).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn duration(&self, key: &str) -> Option<Duration> {
        self.table.get(key).and_then(as_duration)
    }

    fn size_bytes(&self, key: &str) -> Option<u64> {
        self.text(key).and_then(|written| read_size_bytes(written).ok())
    }
}

fn find_in<'a>(table: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(table, |value, key| value.get(key))
}

fn read_u32(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn as_duration(value: &Value) -> Option<Duration> {
    value.as_str().and_then(|written| read_duration(written).ok())
}

fn invalid(words: impl Into<String>) -> Refusal {
    Refusal::new(Reason::InvalidDeclaration, words)
}
