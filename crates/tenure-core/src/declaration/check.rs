//! Checks a table against the schema: unknown keys (with the nearest known one), wrong kinds, values out of bounds, and
//! features that do not exist yet. It finds everything at once; whoever reports it decides how much to show.

use std::{fmt, time::Duration};

use super::{
    node::{Content, Node, Span, Table},
    quantity::{read_duration, read_size_bytes},
    schema::{JOIN, Key, Kind, PROCESS_KEYS, Support, TEXT_MAX_BYTES},
};
use crate::{
    handler::{HandlerVersion, RESERVED_LABEL_PREFIX},
    id::AgentName,
    limits::{DECLARATION_MAX_BYTES, LABEL_MAX_BYTES, LABELS_MAX},
    money::read_money,
    reason::Reason,
};

/// Something wrong with a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// The key, with the tables around it.
    pub(crate) path: String,
    /// Where it is written.
    pub(crate) span: Option<Span>,
    /// What is wrong.
    pub(crate) fault: Fault,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no such key; this one is like it, or else these are the ones there are.
    UnknownKey { nearest: Option<String>, known: String },
    /// The value is of another kind.
    WrongKind { expected: String, found: &'static str },
    /// The value is of the right kind and wrong.
    BadValue(String),
    /// The feature behind the key, or behind this word for it, does not exist yet.
    NotYet(Option<String>),
}

impl Flaw {
    /// The stable code; `otherwise` is the one of the thing that is read.
    pub(crate) const fn reason(&self, otherwise: Reason) -> Reason {
        match self.fault {
            Fault::NotYet(_) => Reason::NotSupported,
            Fault::UnknownKey { .. } | Fault::WrongKind { .. } | Fault::BadValue(_) => otherwise,
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.fault {
            Fault::UnknownKey { nearest: Some(nearest), .. } => {
                write!(f, "unknown key `{path}`; did you mean `{nearest}`?")
            }
            Fault::UnknownKey { nearest: None, known } => {
                write!(f, "unknown key `{path}`; known here: {known}")
            }
            Fault::WrongKind { expected, found } => write!(f, "`{path}` takes {expected}, and is {found}"),
            Fault::BadValue(words) => write!(f, "`{path}`: {words}"),
            Fault::NotYet(None) => write!(f, "`{path}` is not yet supported"),
            Fault::NotYet(Some(word)) => write!(f, "`{path} = {word}` is not yet supported"),
        }
    }
}

/// The fault of a key that is none of the known ones.
pub(crate) fn explain_unknown(given: &str, known: &[&str]) -> Fault {
    Fault::UnknownKey { nearest: find_nearest(given, known.iter().copied()), known: known.join(", ") }
}

/// The known name that a wrong one is most like, where one is like it.
fn find_nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(given, name), name))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.to_owned())
}

/// All flaws of a table, in the order of the file where it came from one.
pub(crate) fn check_table(table: &Table, keys: &[Key], path: &str) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    collect(table, keys, path, &mut flaws);
    flaws.sort_by_key(|flaw| flaw.span.as_ref().map(|span| span.start));
    flaws
}

fn collect(table: &Table, keys: &[Key], path: &str, flaws: &mut Vec<Flaw>) {
    for (name, entry) in table {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let at_key = |fault| Flaw { path: path.clone(), span: entry.key_span.clone(), fault };
        let Some(key) = keys.iter().find(|key| key.name == name) else {
            let names: Vec<_> = keys.iter().map(|key| key.name).collect();
            flaws.push(at_key(explain_unknown(name, &names)));
            continue;
        };
        if key.support == Support::Later {
            flaws.push(at_key(Fault::NotYet(None)));
            continue;
        }
        if let (Kind::Table(keys), Content::Table(inner)) = (&key.kind, &entry.node.content) {
            collect(inner, keys, &path, flaws);
        } else if let Err((fault, span)) = check_value(&entry.node, key) {
            flaws.push(Flaw { path, span, fault });
        }
    }
}

type Checked = Result<(), (Fault, Option<Span>)>;

