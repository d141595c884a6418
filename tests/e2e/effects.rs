//! Effects from a shell: what a run announced is performed once, however its run ends, or it is named as in doubt.

use std::fs;

use tenure_testkit::{Ledger, Proxy, Treatment, wait_for};
use uuid::Uuid;

use crate::fixture::{Fleet, PATIENCE, wait_for_line};

const QUICK: &[&str] = &["--slots", "2", "--ttl", "5s"];

async fn start(agents: &str) -> Fleet {
    Fleet::start(agents, &[("w1", QUICK), ("w2", QUICK)]).await
}

/// The lines of a file that tests and agents share.
fn lines(fleet: &Fleet, name: &str) -> Vec<String> {
    let text = fs::read_to_string(fleet.shared().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The kinds of the job's records about effects, in order.
async fn effect_records(fleet: &Fleet, job: Uuid) -> Vec<String> {
    fleet.kinds(job).await.into_iter().filter(|kind| kind.starts_with("effect_")).collect()
}

/// Kills the worker that holds the job once a file has a line.
async fn kill_holder_after(fleet: &mut Fleet, job: Uuid, trace: &str) {
    wait_for_line(&fleet.shared().join(trace)).await;
    let holder = fleet.wait_for_holder(job).await;
    fleet.cluster.kill_worker(&holder, &[]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_run_did_the_next_one_reads_back() {
    let fleet = start(
        r#"
[agents.pusher]
script = '''
tenure effect push -- sh -c 'echo pushed >> SHARED/world; printf "over\nthere"' > "SHARED/out-$TENURE_RUN"
[ "$TENURE_RUN" = 2 ] || exit 3
'''
recovery = { max-attempts = 1, backoff = { first = "10ms", max = "10ms" } }
"#,
    )
    .await;
    let job = fleet.submit("pusher", "");
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(lines(&fleet, "world"), ["pushed"]);
    let outputs = ["out-1", "out-2"].map(|name| fs::read_to_string(fleet.shared().join(name)).unwrap());
    assert_eq!(outputs, ["over\nthere", "over\nthere"], "byte for byte");
    assert_eq!(effect_records(&fleet, job).await, ["effect_started", "effect_done"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotent_effect_whose_worker_is_killed_is_performed_again_under_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Ledger::start(&directory.path().join("ledger.jsonl")).await.unwrap();
    let agents = r#"
[agents.announcer]
script = '''
tenure effect announce --idempotent -- sh -c '
  tenure-ledger post --url URL --key "$TENURE_IDEMPOTENCY_KEY" --text released
  echo posted >> SHARED/posted
  [ "$TENURE_RUN" = 2 ] || sleep 600'
'''
"#;
    let mut fleet = start(&agents.replace("URL", &ledger.url())).await;
    let job = fleet.submit("announcer", "");
    kill_holder_after(&mut fleet, job, "posted").await;
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(lines(&fleet, "posted").len(), 2, "it was tried twice");
    let entries = ledger.entries().unwrap();
    assert_eq!(entries.len(), 1, "and took effect once: {entries:?}");
    assert_eq!(entries[0].key.as_deref(), Some(&*format!("{job}/announce")));
    assert_eq!(
        effect_records(&fleet, job).await,
        ["effect_started", "effect_done"],
        "under one announcement"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_finds_out_what_a_killed_worker_did() {
    let mut fleet = start(
        r#"
[agents.prober]
script = '''
tenure effect push --probe 'grep -q landed SHARED/world && cat SHARED/world || exit 10' -- sh -c '
  [ "$(cat "$TENURE_INPUT")" = before ] || echo landed >> SHARED/world
  echo here >> SHARED/here
  [ "$TENURE_RUN" = 2 ] || sleep 600
  echo landed >> SHARED/world' >> SHARED/out
'''
"#,
    )
    .await;
    let job = fleet.submit("prober", "after");
    kill_holder_after(&mut fleet, job, "here").await;
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(
        (lines(&fleet, "world"), lines(&fleet, "out")),
        (vec!["landed".into()], vec!["landed".into()])
    );
    assert_eq!(effect_records(&fleet, job).await, ["effect_started", "effect_reconciled"]);
    fs::remove_file(fleet.shared().join("world")).unwrap();
    fs::remove_file(fleet.shared().join("here")).unwrap();
    fleet.cluster.start_worker("w3", QUICK).unwrap();

    let job = fleet.submit("prober", "before");
    kill_holder_after(&mut fleet, job, "here").await;
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(lines(&fleet, "world"), ["landed"], "it had not happened, and happened once");
    let records = ["effect_started", "effect_reconciled", "effect_started", "effect_done"];
    assert_eq!(effect_records(&fleet, job).await, records);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_but_a_person_can_decide_sets_the_job_aside_and_is_listed() {
    let mut fleet = start(
        r#"
[agents.asker]
script = '''
tenure effect mail/1 -- sh -c 'echo here >> SHARED/here; sleep 600'
'''
"#,
    )
    .await;
    let job = fleet.submit("asker", "");
    kill_holder_after(&mut fleet, job, "here").await;
    fleet.wait_for_state(job, "quarantined").await;
    assert_eq!(lines(&fleet, "here").len(), 1, "nobody tried it again");
    let run = |arguments: &[&str]| fleet.cluster.run(arguments).unwrap();
    let id = job.to_string();
    assert!(run(&["jobs", "--state", "quarantined"]).contains(&id[id.len() - 6..]));
    let first_lines: Vec<String> = run(&["job", &id]).lines().take(3).map(str::to_owned).collect();
    assert!(first_lines[0].contains("mail/1"), "{first_lines:?}");
    assert!(first_lines[2].contains("tenure undecided"), "{first_lines:?}");
    let undecided: serde_json::Value = serde_json::from_str(&run(&["--json", "undecided", &id])).unwrap();
    assert_eq!(undecided["effects"][0]["key"], "mail/1", "{undecided}");
    assert_eq!(undecided["effects"][0]["undecided"], true, "{undecided}");
    assert!(run(&["undecided", &id]).contains("mail/1"));
    let effects = run(&["effects", &id]);
    assert!(effects.contains("mail/1") && effects.contains("no outcome"), "{effects}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_is_told_by_exit_codes_what_came_of_an_effect() {
    let fleet = start(
        r#"
[agents.coder]
script = '''
code() { "$@" && said=0 || said=$?; echo "$said" >> SHARED/codes; }
code tenure effect fails -- sh -c 'exit 7'
code tenure effect fails -- true
code tenure effect reads --read-only -- sh -c 'exit 8'
code tenure effect missing --read-only -- /no/such/command
code tenure effect killed --on-failure landed -- sh -c 'kill -TERM $$'
code tenure effect killed -- true
code tenure effect done -- true
code tenure effect done --bind -- false
code env -u TENURE_SOCKET tenure effect done -- true
code tenure effect both --undo a --pivot -- true
exit 65
'''
final-exit-codes = [65]
"#,
    )
    .await;
    let job = fleet.submit("coder", "");
    // One effect is in doubt, so this is what an end becomes.
    fleet.wait_for_state(job, "quarantined").await;
    let codes = ["7", "125", "8", "127", "143", "1", "0", "125", "2", "2"];
    assert_eq!(lines(&fleet, "codes"), codes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_that_holds_the_output_is_waited_for_and_then_ended() {
    let fleet = start(
        r#"
[agents.holder]
stop-grace = "1s"
script = '''
tenure effect k -- sh -c 'sleep 600 & echo $! > SHARED/pid; echo out' > SHARED/out
while kill -0 "$(cat SHARED/pid)" 2>/dev/null; do sleep 0.05; done
'''
"#,
    )
    .await;
    let job = fleet.submit("holder", "");
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(lines(&fleet, "out"), ["out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_tenure_effect_takes_its_command_along_and_the_next_call_settles_it() {
    let fleet = start(
        r#"
[agents.killer]
script = '''
perform() {
  exec tenure effect k --idempotent -- sh -c '
    echo started >> SHARED/started
    sleep 600 > /dev/null 2>&1 &
    [ -e SHARED/second ] && exit 0
    wait
    echo survived >> SHARED/survived'
}
(perform) &
while [ ! -s SHARED/started ]; do sleep 0.05; done
touch SHARED/second
kill -KILL $!
(perform)
'''
"#,
    )
    .await;
    let job = fleet.submit("killer", "");
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(lines(&fleet, "started").len(), 2);
    assert!(lines(&fleet, "survived").is_empty());
    assert_eq!(effect_records(&fleet, job).await, ["effect_started", "effect_done"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_the_command_and_its_outcome_is_taken_during_the_grace() {
    let fleet = start(
        r#"
[agents.worker]
stop-grace = "20s"
script = '''
trap : TERM
tenure effect k --on-failure did-not-happen -- sh -c '
  trap "echo term >> SHARED/term; exit 3" TERM
  echo started >> SHARED/started
  while :; do sleep 0.05; done' &
wait || wait || true
tenure effect late -- sh -c 'echo late >> SHARED/late'
'''
"#,
    )
    .await;
    let job = fleet.submit("worker", "");
    wait_for_line(&fleet.shared().join("started")).await;
    fleet.cluster.run(&["cancel", &job.to_string(), "--why", "test"]).unwrap();
    fleet.wait_for_state(job, "cancelled").await;
    // Its guardian signals every process of a run, and what `tenure effect` hears it passes on.
    assert!(lines(&fleet, "term").contains(&"term".to_owned()));
    assert!(lines(&fleet, "late").is_empty(), "nothing is begun under a cancel");
    assert_eq!(effect_records(&fleet, job).await, ["effect_started", "effect_failed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_ignores_the_signal_is_finished_when_its_run_is_asked_to_end() {
    let fleet = start(
        r#"
[agents.shielder]
stop-grace = "120s"
script = '''
sh -c 'trap "echo term >> SHARED/term; exit" TERM; echo up >> SHARED/up; while :; do sleep 0.05; done' &
while [ ! -s SHARED/up ]; do sleep 0.05; done
trap '' TERM
tenure effect k --no-undo -- sh -c '
  echo started >> SHARED/started
  while [ ! -e SHARED/go ]; do sleep 0.05; done'
'''
"#,
    )
    .await;
    let job = fleet.submit("shielder", "");
    wait_for_line(&fleet.shared().join("started")).await;
    fleet.cluster.run(&["cancel", &job.to_string(), "--why", "test"]).unwrap();
    wait_for_line(&fleet.shared().join("term")).await;
    std::fs::write(fleet.shared().join("go"), "").unwrap();
    fleet.wait_for_state(job, "cancelled").await;
    assert_eq!(effect_records(&fleet, job).await, ["effect_started", "effect_done"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_outlives_the_loss_of_the_coordinator() {
    let mut fleet = start(
        r#"
[agents.pusher]
script = '''
tenure effect push -- sh -c '
  echo started >> SHARED/started
  while [ ! -e SHARED/go ]; do sleep 0.05; done
  echo pushed >> SHARED/world'
'''
"#,
    )
    .await;
    let job = fleet.submit("pusher", "");
    wait_for_line(&fleet.shared().join("started")).await;
    fleet.cluster.kill_coordinator("c1").unwrap();
    fs::write(fleet.shared().join("go"), "").unwrap();
    wait_for_line(&fleet.shared().join("world")).await;
    fleet.cluster.restart_coordinator("c1").await.unwrap();
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(lines(&fleet, "world"), ["pushed"]);
    assert_eq!(effect_records(&fleet, job).await, ["effect_started", "effect_done"], "it is no doubt");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_never_asked_for_again_are_warned_about() {
    let fleet = start(
        r#"
[agents.dater]
script = '''
tenure effect "mail/run-$TENURE_RUN" --no-undo -- true
[ "$TENURE_RUN" = 2 ] || exit 3
'''
recovery = { max-attempts = 1, backoff = { first = "10ms", max = "10ms" } }
"#,
    )
    .await;
    let job = fleet.submit("dater", "");
    fleet.wait_for_state(job, "succeeded").await;
    let kinds = fleet.kinds(job).await;
    assert!(kinds.contains(&"effects_unasked".to_owned()), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_arrives_after_its_run_was_fenced_is_kept_as_testimony() {
    let agents = r#"
[agents.mailer]
script = '''
tenure effect mail -- sh -c '
  echo started >> SHARED/started
  while [ ! -e SHARED/go ]; do sleep 0.05; done
  echo sent
  echo sent >> SHARED/sent'
'''
"#;
    let mut fleet = Fleet::start(agents, &[]).await;
    let coordinator = fleet.cluster.coordinator_address("c1").unwrap();
    let proxy = Proxy::start(coordinator).await.unwrap();
    fleet.cluster.start_worker_at("w1", &proxy.endpoint(), QUICK).unwrap();
    let job = fleet.submit("mailer", "");
    wait_for_line(&fleet.shared().join("started")).await;
    proxy.treat(Treatment::Refuse);
    proxy.cut();
    fs::write(fleet.shared().join("go"), "").unwrap();
    wait_for_line(&fleet.shared().join("sent")).await;
    fleet.wait_for_state(job, "quarantined").await;
    proxy.treat(Treatment::Pass);
    let undecided = wait_for("the outcome to arrive", PATIENCE, async || {
        let shown = fleet.cluster.run(&["--json", "undecided", &job.to_string()]).unwrap();
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        if shown["testimonies"][0].is_object() { Ok(shown) } else { Err(shown) }
    })
    .await;
    let said = &undecided["testimonies"][0];
    assert_eq!((&said["key"], &said["state"]), (&"mail".into(), &"done".into()), "{undecided}");
    assert_eq!(undecided["effects"][0]["undecided"], true, "it decides nothing: {undecided}");
    assert!(fleet.cluster.run(&["undecided", &job.to_string()]).unwrap().contains("SAID TOO LATE"));
}
