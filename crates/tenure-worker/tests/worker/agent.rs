//! Declarations and grants that show only what a test is about.

use tenure_proto::v1::{Grant, RunRef};

/// The run of a job that is told apart by `number`. No two tests on a host share one: its name is also that of its group.
pub(crate) fn run_ref(number: u32) -> RunRef {
    RunRef {
        tenant: "default".to_owned(),
        job_id: format!("01930000-0000-7000-8000-{:08x}{number:04x}", std::process::id()),
        epoch: 1,
        run: 1,
        generation: 1,
    }
}

/// A script, with further keys of its declaration as JSON.
pub(crate) fn script(text: &str, keys: serde_json::Value) -> Vec<u8> {
    let mut table = serde_json::json!({ "script": text, "stop-grace": "2s" });
    if let (Some(table), serde_json::Value::Object(keys)) = (table.as_object_mut(), keys) {
        table.extend(keys);
    }
    serde_json::to_vec(&table).unwrap()
}

/// A handler in a version, with further keys of its declaration as JSON.
pub(crate) fn handler(version: &str, keys: serde_json::Value) -> Vec<u8> {
    let mut table = serde_json::json!({ "handler": version, "stop-grace": "2s" });
    if let (Some(table), serde_json::Value::Object(keys)) = (table.as_object_mut(), keys) {
        table.extend(keys);
    }
    serde_json::to_vec(&table).unwrap()
}

/// A grant under that term and attach number.
pub(crate) fn grant(number: u32, (term, attach): (u64, u64), declaration: Vec<u8>) -> Grant {
    Grant {
        run: Some(run_ref(number)),
        term,
        attach,
        secret: vec![9; 32].into(),
        agent: "greeter".to_owned(),
        declaration: declaration.into(),
        input: "the input".into(),
        handover: r#"{"cause":{"kind":"dispatch"}}"#.into(),
        brief: String::new(),
        preamble: String::new(),
        deadline_at: None,
        now: Some(prost_types::Timestamp { seconds: 1_796_000_000, nanos: 0 }),
        seq: 3,
        traceparent: String::new(),
        attempt: 1,
        session_started_at: None,
        unwinding: None,
        input_blob: None,
        input_erased: false,
    }
}