fn check_value(node: &Node, key: &Key) -> Checked {
    let fault = match (&key.kind, &node.content) {
        (Kind::Bool, Content::Bool(on)) => {
            let later = *on && key.support == Support::OffOnly;
            if later { Err(Fault::NotYet(Some("true".to_owned()))) } else { Ok(()) }
        }
        (Kind::Integer { min, max }, Content::Integer(number)) => check_range(*number, *min, *max),
        (Kind::Amount { max }, Content::Float(number)) => check_amount(*number, *max),
        #[expect(clippy::cast_precision_loss, reason = "an amount is small, and its bound is checked")]
        (Kind::Amount { max }, Content::Integer(number)) => check_amount(*number as f64, *max),
        (Kind::Money, Content::Text(text)) => read_money(text).map(drop).map_err(Fault::BadValue),
        (Kind::Text, Content::Text(text)) => check_text(text),
        (Kind::Version, Content::Text(text)) => check_version(text),
        (Kind::AbsolutePath, Content::Text(text)) => check_path(text),
        (Kind::Duration { min, max }, Content::Text(text)) => check_duration(text, *min, *max),
        (Kind::Size { min_bytes, max_bytes }, Content::Text(text)) => {
            check_size(text, *min_bytes, *max_bytes)
        }
        (Kind::Choice { now, later }, Content::Text(text)) => check_choice(text, now, later),
        (Kind::Argv, Content::List(items)) if items.is_empty() => {
            Err(Fault::BadValue("the list is empty, and the program is missing".to_owned()))
        }
        (Kind::Argv, Content::List(items)) => return check_argv(items),
        (Kind::Variables, Content::List(items)) => return check_each_text(items, check_variable),
        (Kind::VariableMap, Content::Table(table)) => return check_variables(table),
        (Kind::Labels, Content::List(items)) if items.len() > LABELS_MAX => {
            Err(Fault::BadValue(format!("{} labels are too many, and {LABELS_MAX} are taken", items.len())))
        }
        (Kind::Labels, Content::List(items)) => return check_each_text(items, check_label),
        (Kind::ExitCodes, Content::List(items)) => return check_exit_codes(items),
        (Kind::Agent, Content::Text(text)) => check_agent(text),
        (Kind::Agents, Content::List(items)) if items.is_empty() => {
            Err(Fault::BadValue("the list is empty".to_owned()))
        }
        (Kind::Agents, Content::List(items)) => return check_each_text(items, check_agent),
        (Kind::Routes, Content::Table(table)) => return check_routes(table),
        (Kind::Joins, Content::List(items)) => return check_joins(items),
        (kind, found) => Err(wrong_kind(kind, found)),
    };
    fault.map_err(|fault| (fault, node.span.clone()))
}

fn wrong_kind(kind: &Kind, found: &Content) -> Fault {
    let expected = match kind {
        Kind::Bool => "true or false",
        Kind::Integer { .. } => "an integer",
        Kind::Amount { .. } => "a number",
        Kind::Money => "an amount like \"5.00\", as a text",
        Kind::Text => "a text",
        Kind::Version => "the version of a handler, as a text",
        Kind::AbsolutePath => "a path that begins with /",
        Kind::Duration { .. } => "a duration like \"90s\"",
        Kind::Size { .. } => "a size like \"64 KiB\"",
        Kind::Choice { .. } => "a word",
        Kind::Argv => "a list of texts, the program first",
        Kind::Variables => "a list of names of variables",
        Kind::VariableMap => "a table of variables and their texts",
        Kind::Labels => "a list of labels",
        Kind::ExitCodes => "a list of exit codes from 1 to 255",
        Kind::Agent => "the name of an agent",
        Kind::Agents => "a list of agents",
        Kind::Joins => "a list of joins, each a table",
        Kind::Routes => "a table of agents, each with a list of agents",
        Kind::Table(_) => "a table",
        Kind::Tables => "a list of tables",
    };
    Fault::WrongKind { expected: expected.to_owned(), found: found.describe() }
}

fn check_range(number: i64, min: i64, max: i64) -> Result<(), Fault> {
    if (min..=max).contains(&number) {
        return Ok(());
    }
    Err(Fault::BadValue(format!("{number} is not from {min} to {max}")))
}

fn check_amount(number: f64, max: f64) -> Result<(), Fault> {
    if number > 0.0 && number <= max {
        return Ok(());
    }
    Err(Fault::BadValue(format!("{number} is not above 0 and at most {max}")))
}

