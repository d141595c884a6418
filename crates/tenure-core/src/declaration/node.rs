//! A table as it was written, with the place of each key and value where it came from a file. It is what the schema is
//! checked against, whether the declaration arrives as TOML from a person or as JSON over the wire.

use std::{collections::BTreeMap, ops::Range};

use toml::de::{DeTable, DeValue};

/// A place in a file, in bytes.
pub(crate) type Span = Range<usize>;

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) content: Content,
    pub(crate) span: Option<Span>,
}

/// A table: each key with its own place and its value.
pub(crate) type Table = BTreeMap<String, Entry>;

/// The value of a key, and the key's place.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key_span: Option<Span>,
    pub(crate) node: Node,
}

/// What was written.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Table(Table),
    /// Something that no key takes: a date, or JSON's null.
    Other(&'static str),
}

impl Content {
    /// The kind of value, for messages.
    pub(crate) const fn describe(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a decimal number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(what) => what,
        }
    }
}

impl Node {
    /// A text without a place, for what was read in from elsewhere.
    pub(crate) const fn text(text: String, span: Option<Span>) -> Self {
        Self { content: Content::Text(text), span }
    }

    /// From a parsed TOML document.
    pub(crate) fn from_toml(value: &DeValue<'_>, span: Span) -> Self {
        let content = match value {
            DeValue::String(text) => Content::Text(text.clone().into_owned()),
            DeValue::Integer(number) => read_integer(number.as_str(), number.radix()),
            DeValue::Float(number) => {
                number.as_str().parse().map_or(Content::Other("a number"), Content::Float)
            }
            DeValue::Boolean(value) => Content::Bool(*value),
            DeValue::Datetime(_) => Content::Other("a date"),
            DeValue::Array(items) => {
                Content::List(items.iter().map(|item| Self::from_toml(item.get_ref(), item.span())).collect())
            }
            DeValue::Table(table) => Content::Table(table_from_toml(table)),
        };
        Self { content, span: Some(span) }
    }

    /// From JSON.
    pub(crate) fn from_json(value: &serde_json::Value) -> Self {
        let content = match value {
            serde_json::Value::Null => Content::Other("null"),
            serde_json::Value::Bool(value) => Content::Bool(*value),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Content::Integer(integer),
                (None, Some(float)) => Content::Float(float),
                (None, None) => Content::Other("a number"),
            },
            serde_json::Value::String(text) => Content::Text(text.clone()),
            serde_json::Value::Array(items) => Content::List(items.iter().map(Self::from_json).collect()),
            serde_json::Value::Object(map) => Content::Table(
                map.iter()
                    .map(|(key, value)| (key.clone(), Entry { key_span: None, node: Self::from_json(value) }))
                    .collect(),
            ),
        };
        Self { content, span: None }
    }

    /// As JSON; what no key takes becomes null, and was refused before.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.content {
            Content::Bool(value) => (*value).into(),
            Content::Integer(number) => (*number).into(),
            Content::Float(number) => (*number).into(),
            Content::Text(text) => text.clone().into(),
            Content::List(items) => items.iter().map(Self::to_json).collect::<Vec<_>>().into(),
            Content::Table(table) => table_to_json(table),
            Content::Other(_) => serde_json::Value::Null,
        }
    }
}

/// A whole TOML table.
pub(crate) fn table_from_toml(table: &DeTable<'_>) -> Table {
    table
        .iter()
        .map(|(key, value)| {
            let node = Node::from_toml(value.get_ref(), value.span());
            (key.get_ref().clone().into_owned(), Entry { key_span: Some(key.span()), node })
        })
        .collect()
}

/// A whole table as JSON.
pub(crate) fn table_to_json(table: &Table) -> serde_json::Value {
    let map = table.iter().map(|(key, entry)| (key.clone(), entry.node.to_json()));
    serde_json::Value::Object(map.collect())
}

/// `over` laid over `under`: tables are merged key by key, anything else is replaced.
pub(crate) fn merge_tables(under: &Table, over: &Table) -> Table {
    let mut merged = under.clone();
    for (key, entry) in over {
        let below = merged.get(key).map(|entry| &entry.node.content);
        let entry = match (below, &entry.node.content) {
            (Some(Content::Table(below)), Content::Table(above)) => {
                let content = Content::Table(merge_tables(below, above));
                Entry {
                    node: Node { content, span: entry.node.span.clone() },
                    key_span: entry.key_span.clone(),
                }
            }
            _ => entry.clone(),
        };
        merged.insert(key.clone(), entry);
    }
    merged
}

fn read_integer(digits: &str, radix: u32) -> Content {
    i64::from_str_radix(digits, radix).map_or(Content::Other("a number out of range"), Content::Integer)
}
