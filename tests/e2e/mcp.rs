//! The verbs of a live run as tools, called by the protocol's own client for Python, which `make test-mcp` installs.

use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::Fleet;

/// The variable with the interpreter.
const PYTHON_VARIABLE: &str = "TENURE_TEST_MCP_PYTHON";

const TOOLS: [&str; 9] =
    ["note", "effect", "send", "spawn", "remember", "spend", "set_down", "wait", "status"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs an interpreter with the client: make test-mcp"]
async fn every_tool_of_a_live_run_does_what_its_verb_does() {
    let python =
        std::env::var(PYTHON_VARIABLE).expect("the variable names an interpreter that has the client");
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/mcp/client.py");
    let agents = r#"
[agents.caller]
command = ["PYTHON", "CLIENT"]
[agents.idle]
command = ["true"]
requires = ["nowhere"]
[agents.quick]
script = 'printf looked > "$TENURE_RESULT"'
"#;
    let agents = agents.replace("PYTHON", &python).replace("CLIENT", client.to_str().unwrap());
    let fleet = Fleet::start(&agents, &[("w1", &["--slots", "2"])]).await;
    let job = fleet.submit("caller", "");
    fleet.wait_for_state(job, "succeeded").await;
    let result = fleet.cluster.run(&["result", &job.to_string()]).unwrap();
    let report: Value = serde_json::from_str(&result).unwrap();
    let mut tools: Vec<&str> =
        report["tools"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    tools.sort_unstable();
    let mut expected = TOOLS;
    expected.sort_unstable();
    assert_eq!(tools, expected);
    let calls = report["calls"].as_array().unwrap();
    let told =
        |place: usize| (calls[place]["error"].as_bool().unwrap(), calls[place]["text"].as_str().unwrap());
    for place in 0..9 {
        assert!(!told(place).0, "call {place}: {}", told(place).1);
    }
    // Read back, and not performed a second time.
    assert!(told(1).1.contains("done") && told(2).1.contains("done"), "{calls:?}");
    for (place, code) in [(9, "UNKNOWN_AGENT"), (10, "INVALID_ARGUMENT"), (11, "yesterday")] {
        assert!(told(place).0 && told(place).1.contains(code), "call {place}: {}", told(place).1);
    }
    let over = &report["over"]["jobs"][0];
    assert_eq!((&over["outcome"], &over["result"]), (&json!("succeeded"), &json!("looked")), "{report}");
    assert!(report["unknown"].as_str().unwrap().contains("fly"), "{report}");
    let mut nonsense: Vec<i64> =
        report["nonsense"].as_array().unwrap().iter().map(|code| code.as_i64().unwrap()).collect();
    nonsense.sort_unstable();
    assert_eq!(nonsense, [-32_700, -32_600, -32_600]);
    // The wait may have ended the first run; then the second said all of it again.
    let notes = fleet.notes(job).await;
    assert!(!notes.is_empty() && notes.iter().all(|note| note == "-- half way"), "{notes:?}");
    let kinds = fleet.kinds(job).await;
    let count = |kind: &str| kinds.iter().filter(|found| *found == kind).count();
    assert_eq!((count("effect_started"), count("effect_done")), (1, 1), "{kinds:?}");
    assert_eq!((count("sent"), count("spawned")), (2, 1), "{kinds:?}");
    for kind in ["remembered", "spent", "layover_booked"] {
        assert!(count(kind) >= 1, "{kind}: {kinds:?}");
    }
}
