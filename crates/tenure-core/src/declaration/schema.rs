//! Every key of a fleet file, with what it takes and whether its feature exists yet. It is the one list: files are checked
//! against it, messages quote it, and nothing that is not in it is accepted.

use std::time::Duration;

use crate::limits::{
    BLOB_MAX_BYTES, COUNT_MAX, DECLARATION_MAX_BYTES, HOPS_MAX, OUTPUT_LIMIT_MAX_BYTES, STOP_GRACE_MAX,
};

/// A key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) support: Support,
}

/// Whether the feature behind a key exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    /// Yes.
    Now,
    /// No: the key is refused.
    Later,
    /// Only switched off: `false` is taken.
    OffOnly,
}

/// What a key takes.
#[derive(Debug)]
pub(crate) enum Kind {
    Bool,
    Integer {
        min: i64,
        max: i64,
    },
    /// A number above zero.
    Amount {
        max: f64,
    },
    /// Money, written as a text.
    Money,
    /// A text that is not blank.
    Text,
    /// The version of a handler.
    Version,
    /// A path that begins at the root.
    AbsolutePath,
    Duration {
        min: Duration,
        max: Duration,
    },
    Size {
        min_bytes: u64,
        max_bytes: u64,
    },
    /// One of the words; those that come later are refused as such.
    Choice {
        now: &'static [&'static str],
        later: &'static [&'static str],
    },
    /// A program and its arguments.
    Argv,
    /// Names of environment variables.
    Variables,
    /// Environment variables with their values.
    VariableMap,
    /// Labels of workers, `key` or `key=value`.
    Labels,
    /// The name of an agent.
    Agent,
    /// Names of agents, one at least.
    Agents,
    /// Exit codes that are no success.
    ExitCodes,
    /// Names of agents, and to which agents each gives work.
    Routes,
    /// A list of joins, each with the keys of [`JOIN`].
    Joins,
    Table(&'static [Key]),
    /// A list of tables; its feature does not exist yet, so its keys are not listed.
    Tables,
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, support: Support::Now }
}

const fn later(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, support: Support::Later }
}

const fn off_only(name: &'static str) -> Key {
    Key { name, kind: Kind::Bool, support: Support::OffOnly }
}

const fn duration() -> Kind {
    Kind::Duration { min: Duration::from_millis(1), max: crate::limits::DURATION_MAX }
}

const fn count(min: i64) -> Kind {
    Kind::Integer { min, max: COUNT_MAX }
}

/// The keys of an agent, and of `[defaults]`.
pub(crate) static AGENT: &[Key] = &[
    key("command", Kind::Argv),
    key("script", Kind::Text),
    key("handler", Kind::Version),
    key("timeout", duration()),
    key("idle-timeout", duration()),
    key("stdin", Kind::Choice { now: &["input", "payload", "none"], later: &[] }),
    key("instructions", Kind::Text),
    key("env", Kind::VariableMap),
    key("secrets", Kind::Variables),
    key("requires", Kind::Labels),
    key("cwd", Kind::AbsolutePath),
    key("user", Kind::Text),
    key("memory", Kind::Size { min_bytes: 1, max_bytes: u64::MAX }),
    key("cpu", Kind::Amount { max: 4096.0 }),
    later("concurrency", count(1)),
    key("stop-grace", Kind::Duration { min: Duration::ZERO, max: STOP_GRACE_MAX }),
    key("output-limit", Kind::Size { min_bytes: 0, max_bytes: OUTPUT_LIMIT_MAX_BYTES }),
    key("input-limit", Kind::Size { min_bytes: 0, max_bytes: BLOB_MAX_BYTES }),
    key("final-exit-codes", Kind::ExitCodes),
    key("unwind-on-failure", Kind::Bool),
    later("repairs", count(0)),
    off_only("in-memory"),
    later("turns", count(1)),
    key("recovery", Kind::Table(RECOVERY)),
    key("limits", Kind::Table(LIMITS)),
    key("workspace", Kind::Table(WORKSPACE)),
    later("checks", Kind::Tables),
    later("rungs", Kind::Tables),
];

/// What of an agent's keys is about a process of its own: with a handler, none of them means anything.
pub(crate) const PROCESS_KEYS: &[&str] = &[
    "idle-timeout",
    "stdin",
    "instructions",
    "env",
    "secrets",
    "cwd",
    "user",
    "memory",
    "cpu",
    "output-limit",
    "final-exit-codes",
    "workspace",
];

static RECOVERY: &[Key] = &[
    key("policy", Kind::Choice { now: &["automatic", "manual", "never"], later: &[] }),
    key("max-attempts", count(0)),
    key("max-losses", count(0)),
    key("backoff", Kind::Table(BACKOFF)),
];

static BACKOFF: &[Key] = &[key("first", duration()), key("max", duration())];

static LIMITS: &[Key] = &[
    key("deadline", Kind::Duration { min: Duration::ZERO, max: crate::limits::DURATION_MAX }),
    key("budget", Kind::Money),
    key("hops", Kind::Integer { min: 1, max: HOPS_MAX }),
    key("runs", count(1)),
];

/// The limits of `[policy]`: those of an agent, and the tenant's own.
static POLICY_LIMITS: &[Key] = &[
    key("deadline", Kind::Duration { min: Duration::ZERO, max: crate::limits::DURATION_MAX }),
    key("budget", Kind::Money),
    key("hops", Kind::Integer { min: 1, max: HOPS_MAX }),
    key("runs", count(1)),
    key("reserve", Kind::Money),
];

static WORKSPACE: &[Key] = &[
    key("kind", Kind::Choice { now: &["none"], later: &["path", "git", "snapshot"] }),
    later("remote", Kind::Text),
    later("ref", Kind::Text),
    later("path", Kind::AbsolutePath),
];

/// The keys of `[policy]`.
pub(crate) static POLICY: &[Key] = &[
    key("recovery", Kind::Table(RECOVERY)),
    key("limits", Kind::Table(POLICY_LIMITS)),
    later("roles", Kind::Tables),
];

/// What a fleet file says beside `[policy]` about all agents of the tenant. It is kept in the same bundle.
pub(crate) static ROUTING: &[Key] = &[key("routes", Kind::Routes), key("joins", Kind::Joins)];

/// The keys of a join.
pub(crate) static JOIN: &[Key] = &[
    key("agent", Kind::Agent),
    key("from", Kind::Agents),
    key("mode", Kind::Choice { now: &["all", "any"], later: &[] }),
];

/// The keys of a bundle as it is kept.
pub(crate) static BUNDLE: &[Key] = &[
    key("recovery", Kind::Table(RECOVERY)),
    key("limits", Kind::Table(POLICY_LIMITS)),
    later("roles", Kind::Tables),
    key("routes", Kind::Routes),
    key("joins", Kind::Joins),
];

/// The largest text of a key.
pub(crate) const TEXT_MAX_BYTES: usize = DECLARATION_MAX_BYTES;
