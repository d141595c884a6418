//! The golden payloads: what a child reads above its work, word for word.

use super::*;
use crate::{
    brief::brief,
    deadline::Deadline,
    factory::{Journal, admitted, every_cause, job_id, note, run_started, second, start, steered},
    handover::{Cause, Handover, History},
    memory::compose_tail,
};

fn read(journal: &Journal) -> (Handover, Origin) {
    let mut history = History::up_to(journal.head().seq);
    for record in &journal.records {
        let value = record.value.as_ref().map(|value| value.value.clone());
        history.take_record(serde_json::from_slice(&record.bytes).unwrap(), value);
    }
    let origin = history.origin().unwrap().clone();
    let deadline = Deadline::new(start(), Some(second(3_600)));
    (history.compose_handover(second(480), &deadline).unwrap(), origin)
}

/// The handover of a second run that starts for this cause, after one that left a note and was redirected.
fn hand_over(cause: Cause) -> (Handover, Origin) {
    read(
        &Journal::of(job_id())
            .write(0, 0, admitted("v1.2.0"))
            .write(1, 1, vec![run_started(Cause::Dispatch), note("read the diff"), steered("push nothing")])
            .write(3, 2, vec![run_started(cause)]),
    )
}

fn compose(
    (handover, origin): &(Handover, Origin),
    instructions: Option<&str>,
    memory: &MemoryTail,
) -> String {
    let agent = "developer".parse().unwrap();
    let (job, run, brief) = (handover.job, handover.run, brief(handover));
    Preamble { agent: &agent, job, run, instructions, memory, origin, brief: &brief }.compose()
}

#[test]
fn what_a_child_reads_above_its_work_for_every_cause() {
    let memory = compose_tail(["the tests need the network", "tags begin with v"], false);
    let mut told = String::new();
    for cause in every_cause() {
        told.push_str(&compose(&hand_over(cause), Some("Write the release notes.\nBe short.\n"), &memory));
        told.push_str("(the work)\n=====\n");
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_first_run_without_instructions_and_memory_reads_who_it_is_and_who_sent_the_work() {
    let told = |origin: Origin| {
        let journal = Journal::of(job_id()).write(0, 0, admitted("v1.2.0")).write(
            1,
            1,
            vec![run_started(Cause::Dispatch)],
        );
        compose(&(read(&journal).0, origin), None, &MemoryTail::default())
    };
    let submitted = Origin { session: SessionId(job_id().0), by: "ada".to_owned(), sender: None };
    let sender = Sender { job: job_id(), run: Run(2), agent: "analyst".parse().unwrap() };
    let sent = Origin { sender: Some(sender), ..submitted.clone() };
    insta::assert_snapshot!([told(submitted), told(sent)].join("(the work)\n=====\n"));
}

#[test]
fn what_is_left_out_of_a_memory_is_said() {
    let memory = compose_tail(["the last line"], true);
    let told = compose(&hand_over(Cause::Dispatch), None, &memory);
    assert!(
        told.contains("# What you wrote down earlier\n\n(older lines are left out)\nthe last line\n"),
        "{told}"
    );
}
