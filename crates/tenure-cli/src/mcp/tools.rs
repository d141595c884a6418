//! The tools: each a verb of a run, what it takes as a JSON schema, and how its arguments are typed. A text goes through stdin, where it
//! may be of any length and begin with anything.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// A verb as a tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    description: &'static str,
    parameters: &'static [Parameter],
    compose: fn(&Given<'_>) -> Result<Invocation, String>,
}

/// What a tool takes.
struct Parameter {
    name: &'static str,
    kind: Kind,
    required: bool,
    description: &'static str,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    Words,
    OneOf(&'static [&'static str]),
}

/// A verb as it is typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invocation {
    pub(super) arguments: Vec<String>,
    pub(super) stdin: Vec<u8>,
}

const fn required(name: &'static str, kind: Kind, description: &'static str) -> Parameter {
    Parameter { name, kind, required: true, description }
}

const fn optional(name: &'static str, kind: Kind, description: &'static str) -> Parameter {
    Parameter { name, kind, required: false, description }
}

const GIFT: &[Parameter] = &[
    required("agent", Kind::Text, "To whom."),
    required("body", Kind::Text, "The work: the input of the new job."),
    optional(
        "key",
        Kind::Text,
        "Under this key the job is made once. Name one where the body differs from run to run.",
    ),
];

/// All of them, in the order in which they are listed.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "note",
        description: "Leave a line of progress for whoever comes after this run. Durable when it returns.",
        parameters: &[required(
            "text",
            Kind::Text,
            "What was done, and where the work stands; at most 16 KiB.",
        )],
        compose: |given| Ok(spoken("note", given.text("text")?)),
    },
    Tool {
        name: "effect",
        description: "Run a command that changes the world, at most once in this job. Where an earlier run did it, its recorded \
            output is returned and nothing is run.",
        parameters: &[
            required(
                "key",
                Kind::Text,
                "Names the effect: unique in the job, and the same in every run of it.",
            ),
            required("command", Kind::Words, "The program and its arguments."),
            optional(
                "in_doubt",
                Kind::OneOf(&["ask", "retry", "idempotent"]),
                "Where it was interrupted and nobody knows \
                whether it happened: a person decides (the default), or it is run again, with the same TENURE_IDEMPOTENCY_KEY.",
            ),
            optional(
                "probe",
                Kind::Text,
                "In place of in_doubt: a shell command that looks it up. Exit 0: it happened; 10: it did not.",
            ),
            optional("read_only", Kind::Flag, "True where it changes nothing in the world."),
            optional(
                "on_failure",
                Kind::OneOf(&["did-not-happen", "in-doubt", "landed"]),
                "What a failure means for the world.",
            ),
            optional("undo", Kind::Text, "The shell command that undoes it where the job is cancelled."),
            optional("no_undo", Kind::Flag, "True where it does not need to be undone."),
            optional("tool", Kind::Text, "What it uses. Default: the key up to its first /."),
        ],
        compose: compose_effect,
    },
    Tool {
        name: "send",
        description: "Give work to another agent, as a job in this session. Returns the id of the job. A later run that gives the \
            same again is answered with the same job.",
        parameters: GIFT,
        compose: |given| compose_gift("send", given),
    },
    Tool {
        name: "spawn",
        description: "Give work to another agent, as a session of its own. Returns the id of the job.",
        parameters: GIFT,
        compose: |given| compose_gift("spawn", given),
    },
    Tool {
        name: "remember",
        description: "Leave a line that this agent is shown in later sessions too.",
        parameters: &[required("text", Kind::Text, "What is worth knowing next time; at most 4 KiB.")],
        compose: |given| Ok(spoken("remember", given.text("text")?)),
    },
    Tool {
        name: "spend",
        description: "Say what this run spent since the last time. It counts against the budget of the session.",
        parameters: &[
            optional("tokens", Kind::Text, "Tokens of a model, as a whole number."),
            optional("cost", Kind::Text, "Money in the tenant's currency, for example 0.035."),
            optional("turns", Kind::Text, "Turns of a model, as a whole number."),
        ],
        compose: |given| compose_options("spend", given, &["tokens", "cost", "turns"]),
    },
    Tool {
        name: "set_down",
        description: "Set the work down: when this run succeeds, a session of its own picks it up later, with the same input. End the \
            run after it; the last booking of a run counts.",
        parameters: &[
            required(
                "until",
                Kind::Text,
                "Picked up no earlier than this instant, or after a span, for example 2h.",
            ),
            required("waiting_for", Kind::Text, "What the work waits for, for whoever picks it up."),
        ],
        compose: |given| {
            given.text("waiting_for").and(given.text("until"))?;
            compose_options("set-down", given, &["until", "waiting_for"])
        },
    },
    Tool {
        name: "wait",
        description: "Wait for an instant, or until jobs have concluded, which answers with what came of each. It ends this run, unless \
            the wait is over already: a later run starts when it is, and is answered at once where it reaches the same wait.",
        parameters: &[
            optional(
                "until",
                Kind::Text,
                "An instant, or a span from now, for example 2h. With jobs: when the wait expires.",
            ),
            optional("jobs", Kind::Words, "The ids of jobs, as send and spawn return them."),
            optional("key", Kind::Text, "Tells this wait apart from others of the run."),
        ],
        compose: compose_wait,
    },
    Tool {
        name: "status",
        description: "Show where this run stands: its job, attempt, deadline, and whether a cancel stands.",
        parameters: &[],
        compose: |_| Ok(Invocation { arguments: vec!["status".to_owned()], stdin: Vec::new() }),
    },
];