fn check_text(text: &str) -> Result<(), Fault> {
    if text.trim().is_empty() {
        return Err(Fault::BadValue("the text is blank".to_owned()));
    }
    if text.contains('\0') {
        return Err(Fault::BadValue("the text contains a NUL byte".to_owned()));
    }
    if text.len() > TEXT_MAX_BYTES {
        let words = format!("the text has {} bytes, and at most {TEXT_MAX_BYTES} are taken", text.len());
        return Err(Fault::BadValue(words));
    }
    Ok(())
}

fn check_version(text: &str) -> Result<(), Fault> {
    text.parse::<HandlerVersion>().map(drop).map_err(|error| Fault::BadValue(error.to_string()))
}

fn check_path(text: &str) -> Result<(), Fault> {
    check_text(text)?;
    if text.starts_with('/') {
        return Ok(());
    }
    Err(Fault::BadValue(format!("{text:?} does not begin with /")))
}

fn check_duration(text: &str, min: Duration, max: Duration) -> Result<(), Fault> {
    let duration = read_duration(text).map_err(Fault::BadValue)?;
    if duration < min {
        return Err(Fault::BadValue(format!("{text:?} is shorter than {}", humantime::format_duration(min))));
    }
    if duration > max {
        return Err(Fault::BadValue(format!("{text:?} is longer than {}", humantime::format_duration(max))));
    }
    Ok(())
}

fn check_size(text: &str, min_bytes: u64, max_bytes: u64) -> Result<(), Fault> {
    let bytes = read_size_bytes(text).map_err(Fault::BadValue)?;
    if (min_bytes..=max_bytes).contains(&bytes) {
        return Ok(());
    }
    Err(Fault::BadValue(format!("{text:?} is {bytes} bytes, and from {min_bytes} to {max_bytes} are taken")))
}

fn check_choice(text: &str, now: &[&str], later: &[&str]) -> Result<(), Fault> {
    if now.contains(&text) {
        return Ok(());
    }
    if later.contains(&text) {
        return Err(Fault::NotYet(Some(text.to_owned())));
    }
    let nearest = find_nearest(text, now.iter().copied());
    let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest:?}?"));
    Err(Fault::BadValue(format!("{text:?} is none of {}{hint}", now.join(", "))))
}

fn check_argv(items: &[Node]) -> Checked {
    check_each_text(&items[..items.len().min(1)], check_text)?;
    check_each_text(items, check_argument)
}

fn check_argument(text: &str) -> Result<(), Fault> {
    if text.contains('\0') {
        return Err(Fault::BadValue("an argument contains a NUL byte".to_owned()));
    }
    Ok(())
}

fn check_each_text(items: &[Node], check: fn(&str) -> Result<(), Fault>) -> Checked {
    items.iter().try_for_each(|item| {
        let checked = match &item.content {
            Content::Text(text) => check(text),
            other => {
                Err(Fault::WrongKind { expected: "texts in its list".to_owned(), found: other.describe() })
            }
        };
        checked.map_err(|fault| (fault, item.span.clone()))
    })
}

fn check_variables(table: &Table) -> Checked {
    table.iter().try_for_each(|(name, entry)| {
        check_variable(name).map_err(|fault| (fault, entry.key_span.clone()))?;
        check_each_text(std::slice::from_ref(&entry.node), check_argument)
    })
}

fn check_variable(name: &str) -> Result<(), Fault> {
    let well_formed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    if !well_formed {
        return Err(Fault::BadValue(format!("{name:?} is no name of a variable: [A-Za-z_][A-Za-z0-9_]*")));
    }
    if name.starts_with("TENURE_") {
        return Err(Fault::BadValue(format!("{name:?} is a variable that a run gets from Tenure")));
    }
    Ok(())
}

fn check_label(label: &str) -> Result<(), Fault> {
    let (key, value) = label.split_once('=').unwrap_or((label, ""));
    if key.trim().is_empty() || key.len() > LABEL_MAX_BYTES || value.len() > LABEL_MAX_BYTES {
        let words =
            format!("{label:?} is no label: `key` or `key=value`, each at most {LABEL_MAX_BYTES} bytes");
        return Err(Fault::BadValue(words));
    }
    if label.starts_with(RESERVED_LABEL_PREFIX) {
        let words = format!(
            "{label:?} is a label that Tenure gives: none of yours begins with {RESERVED_LABEL_PREFIX:?}"
        );
        return Err(Fault::BadValue(words));
    }
    Ok(())
}

