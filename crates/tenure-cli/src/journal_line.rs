//! A record as a line of text, and as an object for programs. The text shows what lies beside a record where it is text;
//! the object has the record's own JSON as it was hashed.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tenure_client::record::JournalRecord;

use crate::{failure::Failure, printer::harmless};

/// Members that every record has; the rest is what its kind says.
const COMMON_MEMBERS: &[&str] =
    &["tenant", "job", "seq", "generation", "epoch", "run", "phase", "at", "kind"];
/// A value longer than this is cut off in text; `--json` has all of it.
const VALUE_SHOWN_CHARS: usize = 500;

/// A record as a line of text.
pub(crate) fn format_record(record: &JournalRecord) -> Result<String, Failure> {
    let json = record.json()?;
    let member = |name: &str| json.get(name).map(plain_text).unwrap_or_default();
    let mut line = format!(
        "{:>4}  {:<27}  {:<18}  epoch {} run {}",
        record.seq.0,
        pad_fraction(&member("at")),
        record.kind,
        member("epoch"),
        member("run")
    );
    if let Value::Object(members) = &json {
        line.push_str(&format_own_members(members));
    }
    if let Some(value) = &record.value {
        line.push_str(&format!("  {}", format_value(value)));
    }
    Ok(line)
}

/// An instant with all the digits of its microseconds, so that the columns after it stand below each other.
fn pad_fraction(instant: &str) -> String {
    instant.parse::<Timestamp>().map_or_else(|_| instant.to_owned(), |at| format!("{at:.6}"))
}

/// A record for programs.
pub(crate) fn record_object(record: &JournalRecord) -> Result<Value, Failure> {
    let mut object = json!({
        "seq": record.seq,
        "kind": record.kind,
        "hash": record.hash,
        "stored_at": record.stored_at,
        "record": record.json()?,
    });
    if let (Some(value), Value::Object(members)) = (&record.value, &mut object) {
        let (name, text) = name_bytes("value", value);
        members.insert(name, Value::String(text));
    }
    Ok(object)
}

/// Bytes as a member of an object: as text under `name`, or in hexadecimal digits under `name_hex` where they are none.
pub(crate) fn name_bytes(name: &str, bytes: &[u8]) -> (String, String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (name.to_owned(), text.to_owned()),
        Err(_) => (format!("{name}_hex"), hex::encode(bytes)),
    }
}

fn format_own_members(members: &Map<String, Value>) -> String {
    members
        .iter()
        .filter(|(name, value)| !COMMON_MEMBERS.contains(&name.as_str()) && !is_value_reference(value))
        .map(|(name, value)| format!("  {name}={}", harmless(&plain_text(value))))
        .collect()
}

/// True for what stands in a record for a value beside it, which is shown itself.
fn is_value_reference(value: &Value) -> bool {
    value.get("sha256").is_some() && value.get("bytes").is_some()
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn format_value(value: &Bytes) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if text.chars().count() <= VALUE_SHOWN_CHARS => format!("“{}”", harmless(text)),
        Ok(text) => {
            let shown: String = text.chars().take(VALUE_SHOWN_CHARS).collect();
            format!("“{}…” ({} bytes)", harmless(&shown), value.len())
        }
        Err(_) => format!("({} bytes that are no text)", value.len()),
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::id::{Digest, Seq};

    use super::*;

    fn note(text: &[u8]) -> JournalRecord {
        let bytes =
            br#"{"tenant":"default","job":"j","seq":4,"generation":1,"epoch":2,"run":2,"phase":"forward",
            "at":"2026-11-30T09:00:00Z","kind":"note","text":{"sha256":"00","bytes":4},"step":"push"}"#;
        JournalRecord {
            seq: Seq(4),
            bytes: Bytes::from_static(bytes),
            hash: Digest([0; 32]),
            value: Some(Bytes::copy_from_slice(text)),
            salt: None,
            stored_at: Timestamp::UNIX_EPOCH,
            kind: "note".into(),
        }
    }

    #[test]
    fn a_line_shows_the_value_in_place_of_its_digest() {
        assert_eq!(
            format_record(&note(b"pushed\x1b[2J")).unwrap(),
            "   4  2026-11-30T09:00:00.000000Z  note                epoch 2 run 2  step=push  “pushed\\u{1b}[2J”"
        );
    }

    #[test]
    fn an_object_has_the_record_as_it_was_hashed_and_the_value_as_it_was_written() {
        let object = record_object(&note(b"pushed")).unwrap();
        assert_eq!(object["record"]["text"]["bytes"], 4);
        assert_eq!(object["value"], "pushed");
        assert_eq!(record_object(&note(&[0xff])).unwrap()["value_hex"], "ff");
    }
}
