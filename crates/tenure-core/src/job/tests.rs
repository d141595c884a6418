//! The whole matrix of states and events, as a snapshot.

use super::*;
use crate::id::Epoch;

#[test]
fn what_every_event_makes_of_every_state() {
    let mut table = String::new();
    for event in Event::all() {
        table.push_str(&format!("{event}\n"));
        for state in State::ALL {
            let next = match apply(*state, event) {
                Ok(next) => next.to_string(),
                Err(refusal) => format!("- {}", refusal.reason.code()),
            };
            table.push_str(&format!("    {:<12} {next}\n", state.name()));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_sealed_job_takes_nothing_more() {
    for state in State::ALL.iter().filter(|state| state.is_sealed()) {
        for event in Event::all() {
            assert!(apply(*state, event).is_err(), "{state} {event}");
        }
    }
}

#[test]
fn a_refusal_names_the_state_and_what_was_wanted() {
    let refusal = apply(State::Failed, Event::Claimed).unwrap_err();
    assert_eq!(refusal.message, "a job that is failed cannot be claimed");
    assert_eq!(refusal.details["state"], "failed");
}

#[test]
fn states_read_back_what_they_print_and_others_are_refused() {
    for state in State::ALL {
        assert_eq!(State::parse(state.name()), Ok(*state));
        assert_eq!(serde_json::to_value(state).unwrap(), state.name());
    }
    for unknown in ["", "Ready", "paused"] {
        assert_eq!(State::parse(unknown), Err(UnknownState { given: unknown.to_owned() }));
    }
}

#[test]
fn unfinished_are_ready_running_suspended_interrupted_exhausted_withheld_and_quarantined() {
    let unfinished: Vec<_> =
        State::ALL.iter().filter(|state| state.is_unfinished()).map(|state| state.name()).collect();
    assert_eq!(
        unfinished,
        ["ready", "running", "suspended", "interrupted", "exhausted", "withheld", "quarantined"]
    );
}

#[test]
fn which_commands_go_on_from_every_state() {
    let mut table = String::new();
    for state in State::ALL {
        let commands = next_commands(crate::factory::job_id(), *state, None, false, false);
        table.push_str(&format!("{state}: {}\n", commands.join(" | ")));
    }
    let commands = next_commands(crate::factory::job_id(), State::Interrupted, Some(Epoch(4)), false, false);
    table.push_str(&format!("interrupted, child unaccounted for: {}\n", commands.join(" | ")));
    let commands = next_commands(crate::factory::job_id(), State::Running, None, true, false);
    table.push_str(&format!("running, cancel requested: {}\n", commands.join(" | ")));
    let commands = next_commands(crate::factory::job_id(), State::Failed, None, false, true);
    table.push_str(&format!("failed, undone: {}\n", commands.join(" | ")));
    insta::assert_snapshot!(table);
}

#[test]
fn the_answers_to_a_doubt_are_commands_that_a_shell_takes_whatever_the_key_is() {
    let commands = |key: &str| answer_commands(crate::factory::job_id(), &key.parse().unwrap());
    assert_eq!(
        commands("git/push"),
        [
            "tenure reconcile …9f3c21 git/push --done VALUE --why W",
            "tenure reconcile …9f3c21 git/push --not-done --why W"
        ]
    );
    assert_eq!(commands("it's $HOME")[1], r"tenure reconcile …9f3c21 'it'\''s $HOME' --not-done --why W");
    assert_eq!(commands("--done")[1], "tenure reconcile …9f3c21 --not-done --why W -- --done");
}