fn check_exit_codes(items: &[Node]) -> Checked {
    items.iter().try_for_each(|item| {
        let checked = match &item.content {
            Content::Integer(code) => check_range(*code, 1, 255),
            other => Err(wrong_kind(&Kind::ExitCodes, other)),
        };
        checked.map_err(|fault| (fault, item.span.clone()))
    })
}

fn check_routes(table: &Table) -> Checked {
    table.iter().try_for_each(|(from, entry)| {
        check_agent(from).map_err(|fault| (fault, entry.key_span.clone()))?;
        match &entry.node.content {
            Content::List(items) => check_each_text(items, check_agent),
            other => {
                let fault =
                    Fault::WrongKind { expected: "lists of agents".to_owned(), found: other.describe() };
                Err((fault, entry.node.span.clone()))
            }
        }
    })
}

/// Each join is whole, no agent has two, and none waits for itself.
fn check_joins(items: &[Node]) -> Checked {
    let mut joined = Vec::new();
    for item in items {
        let Content::Table(table) = &item.content else {
            return Err((wrong_kind(&Kind::Joins, &item.content), item.span.clone()));
        };
        if let Some(flaw) = check_table(table, JOIN, "").into_iter().next() {
            return Err((name_in_fault(&flaw), flaw.span));
        }
        let bad = |words: String| Err((Fault::BadValue(words), item.span.clone()));
        let (Some(agent), Some(from)) = (text_of(table, "agent"), table.get("from")) else {
            return bad("a join has an `agent` and a list `from`".to_owned());
        };
        if joined.contains(&agent) {
            return bad(format!("{agent} has two joins"));
        }
        let Content::List(from) = &from.node.content else { continue };
        if from.iter().any(|upstream| matches!(&upstream.content, Content::Text(name) if name == agent)) {
            return bad(format!("{agent} would wait for itself"));
        }
        joined.push(agent);
    }
    Ok(())
}

fn text_of<'a>(table: &'a Table, key: &str) -> Option<&'a str> {
    match &table.get(key)?.node.content {
        Content::Text(text) => Some(text),
        _ => None,
    }
}

/// The fault of a key inside of a value that is named as a whole.
fn name_in_fault(flaw: &Flaw) -> Fault {
    Fault::BadValue(flaw.to_string())
}

fn check_agent(name: &str) -> Result<(), Fault> {
    name.parse::<AgentName>().map(drop).map_err(|error| Fault::BadValue(error.to_string()))
}

/// An agent has a command, a script or a handler, and one of them alone; a handler has no process.
pub(crate) fn check_command(table: &Table) -> Result<(), Flaw> {
    let fault = |path: &str, span: Option<Span>, words: &str| {
        Err(Flaw { path: path.to_owned(), span, fault: Fault::BadValue(words.to_owned()) })
    };
    match (table.get("command"), table.get("script"), table.get("handler")) {
        (Some(_), Some(script), None) => {
            fault("command", script.key_span.clone(), "give a command or a script, not both")
        }
        (Some(_), _, Some(handler)) | (_, Some(_), Some(handler)) => {
            let words = "give a handler, or a command or a script, not both";
            fault("handler", handler.key_span.clone(), words)
        }
        (None, None, None) => fault("command", None, "a command, a script or a handler is missing"),
        (Some(_), None, None) | (None, Some(_), None) => Ok(()),
        (None, None, Some(_)) => match PROCESS_KEYS.iter().find_map(|key| table.get_key_value(*key)) {
            Some((key, entry)) => {
                let words =
                    "a handler is a function in its worker and no process: this key says nothing about it";
                fault(key, entry.key_span.clone(), words)
            }
            None => Ok(()),
        },
    }
}

/// A declaration is bounded as a whole.
pub(crate) fn check_document_size(document: &[u8]) -> Result<(), Flaw> {
    if document.len() <= DECLARATION_MAX_BYTES {
        return Ok(());
    }
    let words = format!(
        "the declaration has {} bytes, and at most {DECLARATION_MAX_BYTES} are taken",
        document.len()
    );
    Err(Flaw { path: "script".to_owned(), span: None, fault: Fault::BadValue(words) })
}
