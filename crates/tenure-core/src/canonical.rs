//! Canonical JSON: the bytes over which a declaration's or a bundle's digest is taken. Keys in the order of their bytes, no
//! white space, numbers as `serde_json` prints them. It sorts by itself and does not rely on the map type of a library,
//! whose order another crate's features can change. It is not a general canonicalisation scheme: the only floating-point
//! numbers that occur are those that somebody wrote into a fleet file.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::id::Digest;

/// The canonical bytes of a JSON value.
#[must_use]
pub fn write_canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_value(value, &mut out);
    out
}

/// The digest of a JSON value: SHA-256 over its canonical bytes.
#[must_use]
pub fn digest_canonical(value: &Value) -> Digest {
    Digest::of(&write_canonical(value))
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&str, &Value> =
                map.iter().map(|(key, value)| (key.as_str(), value)).collect();
            write_joined(out, b'{', b'}', sorted, |(key, value), out| {
                write_text(key, out);
                out.push(b':');
                write_value(value, out);
            });
        }
        Value::Array(items) => write_joined(out, b'[', b']', items, write_value),
        Value::String(text) => write_text(text, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            out.extend_from_slice(value.to_string().as_bytes())
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(Value::from(text).to_string().as_bytes());
}

fn write_joined<T>(
    out: &mut Vec<u8>,
    open: u8,
    close: u8,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut Vec<u8>),
) {
    out.push(open);
    for (position, item) in items.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth_and_nothing_is_spaced() {
        let value = json!({"b": [1, {"z": null, "a": true}], "a": "x\n\"é"});
        let canonical = write_canonical(&value);
        assert_eq!(String::from_utf8(canonical).unwrap(), r#"{"a":"x\n\"é","b":[1,{"a":true,"z":null}]}"#);
    }

    #[test]
    fn canonical_bytes_read_back_as_the_same_value() {
        let value = json!({"cpu": 1.5, "n": -3, "deep": {"list": ["", "ß", "\u{0001}"]}});
        assert_eq!(serde_json::from_slice::<Value>(&write_canonical(&value)).unwrap(), value);
    }
}
