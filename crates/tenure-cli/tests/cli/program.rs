//! Runs the program and keeps what it printed.

use std::{
    net::TcpListener,
    process::{Command, Stdio},
};

/// What a run of the program came to.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The one JSON object on stderr.
    pub(crate) fn error(&self) -> serde_json::Value {
        serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The program with these arguments, and nothing of this environment that it would read.
pub(crate) fn tenure(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(arguments).stdin(Stdio::null());
    for variable in ["TENURE_ENDPOINT", "TENURE_SOCKET", "TENURE_DATABASE_URL", "TENURE_LOG", "TRACEPARENT"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    end(tenure(arguments))
}

/// Runs a prepared command to its end.
pub(crate) fn end(mut command: Command) -> Ended {
    let output = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
    Ended {
        code: output.status.code().expect("it is not killed"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// An address at which nobody answers: its port was free a moment ago.
pub(crate) fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}
