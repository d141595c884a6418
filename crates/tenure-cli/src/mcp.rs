//! `tenure mcp`: the verbs of a run as tools of an MCP server on stdin and stdout, for agents that speak that protocol. Each call is
//! carried out by this same program, as if the verb were typed, so that a tool and its verb say and refuse the same. It decides
//! nothing and keeps nothing. Neighbours: `tools` has the table of them, `lines` keeps what is no message from the protocol's
//! library, which passes over it in silence.

mod lines;
mod tools;

use std::{path::PathBuf, process::Stdio, sync::Arc};

use clap::Args;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};
use serde_json::Value;
use tenure_core::{
    limits::{MCP_CALLS_MAX, MCP_LINE_MAX_BYTES},
    reason::Reason,
};
use tokio::{io::AsyncWriteExt as _, process::Command, sync::Semaphore};

use self::tools::{Invocation, TOOLS, find_tool};
use crate::{context::Context, failure::Failure, in_run::open_run};

/// What an agent is told about the server.
const INSTRUCTIONS: &str = "You work inside a run of a job. It may be interrupted at any moment, and a later run then does the \
    work again. Leave notes of your progress for it. Change the world only through `effect`, under a key that means the same in \
    every run: what was done is answered from the record and not done a second time.";

/// Serve the verbs of this run as tools over the Model Context Protocol, on stdin and stdout
#[derive(Debug, Args)]
pub(crate) struct McpArgs {}

pub(crate) async fn serve_mcp(_context: &Context, _args: McpArgs) -> Result<(), Failure> {
    // Outside a run there is nothing to serve.
    open_run()?;
    let program = std::env::current_exe()?;
    let (inside, relay) = lines::relay(tokio::io::stdin(), tokio::io::stdout(), MCP_LINE_MAX_BYTES);
    let relay = tokio::spawn(relay);
    let server = RunTools { program, calls: Arc::new(Semaphore::new(MCP_CALLS_MAX)) };
    let served = match server.serve(inside).await {
        Ok(running) => running.waiting().await.map(|_| ()).map_err(|error| describe(&error)),
        // Whoever left before it introduced itself wants nothing.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(describe(&error)),
    };
    // What was said last is written before this program ends.
    let _ = relay.await;
    served.map_err(|words| Failure::new(Reason::Internal, format!("serving the tools of the run: {words}")))
}

fn describe(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}

/// The server.
#[derive(Debug, Clone)]
struct RunTools {
    /// This program.
    program: PathBuf,
    /// Calls that are under way at the same time; the next one waits its turn.
    calls: Arc<Semaphore>,
}

impl ServerHandler for RunTools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("tenure", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.iter().map(tools::Tool::describe).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = find_tool(&request.name) else {
            let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
            let words = format!("there is no tool {:?}; there are {}", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(words, None));
        };
        let result = match tool.invoke(&request.arguments.unwrap_or_default()) {
            Ok(invocation) => self.carry_out(invocation).await,
            Err(words) => refuse(&format!("{}: {words}", Reason::InvalidArgument.code())),
        };
        Ok(result.into())
    }
}

impl RunTools {
    /// Has the verb carried out, and answers with what it printed.
    async fn carry_out(&self, invocation: Invocation) -> CallToolResult {
        // Never closed: an error would mean that there is nothing to bound.
        let _turn = self.calls.acquire().await.ok();
        let mut command = Command::new(&self.program);
        command.arg("--json").args(&invocation.arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ended = async {
            let mut child = command.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // A verb that was refused may not have read it.
                let _ = stdin.write_all(&invocation.stdin).await;
            }
            child.wait_with_output().await
        };
        match ended.await {
            Ok(output) if output.status.success() => succeed(&output.stdout),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let printed = String::from_utf8_lossy(&output.stdout);
                let ended =
                    output.status.code().map_or("a signal".to_owned(), |code| format!("exit code {code}"));
                refuse(format!("{}\n{}\n({ended})", said.trim(), printed.trim()).trim())
            }
            Err(error) => {
                refuse(&format!("{}: the verb could not be started: {error}", Reason::Internal.code()))
            }
        }
    }
}

/// What a verb printed: as it is, and as JSON where it is that.
fn succeed(printed: &[u8]) -> CallToolResult {
    let text = String::from_utf8_lossy(printed).trim_end().to_owned();
    let structured = serde_json::from_str::<Value>(&text).ok().filter(Value::is_object);
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = structured;
    result
}

/// The run goes on: whoever called reads why.
fn refuse(words: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(words)])
}
