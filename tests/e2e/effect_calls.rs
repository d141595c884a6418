//! A call of `tenure effect` that goes wrong around its command: signals, a reader that does not read, its own key.

use std::fs;

use tenure_testkit::wait_for;

use crate::fixture::{Fleet, PATIENCE};

const QUICK: &[&str] = &["--slots", "2", "--ttl", "5s"];

async fn start(agents: &str) -> Fleet {
    Fleet::start(agents, &[("w1", QUICK)]).await
}

fn lines(fleet: &Fleet, name: &str) -> Vec<String> {
    let text = fs::read_to_string(fleet.shared().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_a_signal_ends_is_no_verdict_and_the_next_call_probes_again() {
    let fleet = start(
        r#"
[agents.prober]
script = '''
for probe in 'echo probing >> SHARED/probing; sleep 600' 'trap "exit 143" TERM; echo probing >> SHARED/probing; while :; do sleep 0.05; done'; do
  rm -f SHARED/probing
  tenure effect k --probe "$probe" -- sh -c 'exit 3' &
  while [ ! -s SHARED/probing ]; do sleep 0.05; done
  kill -TERM $!
  wait $! && said=0 || said=$?
  echo "$said" >> SHARED/codes
done
tenure effect k --probe 'echo found' -- sh -c 'exit 3' > SHARED/out
'''
"#,
    )
    .await;
    let job = fleet.submit("prober", "");
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(lines(&fleet, "codes"), ["3", "125"], "the command's own where it ran");
    assert_eq!(lines(&fleet, "out"), ["found"]);
    let mut kinds = fleet.kinds(job).await;
    kinds.retain(|kind| kind.starts_with("effect_"));
    assert_eq!(kinds, ["effect_started", "effect_reconciled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_hangs_or_talks_nonsense_is_no_verdict_and_a_person_is_asked() {
    let fleet = start(
        r#"
[agents.garbling]
script = """tenure effect k --probe 'head -c 300000 /dev/urandom; exit 3' -- sh -c 'exit 3'"""

[agents.hanging]
script = """tenure effect k --probe 'echo probing >> SHARED/hanging; sleep 600' -- sh -c 'exit 3'"""
"#,
    )
    .await;
    for agent in ["garbling", "hanging"] {
        let job = fleet.submit(agent, "");
        fleet.wait_for_state(job, "quarantined").await;
        let mut kinds = fleet.kinds(job).await;
        kinds.retain(|kind| kind.starts_with("effect_"));
        assert_eq!(kinds, ["effect_started", "effect_reconciled"], "{agent}: found out nothing, and said so");
    }
    assert_eq!(lines(&fleet, "hanging"), ["probing"], "it was ended, and not asked a second time by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_not_run_again_once_its_call_was_asked_to_stop() {
    let fleet = start(
        r#"
[agents.reader]
script = '''
tenure effect k --read-only -- sh -c '
  echo try >> SHARED/tries
  trap "exit 3" TERM
  while :; do sleep 0.05; done' &
while [ ! -s SHARED/tries ]; do sleep 0.05; done
kill -TERM $!
wait $! && said=0 || said=$?
echo "$said" >> SHARED/codes
'''
"#,
    )
    .await;
    let job = fleet.submit("reader", "");
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(lines(&fleet, "tries"), ["try"]);
    assert_ne!(lines(&fleet, "codes"), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_is_recorded_while_nobody_reads_the_stderr_of_its_call() {
    let fleet = start(
        r#"
[agents.talker]
script = '''
mkfifo SHARED/fifo
sleep 600 < SHARED/fifo &
reader=$!
tenure effect k -- sh -c 'head -c 200000 /dev/zero >&2; echo out' > SHARED/out 2> SHARED/fifo &
while [ ! -e SHARED/go ]; do sleep 0.05; done
kill -TERM $!
wait $!
kill $reader
'''
"#,
    )
    .await;
    let job = fleet.submit("talker", "");
    wait_for("the outcome to be recorded", PATIENCE, async || {
        let kinds = fleet.kinds(job).await;
        if kinds.iter().any(|kind| kind == "effect_done") { Ok(()) } else { Err(kinds) }
    })
    .await;
    fs::write(fleet.shared().join("go"), "").unwrap();
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(lines(&fleet, "out"), ["out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_of_an_effect_cannot_ask_for_its_own_key() {
    let fleet = start(
        r#"
[agents.nester]
script = '''
tenure effect outer -- sh -c '
  tenure effect outer -- true && said=0 || said=$?
  echo "$said" >> SHARED/codes
  tenure effect inner -- true'
'''
"#,
    )
    .await;
    let job = fleet.submit("nester", "");
    fleet.wait_for_state(job, "succeeded").await;
    assert_eq!(lines(&fleet, "codes"), ["125"]);
}
