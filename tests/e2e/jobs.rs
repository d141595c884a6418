//! A job from its submission to its end, and the ends that there are.

use std::fs;

use crate::fixture::{Fleet, wait_for_line};

const AGENTS: &str = r#"
[agents.greeter]
script = '''
tenure note "reading"
printf 'hello %s' "$(cat "$TENURE_INPUT")" > "$TENURE_RESULT"
echo out; echo err >&2
'''
[agents.breaker]
command = ["sh", "-c", "echo 1 >> SHARED/breaker; exit 7"]
recovery = { max-attempts = 1, backoff = { first = "10ms", max = "10ms" } }
[agents.final]
command = ["sh", "-c", "exit 65"]
final-exit-codes = [65]
[agents.manual]
script = '''
if [ -e SHARED/mended ]; then exit 0; fi
exit 3
'''
recovery = { policy = "manual" }
[agents.waiter]
stop-grace = "1s"
script = '''
echo started > SHARED/waiter
while :; do sleep 0.1; done
'''
"#;

async fn start() -> Fleet {
    Fleet::start(AGENTS, &[("w1", &["--slots", "4"])]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn job_runs_and_leaves_result_output_and_a_chain_that_verifies() {
    let fleet = start().await;
    let run = |arguments: &[&str]| fleet.cluster.run(arguments).unwrap();
    let job = run(&["submit", "greeter", "--input", "world", "--wait"]).trim().to_owned();
    assert_eq!(run(&["result", &job]), "hello world");
    assert_eq!(run(&["output", &job]).trim(), "out");
    assert_eq!(run(&["output", &job, "--stderr"]).trim(), "err");
    assert!(run(&["verify", &job]).contains("verified"));
    let ending = &job[job.len() - 8..];
    assert!(run(&["job", ending]).contains("succeeded"));
    let kinds = fleet.kinds(job.parse().unwrap()).await;
    assert_eq!(kinds, ["job_admitted", "plan_frozen", "run_started", "note", "job_concluded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_child_is_restarted_as_often_as_its_attempts_allow() {
    let fleet = start().await;
    let job = fleet.submit("breaker", "");
    fleet.wait_for_state(job, "failed").await;
    assert_eq!(fs::read_to_string(fleet.shared().join("breaker")).unwrap().lines().count(), 2);
    let starts = fleet.kinds(job).await.iter().filter(|kind| *kind == "run_started").count();
    assert_eq!(starts, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn final_exit_code_fails_at_once_and_submit_wait_exits_1() {
    let fleet = start().await;
    let output = fleet.try_run(&["submit", "final", "--wait"]);
    assert_eq!(output.status.code(), Some(1));
    let job = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert_eq!(fleet.state(job).await, "failed");
    let starts = fleet.kinds(job).await.iter().filter(|kind| *kind == "run_started").count();
    assert_eq!(starts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_job_waits_for_a_person_and_goes_on_when_recovered() {
    let fleet = start().await;
    let job = fleet.submit("manual", "");
    fleet.wait_for_state(job, "interrupted").await;
    let id = job.to_string();
    let shown = fleet.cluster.run(&["job", &id]).unwrap();
    assert!(shown.lines().take(3).any(|line| line.contains("tenure recover")), "{shown}");
    fs::write(fleet.shared().join("mended"), "").unwrap();
    fleet.cluster.run(&["recover", &id, "--why", "mended by hand"]).unwrap();
    fleet.wait_for_state(job, "succeeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_the_child_and_seals_the_job() {
    let fleet = start().await;
    let job = fleet.submit("waiter", "");
    wait_for_line(&fleet.shared().join("waiter")).await;
    fleet.cluster.run(&["cancel", &job.to_string(), "--why", "no longer wanted"]).unwrap();
    fleet.wait_for_state(job, "cancelled").await;
    let kinds = fleet.kinds(job).await;
    assert_eq!(kinds[3..], ["cancel_requested", "child_gone", "job_concluded"]);
}
