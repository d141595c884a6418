//! `tenure mcp` as an agent speaks to it: line by line. Its tools on a live run are tested end to end elsewhere.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::program::{run, tenure};

#[test]
fn outside_a_run_there_is_nothing_to_serve() {
    let ended = run(&["--json", "mcp"]);
    assert_eq!((ended.code, &ended.error()["code"]), (2, &json!("NOT_INSIDE_RUN")), "{ended:?}");
    assert_eq!(ended.stdout, "");
}

/// What is answered to each of these lines, in turn; the server is asked to end by the end of its input.
fn converse(lines: &[String]) -> Vec<Value> {
    let mut command = tenure(&["mcp"]);
    command.env("TENURE_SOCKET", "/nonexistent/tenure.sock").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let mut stdout = BufReader::new(server.stdout.take().unwrap());
    let mut answers = Vec::new();
    for line in lines {
        writeln!(stdin, "{line}").unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        answers.push(
            serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{line}: {error}: {answer:?}")),
        );
    }
    drop(stdin);
    assert!(server.wait().unwrap().success());
    answers
}

fn ask(id: u32, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

#[test]
fn a_verb_that_is_refused_and_a_message_that_is_none_are_answered_and_the_next_is_taken() {
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    let call = |id, name: &str, arguments: Value| {
        ask(id, "tools/call", &json!({ "name": name, "arguments": arguments }))
    };
    let answers = converse(&[
        ask(1, "initialize", &hello),
        // A notification is not answered: it goes with the next line.
        format!(
            "{}\n{}",
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            ask(2, "tools/list", &json!({}))
        ),
        "{ nonsense".to_owned(),
        json!({ "jsonrpc": "2.0", "id": 3, "method": 7 }).to_string(),
        format!("\"{}\"", "x".repeat(1 << 20)),
        call(4, "fly", json!({})),
        call(5, "note", json!({ "text": 7 })),
        call(6, "note", json!({ "text": "the run is over, and its socket with it" })),
        ask(7, "tools/fly", &json!({})),
        ask(8, "ping", &json!({})),
    ]);
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "tenure", "{answers:#?}");
    assert_eq!(answers[1]["result"]["tools"].as_array().unwrap().len(), 9, "{answers:#?}");
    let codes: Vec<_> = answers[2..6].iter().map(|answer| answer["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [Some(-32_700), Some(-32_600), Some(-32_600), Some(-32_602)], "{answers:#?}");
    for (place, code) in [(6, "INVALID_ARGUMENT"), (7, "COORDINATOR_UNAVAILABLE")] {
        let result = &answers[place]["result"];
        assert_eq!(result["isError"], true, "{answers:#?}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains(code), "{answers:#?}");
    }
    assert_eq!(answers[8]["error"]["code"], -32_601, "{answers:#?}");
    assert_eq!(answers[9]["result"], json!({}), "{answers:#?}");
}
