//! What people ask of jobs: each verb in each state, as the table has it, and the commands that are printed for whoever was
//! called in, run by a shell as they are printed.

use std::fmt::Write as _;

use tenure_core::{
    job::State,
    verb::{Permission, Verb, allowed},
};
use tenure_testkit::wait_for;
use uuid::Uuid;

use crate::fixture::{Fleet, PATIENCE, refusal_code, run_in_shell, wait_for_line};

/// States that nothing in this release brings a job to.
const UNREACHED: &[State] = &[State::Withheld, State::Expired];

const AGENTS: &str = r#"
[agents.moon]
command = ["true"]
requires = ["moon"]
[agents.sleeper]
command = ["sleep", "600"]
stop-grace = "1s"
[agents.crasher]
script = "exit 3"
recovery = { policy = "manual" }
[agents.failer]
script = "exit 65"
final-exit-codes = [65]
[agents.doubter]
script = "tenure effect push -- false || true"
[agents.waiter]
script = "tenure wait --until 10m"
[agents.worker]
command = ["true"]
"#;

fn agent_for(state: State) -> &'static str {
    match state {
        State::Ready | State::Exhausted | State::Cancelled | State::Abandoned => "moon",
        State::Running => "sleeper",
        State::Interrupted => "crasher",
        State::Failed => "failer",
        State::Quarantined => "doubter",
        State::Suspended => "waiter",
        State::Succeeded => "worker",
        State::Withheld | State::Expired => unreachable!("nothing brings a job there"),
    }
}

/// A job that is on its way to this state.
fn begin(fleet: &Fleet, state: State) -> Uuid {
    let mut arguments = vec!["submit", agent_for(state), "--input", ""];
    if state == State::Exhausted {
        arguments.extend(["--deadline", "1s"]);
    }
    let job: Uuid = fleet.cluster.run(&arguments).unwrap().trim().parse().unwrap();
    let seal = |verb: &str| fleet.cluster.run(&[verb, &job.to_string(), "--why", "test"]).unwrap();
    match state {
        State::Cancelled => drop(seal("cancel")),
        State::Abandoned => drop(seal("abandon")),
        _ => {}
    }
    job
}

fn command_of(verb: Verb, job: &str) -> Vec<String> {
    let more: &[&str] = match verb {
        Verb::ConfirmGone => &["--epoch", "1"],
        Verb::Reconcile => &["push", "--not-done"],
        Verb::Cancel | Verb::Recover | Verb::Resume | Verb::Reopen | Verb::Abandon => &[],
        // Its note is its reason.
        Verb::Steer => return ["--json", "steer", job, "the other branch"].map(str::to_owned).to_vec(),
    };
    let words = ["--json", verb.name(), job].into_iter().chain(more.iter().copied()).chain(["--why", "test"]);
    words.map(str::to_owned).collect()
}