/// The tool of this name.
pub(super) fn find_tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

fn spoken(verb: &str, text: &str) -> Invocation {
    Invocation { arguments: vec![verb.to_owned(), "-".to_owned()], stdin: text.as_bytes().to_vec() }
}

/// A verb that takes nothing but flags with values.
fn compose_options(verb: &str, given: &Given<'_>, names: &[&str]) -> Result<Invocation, String> {
    let mut arguments = vec![verb.to_owned()];
    for name in names {
        arguments.extend(given.option(name)?);
    }
    Ok(Invocation { arguments, stdin: Vec::new() })
}

fn compose_wait(given: &Given<'_>) -> Result<Invocation, String> {
    let mut invocation = compose_options("wait", given, &["until", "key"])?;
    if given.find("jobs").is_some() {
        invocation.arguments.extend(given.words("jobs")?.into_iter().map(|job| format!("--job={job}")));
    } else if given.find("until").is_none() {
        return Err("neither until nor jobs is given".to_owned());
    }
    Ok(invocation)
}

fn compose_gift(verb: &str, given: &Given<'_>) -> Result<Invocation, String> {
    let mut arguments = vec![verb.to_owned()];
    arguments.extend(given.option("key")?);
    // What comes after the two dashes is no flag, whatever it begins with.
    arguments.extend(["--".to_owned(), given.text("agent")?.to_owned(), "-".to_owned()]);
    Ok(Invocation { arguments, stdin: given.text("body")?.as_bytes().to_vec() })
}

fn compose_effect(given: &Given<'_>) -> Result<Invocation, String> {
    let mut arguments = vec!["effect".to_owned()];
    arguments.extend(given.find_text("in_doubt")?.map(|word| format!("--{word}")));
    for name in ["probe", "on_failure", "undo", "tool"] {
        arguments.extend(given.option(name)?);
    }
    for name in ["read_only", "no_undo"] {
        if given.flag(name)? {
            arguments.push(format!("--{}", name.replace('_', "-")));
        }
    }
    let key = given.text("key")?;
    if key.starts_with('-') {
        return Err(format!("the key {key:?} begins with a dash"));
    }
    arguments.extend([key.to_owned(), "--".to_owned()]);
    arguments.extend(given.words("command")?);
    Ok(Invocation { arguments, stdin: Vec::new() })
}

impl Tool {
    /// The tool as the protocol lists it.
    pub(super) fn describe(&self) -> rmcp::model::Tool {
        let properties: JsonObject =
            self.parameters.iter().map(|parameter| (parameter.name.to_owned(), parameter.schema())).collect();
        let required: Vec<&str> =
            self.parameters.iter().filter(|one| one.required).map(|one| one.name).collect();
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        schema.insert("required".to_owned(), json!(required));
        schema.insert("additionalProperties".to_owned(), json!(false));
        rmcp::model::Tool::new(self.name, self.description, Arc::new(schema))
    }

    /// The verb with these arguments, as it is typed.
    pub(super) fn invoke(&self, arguments: &JsonObject) -> Result<Invocation, String> {
        for name in arguments.keys() {
            if self.parameters.iter().all(|parameter| parameter.name != name) {
                return Err(format!("{} takes no {name:?}", self.name));
            }
        }
        (self.compose)(&Given { arguments, parameters: self.parameters })
    }
}

impl Parameter {
    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Text => json!({ "type": "string" }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Words => json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
            Kind::OneOf(words) => json!({ "type": "string", "enum": words }),
        };
        schema["description"] = json!(self.description);
        schema
    }
}

/// What a call gives.
struct Given<'a> {
    arguments: &'a JsonObject,
    parameters: &'a [Parameter],
}

