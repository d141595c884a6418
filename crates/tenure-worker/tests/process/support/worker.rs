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
    /// As on an old kernel, or in a sandbox: for this process and all that it starts.
    #[serde(default)]
    without_pidfds: bool,
}

#[tokio::main]
async fn main() {
    let plan: Plan = serde_json::from_str(&std::env::args().nth(1).unwrap()).unwrap();
    if plan.without_pidfds {
        refuse_pidfds();
    }
    tenure_worker::conceal_process().unwrap();
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

/// From now on `pidfd_open` is a system call that does not exist.
fn refuse_pidfds() {
    use nix::libc;
    let step = |code: u32, jump_unless: u8, value: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: 0,
        jf: jump_unless,
        k: value,
    };
    let refused = u32::try_from(libc::SYS_pidfd_open).unwrap();
    let mut filter = [
        // The number of the call comes first in what a filter is given.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, refused),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | u32::try_from(libc::ENOSYS).unwrap()),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: u16::try_from(filter.len()).unwrap(), filter: filter.as_mut_ptr() };
    nix::sys::prctl::set_no_new_privs().unwrap();
    // SAFETY: the program and its steps live until the call has copied them.
    #[expect(unsafe_code, reason = "no library of ours makes seccomp filters")]
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
