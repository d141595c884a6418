//! What needs a person: each condition made true on a fleet, seen, answered by the command that is printed with it, and gone.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tenure_core::attention::ALTERNATIVE;
use tenure_testkit::wait_for;
use uuid::Uuid;

use crate::fixture::{Fleet, PATIENCE, run_in_shell};

/// Asks the fleet, and checks that the exit code says what was found.
fn look(fleet: &Fleet, arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = ["--json", "attention"].iter().chain(arguments).copied().collect();
    let output = fleet.try_run(&arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    let attention: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let found = attention["conditions"].as_array().unwrap().len();
    assert_eq!(output.status.code(), Some(i32::from(found > 0)), "{attention}");
    attention
}

/// The kinds that were found, with their subjects.
fn found(attention: &Value) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let conditions = attention["conditions"].as_array().unwrap().iter();
    conditions
        .map(|one| (text(&one["kind"]), one["subjects"].as_array().unwrap().iter().map(text).collect()))
        .collect()
}

async fn wait_for_found(fleet: &Fleet, arguments: &[&str], wanted: &[(&str, &[String])]) -> Value {
    let wanted: Vec<(String, Vec<String>)> =
        wanted.iter().map(|(kind, subjects)| ((*kind).to_owned(), subjects.to_vec())).collect();
    wait_for(&format!("exactly {wanted:?} to need somebody"), PATIENCE, async || {
        let attention = look(fleet, arguments);
        if found(&attention) == wanted { Ok(attention) } else { Err(attention.to_string()) }
    })
    .await
}

/// The command of the first condition that begins so, as it is printed.
fn printed(attention: &Value, beginning: &str) -> String {
    let remedy = attention["conditions"][0]["remedy"]["command_line"].as_str().unwrap();
    let found = remedy.split(ALTERNATIVE).find(|command| command.starts_with(beginning));
    found.unwrap_or_else(|| panic!("no {beginning} in {remedy}")).to_owned()
}