impl<'a> Given<'a> {
    fn find(&self, name: &str) -> Option<&'a Value> {
        self.arguments.get(name).filter(|value| !value.is_null())
    }

    fn find_text(&self, name: &str) -> Result<Option<&'a str>, String> {
        let Some(value) = self.find(name) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| format!("{name} is not a text"))?;
        if text.contains('\0') {
            return Err(format!("{name} contains a NUL character"));
        }
        let known = self.parameters.iter().find(|parameter| parameter.name == name);
        if let Some(Parameter { kind: Kind::OneOf(words), .. }) = known
            && !words.contains(&text)
        {
            return Err(format!("{name} is one of {}, and not {text:?}", words.join(", ")));
        }
        Ok(Some(text))
    }

    fn text(&self, name: &str) -> Result<&'a str, String> {
        self.find_text(name)?.ok_or_else(|| format!("{name} is missing"))
    }

    /// As a flag with its value, in one argument, so that the value may begin with a dash.
    fn option(&self, name: &str) -> Result<Option<String>, String> {
        let text = self.find_text(name)?;
        Ok(text.map(|text| format!("--{}={text}", name.replace('_', "-"))))
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        self.find(name)
            .map_or(Ok(false), |value| value.as_bool().ok_or_else(|| format!("{name} is not true or false")))
    }

    fn words(&self, name: &str) -> Result<Vec<String>, String> {
        let value = self.find(name).ok_or_else(|| format!("{name} is missing"))?;
        let words = value.as_array().ok_or_else(|| format!("{name} is not a list of texts"))?;
        let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
        let words = words.ok_or_else(|| format!("{name} is not a list of texts"))?;
        if words.is_empty() || words.iter().any(|word| word.contains('\0')) {
            return Err(format!("{name} is empty, or contains a NUL character"));
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    fn invoke(name: &str, arguments: &Value) -> Result<Invocation, String> {
        find_tool(name).unwrap().invoke(arguments.as_object().unwrap())
    }

    #[test]
    fn every_tool_is_a_verb_that_the_program_takes_with_all_that_it_may_be_given() {
        let full = |tool: &Tool| -> JsonObject {
            let value = |parameter: &Parameter| match parameter.kind {
                Kind::Text => json!("-x"),
                Kind::Flag => json!(true),
                Kind::Words => json!(["sh", "-c", "true"]),
                Kind::OneOf(words) => json!(words[0]),
            };
            tool.parameters.iter().map(|parameter| (parameter.name.to_owned(), value(parameter))).collect()
        };
        for tool in TOOLS {
            let mut arguments = full(tool);
            if arguments.contains_key("until") {
                arguments.insert("until".to_owned(), json!("2h"));
            }
            if arguments.contains_key("jobs") {
                arguments.insert(
                    "jobs".to_owned(),
                    json!(["019af000-0000-7000-8000-000000000001", "019af000-0000-7000-8000-000000000002"]),
                );
            }
            if tool.name == "effect" {
                arguments.insert("key".to_owned(), json!("mail/1"));
                // Of what excludes each other, one.
                for name in ["in_doubt", "read_only", "no_undo"] {
                    arguments.remove(name);
                }
            }
            let typed = tool.invoke(&arguments).unwrap().arguments;
            let typed = ["tenure".to_owned()].into_iter().chain(typed);
            Cli::try_parse_from(typed).unwrap_or_else(|error| panic!("{}: {error}", tool.name));
        }
    }

    #[test]
    fn texts_go_through_stdin_and_options_are_one_argument() {
        let sent = invoke("send", &json!({"agent": "developer", "body": "--fix @it", "key": "-k"})).unwrap();
        assert_eq!(sent.arguments, ["send", "--key=-k", "--", "developer", "-"]);
        assert_eq!(sent.stdin, b"--fix @it");
        let effect =
            json!({"key": "git/push", "command": ["git", "push"], "in_doubt": "retry", "no_undo": true});
        let typed = invoke("effect", &effect).unwrap().arguments;
        assert_eq!(typed, ["effect", "--retry", "--no-undo", "git/push", "--", "git", "push"]);
    }

    #[test]
    fn what_a_tool_does_not_take_is_said_by_name() {
        for (name, arguments, expected) in [
            ("note", json!({}), "text is missing"),
            ("note", json!({"text": 7}), "text is not a text"),
            ("note", json!({"text": "x", "loud": true}), "note takes no \"loud\""),
            ("effect", json!({"key": "k", "command": "git push"}), "command is not a list of texts"),
            ("wait", json!({"key": "k"}), "neither until nor jobs is given"),
            ("wait", json!({"jobs": "k"}), "jobs is not a list of texts"),
            ("set_down", json!({"until": "2h"}), "waiting_for is missing"),
            ("effect", json!({"key": "k", "command": []}), "command is empty, or contains a NUL character"),
            ("effect", json!({"key": "--probe", "command": ["x"]}), "the key \"--probe\" begins with a dash"),
            (
                "effect",
                json!({"key": "k", "command": ["x"], "read_only": 1}),
                "read_only is not true or false",
            ),
            (
                "effect",
                json!({"key": "k", "command": ["x"], "in_doubt": "hope"}),
                "in_doubt is one of ask, retry, idempotent, and not \"hope\"",
            ),
        ] {
            assert_eq!(invoke(name, &arguments).unwrap_err(), expected);
        }
    }

    #[test]
    fn the_list_of_tools_is_pinned() {
        let listed: Vec<_> = TOOLS.iter().map(Tool::describe).collect();
        insta::assert_snapshot!(serde_json::to_string_pretty(&listed).unwrap());
    }
}
