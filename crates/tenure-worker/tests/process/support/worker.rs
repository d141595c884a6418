//! A worker process for the tests to kill and freeze: it starts one guarded process from a plan in JSON, tells what
//! it sees on standard output, and ends with the run.

#![allow(clippy::unwrap_used, reason = "a test's helper fails loudly")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tenure_worker::guardian::{BootInstant, Fencing, ReportIdentity};
use tenure_worker::runner::{
    GuardCommand, GuardLink, ProcessCommand, ProcessRunner, ProcessSpec, ProcessStdin, Redactor,
    ResourceLimits,
};

#[derive(Deserialize)]
struct Plan {
    guard: PathBuf,
    fencing: Fencing,
    run_name: String,
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    run_directory: PathBuf,
    stop_grace_ms: u64,
    margin_ms: u64,
    deadline_in_ms: u64,
    forget: bool,
    report: Option<ReportIdentity>,
}

#[tokio::main]
async fn main() {
    let plan: Plan = serde_json::from_str(&std::env::args().nth(1).unwrap()).unwrap();
    let link = GuardLink {
        deadline: BootInstant::now().plus(Duration::from_millis(plan.deadline_in_ms)),
        margin: Duration::from_millis(plan.margin_ms),
        report: plan.report,
    };
    let spec = ProcessSpec {
        run_name: plan.run_name,
        command: ProcessCommand::Argv(plan.argv),
        environment: plan.env,
        cwd: plan.run_directory.clone(),
        stdin: ProcessStdin::None,
        user: None,
        limits: ResourceLimits::default(),
        run_directory: plan.run_directory,
        stop_grace: Duration::from_millis(plan.stop_grace_ms),
        timeout: Duration::from_secs(600),
        idle_timeout: None,
        output_limit_bytes: 1024,
        redactor: Redactor::default(),
    };
    let guard = GuardCommand { program: plan.guard, arguments: Vec::new() };
    let mut process = ProcessRunner::new(guard, plan.fencing).start_process(spec, link);
    println!("started {:?}", process.wait_started().await);
    while process.next_output().await.is_some() {}
    println!("ended {:?}", process.wait().await.end);
    if plan.forget {
        process.release().await;
    }
}