/// `yes`, or the code of the refusal, which leaves the journal as it was.
async fn ask(fleet: &Fleet, job: Uuid, state: State, verb: Verb) -> String {
    let before = fleet.kinds(job).await;
    let arguments = command_of(verb, &job.to_string());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = fleet.try_run(&arguments);
    if output.status.success() {
        assert_ne!(fleet.kinds(job).await, before, "{verb:?} of a job that is {state} left nothing behind");
        return "yes".to_owned();
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(state.name()), "{verb:?} of a job that is {state}: {said}");
    assert_eq!(fleet.kinds(job).await, before, "{verb:?} of a job that is {state} was refused, and wrote");
    refusal_code(&output)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_in_every_state_is_answered_as_the_table_says() {
    let fleet = Fleet::start(AGENTS, &[("w1", &["--slots", "16"])]).await;
    let mut table = String::new();
    for state in State::ALL.iter().copied().filter(|state| !UNREACHED.contains(state)) {
        let jobs: Vec<(Verb, Uuid)> = Verb::ALL.iter().map(|verb| (*verb, begin(&fleet, state))).collect();
        writeln!(table, "{state}").unwrap();
        for (verb, job) in jobs {
            fleet.wait_for_state(job, state.name()).await;
            let answer = ask(&fleet, job, state, verb).await;
            // A wait that is there, and one that expired: the tests of waits.
            let granted =
                allowed(state, verb) != Permission::WhereWaitExpired && allowed(state, verb).is_granted();
            assert_eq!(answer != "VERB_NOT_ALLOWED", granted, "{verb:?} of a job that is {state}: {answer}");
            writeln!(table, "    {:<12} {answer}", verb.name()).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

/// The commands that `tenure undecided` prints.
fn printed_by_undecided(fleet: &Fleet, job: Uuid) -> Vec<String> {
    let shown = fleet.cluster.run(&["undecided", &job.to_string()]).unwrap();
    shown
        .lines()
        .filter_map(|line| line.strip_prefix("  tenure "))
        .map(|line| format!("tenure {line}"))
        .collect()
}

/// The commands in the third line of `tenure job`.
fn printed_by_job(fleet: &Fleet, job: Uuid) -> Vec<String> {
    let shown = fleet.cluster.run(&["job", &job.to_string()]).unwrap();
    let next = shown.lines().nth(2).unwrap().strip_prefix("next: ").unwrap();
    next.split("   or: ").map(str::to_owned).collect()
}

fn that_begins(commands: &[String], beginning: &str) -> String {
    let found = commands.iter().find(|command| command.starts_with(beginning));
    found.unwrap_or_else(|| panic!("no {beginning} among {commands:#?}")).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_that_are_printed_settle_what_they_name_when_a_shell_runs_them_as_printed() {
    let agents = r#"
[agents.doubter]
script = '''
tenure effect "it's \$HOME & more" -- false || true
tenure effect mail/1 -- false || true
exit 65
'''
final-exit-codes = [65]
"#;
    let fleet = Fleet::start(agents, &[("w1", &["--slots", "4"])]).await;
    let job = fleet.submit("doubter", "");
    fleet.wait_for_state(job, "quarantined").await;
    let undecided = that_begins(&printed_by_job(&fleet, job), "tenure undecided");
    let shown = run_in_shell(&fleet, &undecided);
    assert!(shown.contains("it's $HOME & more") && shown.contains("mail/1"), "{shown}");
    for (done, left) in [(true, 1), (false, 0)] {
        let answers = printed_by_undecided(&fleet, job);
        let wanted = if done { " --done VALUE" } else { " --not-done" };
        let answer = answers.iter().find(|command| command.contains(wanted)).unwrap();
        run_in_shell(&fleet, answer);
        let answers = printed_by_undecided(&fleet, job);
        let still = answers.iter().filter(|command| command.starts_with("tenure reconcile")).count();
        assert_eq!(still, 2 * left, "{answers:?}");
    }
    run_in_shell(&fleet, &that_begins(&printed_by_undecided(&fleet, job), "tenure reopen"));
    fleet.wait_for_state(job, "failed").await;
    run_in_shell(&fleet, &that_begins(&printed_by_job(&fleet, job), "tenure resume"));
    // Its effects are answered by now: one is read back, and the other one fails again, in doubt.
    wait_for("the second run to end", PATIENCE, async || {
        let kinds = fleet.kinds(job).await;
        let decided = kinds.iter().filter(|kind| *kind == "quarantine_decided").count();
        if decided == 2 { Ok(()) } else { Err(kinds) }
    })
    .await;
    run_in_shell(&fleet, &that_begins(&printed_by_job(&fleet, job), "tenure abandon"));
    fleet.wait_for_state(job, "abandoned").await;
    fleet.cluster.run(&["verify", &job.to_string()]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_says_that_an_effect_returned_is_read_back_byte_for_byte() {
    let agents = r#"
[agents.pusher]
script = '''
tenure effect push -- sh -c "echo tried >> SHARED/tried; false" > "SHARED/out-$TENURE_RUN"
'''
"#;
    let fleet = Fleet::start(agents, &[("w1", &[])]).await;
    let value = fleet.shared().join("value");
    std::fs::write(&value, b"abc\xff\n\n").unwrap();
    for (given, before) in [("-", format!("cat {} | ", value.display())), ("@FILE", String::new())] {
        let job = fleet.submit("pusher", "");
        fleet.wait_for_state(job, "quarantined").await;
        let given = given.replace("FILE", value.to_str().unwrap());
        run_in_shell(&fleet, &format!("{before}tenure reconcile {job} push --done '{given}' --why looked"));
        run_in_shell(&fleet, &format!("tenure reopen {job} --why answered"));
        fleet.wait_for_state(job, "succeeded").await;
        assert_eq!(std::fs::read(fleet.shared().join("out-2")).unwrap(), b"abc\xff\n\n");
    }
    assert_eq!(std::fs::read_to_string(fleet.shared().join("tried")).unwrap().lines().count(), 2);
}

/// Whether a process of this command line is on this host, whatever namespace it is in.
fn is_there(command_line: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| line == command_line.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_given_up_has_its_child_ended_and_nothing_undone() {
    let agents = r#"
[agents.sleeper]
stop-grace = "1s"
script = '''
tenure effect push --undo 'echo undone >> SHARED/undone' -- true
trap '' TERM
echo here > SHARED/child
sleep SECONDS & wait; sleep SECONDS
'''
"#;
    // No other process on this host has this command line.
    let seconds = (1_000_000 + std::process::id()).to_string();
    let line = format!("sleep\0{seconds}\0");
    let fleet = Fleet::start(&agents.replace("SECONDS", &seconds), &[("w1", &[])]).await;
    let job = fleet.submit("sleeper", "");
    wait_for_line(&fleet.shared().join("child")).await;
    wait_for(
        "the child to sleep",
        PATIENCE,
        async || if is_there(&line) { Ok(()) } else { Err("it is not there") },
    )
    .await;
    let answer = fleet.cluster.run(&["abandon", &job.to_string(), "--why", "not worth it"]).unwrap();
    assert!(answer.contains("will be given up once its child has ended"), "{answer}");
    fleet.wait_for_state(job, "abandoned").await;
    assert!(!is_there(&line), "its child is gone before the job is sealed");
    let kinds = fleet.kinds(job).await;
    assert_eq!(kinds[kinds.len() - 3..], ["abandon_requested", "child_gone", "job_concluded"]);
    assert!(!fleet.shared().join("undone").exists());
}