const AGENTS: &str = r#"
[agents.doubter]
script = "tenure effect push -- false || true"
[agents.spender]
script = '[ "$TENURE_RUN" -ge 2 ] || exit 3'
limits = { runs = 1 }
recovery = { backoff = { first = "1ms", max = "1ms" } }
[agents.crasher]
script = '[ "$TENURE_RUN" -ge 2 ] || exit 3'
recovery = { policy = "manual" }
[agents.lander]
script = '''
tenure effect push --undo true -- true
[ "$TENURE_RUN" -ge 2 ] || exit 65
'''
final-exit-codes = [65]
[agents.failer]
script = "exit 65"
final-exit-codes = [65]
[agents.waiter]
script = 'tenure wait --until 1s --job "$(cat "$TENURE_INPUT")"'
[agents.moon]
command = ["true"]
requires = ["moon"]
[agents.sitter]
script = '[ -s "$TENURE_BRIEF" ] || tenure set-down --until 2s --waiting-for "the tide"'
[agents.sleeper]
command = ["sleep", "600"]
stop-grace = "1s"
[agents.worker]
command = ["true"]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_stopped_needs_somebody_until_the_printed_command_has_answered_it() {
    let fleet = Fleet::start(AGENTS, &[("w1", &["--slots", "8"])]).await;
    assert_eq!(found(&look(&fleet, &[])), []);
    let failed = fleet.submit("failer", "");
    fleet.wait_for_state(failed, "failed").await;
    let cases: [(&str, &str, Option<&str>, &str, &str); 7] = [
        ("doubter", "job.quarantined", None, "tenure abandon", "abandoned"),
        ("spender", "job.exhausted", Some("runs"), "tenure resume", "succeeded"),
        ("spender", "job.exhausted", None, "tenure cancel", "cancelled"),
        ("crasher", "job.interrupted", None, "tenure recover", "succeeded"),
        ("crasher", "job.interrupted", None, "tenure abandon", "abandoned"),
        ("lander", "job.failed_with_landed_work", None, "tenure resume", "succeeded"),
        ("lander", "job.failed_with_landed_work", None, "tenure cancel", "cancelled"),
    ];
    for (agent, kind, raised, command, becomes) in cases {
        let job = fleet.submit(agent, "");
        // The failed job, which did nothing that stands, is not among them.
        let attention = wait_for_found(&fleet, &[], &[(kind, &[job.to_string()])]).await;
        let condition = &attention["conditions"][0];
        assert_eq!((&condition["found"], &condition["at_least"]), (&1.into(), &false.into()), "{attention}");
        // What shows more is run, too, as it is printed.
        let remedy = condition["remedy"]["command_line"].as_str().unwrap();
        for shows in remedy.split(ALTERNATIVE).filter(|command| !command.contains("--why")) {
            run_in_shell(&fleet, shows);
        }
        if let Some(limit) = raised {
            fleet.cluster.run(&["raise", &job.to_string(), limit, "5", "--why", "test"]).unwrap();
        }
        run_in_shell(&fleet, &printed(&attention, command));
        fleet.wait_for_state(job, becomes).await;
        wait_for_found(&fleet, &[], &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_no_attached_worker_is_offered_needs_somebody_until_such_a_worker_is_there() {
    let mut fleet = Fleet::start(AGENTS, &[("w1", &["--slots", "8"])]).await;
    let moon = fleet.submit("moon", "");
    let subjects = [moon.to_string()];
    let at_once = ["--unclaimable-after", "0s"];
    assert_eq!(found(&look(&fleet, &[])), [], "it has not waited for long");
    let attention = wait_for_found(&fleet, &at_once, &[("job.unclaimable", &subjects)]).await;
    assert!(printed(&attention, "no verb: start a worker").contains("labels"), "{attention}");
    fleet.cluster.start_worker("w2", &["--label", "moon"]).unwrap();
    fleet.wait_for_state(moon, "succeeded").await;
    wait_for_found(&fleet, &at_once, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_expired_goes_on_with_the_printed_command() {
    let fleet = Fleet::start(AGENTS, &[("w1", &["--slots", "8"])]).await;
    let sleeper = fleet.submit("sleeper", "");
    let waiter = fleet.submit("waiter", &sleeper.to_string());
    let subjects = [waiter.to_string()];
    let attention = wait_for_found(&fleet, &[], &[("job.wait_expired", &subjects)]).await;
    let runs = |kinds: &[String]| kinds.iter().filter(|kind| *kind == "run_started").count();
    let before = runs(&fleet.kinds(waiter).await);
    run_in_shell(&fleet, &printed(&attention, "tenure resume"));
    // It reaches the wait and arms it again.
    wait_for("another run of it", PATIENCE, async || {
        let kinds = fleet.kinds(waiter).await;
        if runs(&kinds) > before { Ok(()) } else { Err(kinds) }
    })
    .await;
    let attention = wait_for_found(&fleet, &[], &[("job.wait_expired", &subjects)]).await;
    run_in_shell(&fleet, &printed(&attention, "tenure cancel"));
    wait_for_found(&fleet, &[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pick_up_that_is_refused_and_a_halt_that_stands_for_long_need_somebody_until_the_halt_is_lifted() {
    let fleet = Fleet::start(AGENTS, &[("w1", &["--slots", "8"])]).await;
    let sitter = fleet.submit("sitter", "");
    fleet.wait_for_state(sitter, "succeeded").await;
    fleet.cluster.run(&["halt", "agent", "sitter", "--why", "test"]).unwrap();
    let attention = wait_for_found(&fleet, &[], &[("layover.refused", &[sitter.to_string()])]).await;
    printed(&attention, "no verb: mend what refused it");
    let attention = look(&fleet, &["--halt-after", "0s"]);
    let kinds: Vec<String> = found(&attention).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["layover.refused", "halt.standing"], "{attention}");
    let lift = attention["conditions"][1]["remedy"]["command_line"].as_str().unwrap();
    run_in_shell(&fleet, lift);
    wait_for_found(&fleet, &["--halt-after", "0s"], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_nobody_takes_over_is_named_with_the_reason_that_no_verb_answers_it() {
    let fleet = Fleet::start(AGENTS, &[("w1", &[])]).await;
    let sleeper = fleet.submit("sleeper", "");
    fleet.wait_for_state(sleeper, "running").await;
    assert_eq!(found(&look(&fleet, &[])), []);
    // As if the sweep did nothing for an hour.
    let later = (Timestamp::now() + SignedDuration::from_hours(1)).to_string();
    let attention = look(&fleet, &["--at", &later]);
    assert_eq!(found(&attention), [("job.abandoned_lease".to_owned(), vec![sleeper.to_string()])]);
    printed(&attention, "no verb: the sweep");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_healthy_jobs_need_nobody() {
    let fleet = Fleet::start(AGENTS, &[("w1", &["--slots", "16"])]).await;
    let batch = fleet.cluster.directory().join("batch");
    let line = r#"{"agent":"worker","input":""}"#;
    std::fs::write(&batch, format!("{line}\n").repeat(1_000)).unwrap();
    fleet.cluster.run(&["submit", "--batch", batch.to_str().unwrap()]).unwrap();
    wait_for("all of them to be done", PATIENCE * 3, async || {
        assert_eq!(found(&look(&fleet, &[])), []);
        let row: (i64,) = sqlx::query_as("SELECT count(*) FROM jobs WHERE state = 'succeeded'")
            .fetch_one(&fleet.cluster.database)
            .await
            .unwrap();
        if row.0 == 1_000 { Ok(()) } else { Err(row.0) }
    })
    .await;
    assert_eq!(found(&look(&fleet, &[])), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_full_says_that_there_may_be_more() {
    let fleet = Fleet::start(AGENTS, &[("w1", &["--slots", "16"])]).await;
    let jobs: Vec<Uuid> = (0..12).map(|_| fleet.submit("doubter", "")).collect();
    for job in &jobs {
        fleet.wait_for_state(*job, "quarantined").await;
    }
    for (page, number, at_least, unlisted) in [("2", 2, true, 0), ("12", 12, true, 2), ("13", 12, false, 2)] {
        let attention = look(&fleet, &["--page", page]);
        let condition = &attention["conditions"][0];
        assert_eq!(condition["found"], number, "{attention}");
        assert_eq!(condition["at_least"], at_least, "{attention}");
        assert_eq!(condition["unlisted"], unlisted, "{attention}");
    }
    for page in ["0", "10001"] {
        let refused = fleet.try_run(&["attention", "--page", page]);
        assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_prints_what_there_is_and_again_when_it_changes() {
    let fleet = Fleet::start(AGENTS, &[("w1", &[])]).await;
    let mut watch = fleet.cluster.tenure(&["--json", "attention", "--watch", "--every", "200ms"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(found(&next()), []);
    let job = fleet.submit("doubter", "");
    assert_eq!(found(&next()), [("job.quarantined".to_owned(), vec![job.to_string()])]);
    fleet.cluster.run(&["abandon", &job.to_string(), "--why", "test"]).unwrap();
    assert_eq!(found(&next()), []);
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_that_does_not_answer_is_not_one_that_needs_nobody() {
    let fleet = Fleet::start(AGENTS, &[]).await;
    let output = fleet.cluster.tenure_at("http://127.0.0.1:9", &["attention"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
}
