//! The fleet file: TOML that people write, read into declarations. `[defaults]` is merged into each agent before its digest
//! is taken, files are read in through the caller's closure, and built-in defaults are not filled in. What is wrong is named
//! with line, column and, for a key, the nearest known one. It does no I/O. Neighbours: `declaration` has the schema.

mod error;

pub use error::FleetError;

use toml::de::DeTable;

use self::error::Position;
use crate::{
    declaration::{
        Declaration, PolicyBundle,
        check::{Fault, Flaw, check_table, explain_unknown},
        node::{Content, Entry, Node, Span, Table, merge_tables, table_from_toml},
        schema,
    },
    id::AgentName,
    limits::APPLY_MAX_AGENTS,
};

/// The only version of the form.
const SCHEMA: i64 = 1;

/// The keys at the top of a file.
const TOP_KEYS: [&str; 6] = ["schema", "defaults", "agents", "policy", "routes", "joins"];

/// The keys that say what an agent runs; it has one of them.
const KINDS_OF_WORK: [&str; 3] = ["command", "script", "handler"];

/// What a fleet file declares.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetFile {
    /// Its agents, by name.
    pub agents: Vec<FleetAgent>,
    /// The tenant's policy bundle, where the file has one.
    pub policy: Option<PolicyBundle>,
}

/// An agent of a fleet file.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetAgent {
    /// Its name.
    pub name: AgentName,
    /// What is declared.
    pub declaration: Declaration,
}

/// Reads a fleet file. `read_file` gives the text of a file that it names, relative to its own place, or says why not.
///
/// # Errors
/// The first thing in the file that is wrong.
pub fn read_fleet(
    text: &str,
    mut read_file: impl FnMut(&str) -> Result<String, String>,
) -> Result<FleetFile, FleetError> {
    let position = Position::of(text);
    let document = DeTable::parse(text).map_err(|error| position.explain_syntax(&error))?;
    let top = table_from_toml(document.get_ref());
    let flaws = check_file(&top);
    if let Some(flaw) = flaws.first() {
        return Err(position.explain(flaw));
    }
    let policy = gather_policy(&top);
    let empty = Table::new();
    let defaults = inner(&top, "defaults").unwrap_or(&empty);
    let agents = inner(&top, "agents").unwrap_or(&empty);
    let agents = agents
        .iter()
        .map(|(name, entry)| declare_agent(name, entry, defaults, &mut read_file))
        .collect::<Result<_, _>>()
        .map_err(|flaw| position.explain(&flaw))?;
    Ok(FleetFile { agents, policy })
}

/// `[policy]`, and beside it what the file says about routes.
fn gather_policy(top: &Table) -> Option<PolicyBundle> {
    let mut bundle = inner(top, "policy").cloned().unwrap_or_default();
    bundle.extend(gather_routing(top));
    let says_anything = top.contains_key("policy") || !bundle.is_empty();
    says_anything.then(|| PolicyBundle::from_table(&bundle))
}

fn gather_routing(top: &Table) -> Table {
    let is_routing = |name: &String| schema::ROUTING.iter().any(|key| key.name == name);
    top.iter()
        .filter(|(name, _)| is_routing(name))
        .map(|(name, entry)| (name.clone(), entry.clone()))
        .collect()
}

/// Everything that is wrong with the tables as they are written, in the order of the file.
fn check_file(top: &Table) -> Vec<Flaw> {
    let mut flaws: Vec<Flaw> = top.iter().filter_map(|(name, entry)| check_top(name, entry)).collect();
    if !top.contains_key("schema") {
        flaws.push(bad("schema", None, "`schema = 1` is missing at the top of the file"));
    }
    for (name, keys) in [("defaults", schema::AGENT), ("policy", schema::POLICY)] {
        if let Some(table) = inner(top, name) {
            flaws.extend(check_table(table, keys, name));
        }
    }
    flaws.extend(check_table(&gather_routing(top), schema::ROUTING, ""));
    if let Some(agents) = inner(top, "agents") {
        flaws.extend(check_agents(agents));
    }
    flaws.sort_by_key(|flaw| flaw.span.as_ref().map(|span| span.start));
    flaws
}

fn check_top(name: &str, entry: &Entry) -> Option<Flaw> {
    let at_key = |fault| Some(Flaw { path: name.to_owned(), span: entry.key_span.clone(), fault });
    match (name, &entry.node.content) {
        ("schema", Content::Integer(SCHEMA)) | ("defaults" | "agents" | "policy", Content::Table(_)) => None,
        ("schema", Content::Integer(other)) => {
            at_key(Fault::BadValue(format!("schema {other} is none that this release reads, which is 1")))
        }
        ("schema", found) => wrong_kind(name, entry, "the integer 1", found),
        ("defaults" | "agents" | "policy", found) => wrong_kind(name, entry, "a table", found),
        // With its own schema.
        ("routes" | "joins", _) => None,
        (unknown, _) => at_key(explain_unknown(unknown, &TOP_KEYS)),
    }
}

fn check_agents(agents: &Table) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    if agents.len() > APPLY_MAX_AGENTS {
        let words = format!("{} agents are too many, and {APPLY_MAX_AGENTS} are taken", agents.len());
        flaws.push(bad("agents", None, &words));
    }
    for (name, entry) in agents {
        let path = format!("agents.{name}");
        if let Err(error) = name.parse::<AgentName>() {
            flaws.push(bad(&path, entry.key_span.clone(), &error.to_string()));
        }
        match &entry.node.content {
            Content::Table(table) => flaws.extend(check_table(table, schema::AGENT, &path)),
            found => flaws.extend(wrong_kind(&path, entry, "a table", found)),
        }
    }
    flaws
}

fn declare_agent(
    name: &str,
    entry: &Entry,
    defaults: &Table,
    read_file: &mut impl FnMut(&str) -> Result<String, String>,
) -> Result<FleetAgent, Flaw> {
    let path = format!("agents.{name}");
    let name = name
        .parse()
        .map_err(|error: crate::id::InvalidName| bad(&path, entry.key_span.clone(), &error.to_string()))?;
    let Content::Table(own) = &entry.node.content else {
        return Err(bad(&path, entry.key_span.clone(), "it is no table"));
    };
    let mut merged = merge_tables(&defaults_for(own, defaults), own);
    read_instructions(&mut merged, &path, read_file)?;
    if let Some(flaw) = check_table(&merged, schema::AGENT, &path).into_iter().next() {
        return Err(flaw);
    }
    let declaration = Declaration::from_table(&merged).map_err(|flaw| Flaw {
        path: format!("{path}.{}", flaw.path),
        span: flaw.span.or_else(|| entry.key_span.clone()),
        fault: flaw.fault,
    })?;
    Ok(FleetAgent { name, declaration })
}

/// The defaults that an agent is laid over. Its own command goes before a default script, and the other way round; what is
/// about processes says nothing to a handler.
fn defaults_for(own: &Table, defaults: &Table) -> Table {
    let mut defaults = defaults.clone();
    if KINDS_OF_WORK.iter().any(|key| own.contains_key(*key)) {
        KINDS_OF_WORK.iter().for_each(|key| drop(defaults.remove(*key)));
    }
    if own.contains_key("handler") || defaults.contains_key("handler") {
        schema::PROCESS_KEYS.iter().for_each(|key| drop(defaults.remove(*key)));
    }
    defaults
}

/// Puts the text of the instructions in the place of the file's name.
fn read_instructions(
    table: &mut Table,
    path: &str,
    read_file: &mut impl FnMut(&str) -> Result<String, String>,
) -> Result<(), Flaw> {
    let Some(entry) = table.get_mut("instructions") else { return Ok(()) };
    let Content::Text(file) = &entry.node.content else { return Ok(()) };
    let text = read_file(file).map_err(|error| {
        let words = format!("reading {file:?}: {error}");
        bad(&format!("{path}.instructions"), entry.node.span.clone(), &words)
    })?;
    entry.node = Node::text(text, entry.node.span.clone());
    Ok(())
}

fn inner<'a>(table: &'a Table, key: &str) -> Option<&'a Table> {
    match &table.get(key)?.node.content {
        Content::Table(inner) => Some(inner),
        _ => None,
    }
}

fn wrong_kind(path: &str, entry: &Entry, expected: &str, found: &Content) -> Option<Flaw> {
    let fault = Fault::WrongKind { expected: expected.to_owned(), found: found.describe() };
    Some(Flaw { path: path.to_owned(), span: entry.node.span.clone(), fault })
}

fn bad(path: &str, span: Option<Span>, words: &str) -> Flaw {
    Flaw { path: path.to_owned(), span, fault: Fault::BadValue(words.to_owned()) }
}

#[cfg(test)]
mod tests;
