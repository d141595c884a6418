//! Grants that start something, and those that never do.

use serde_json::json;
use tenure_proto::v1::{LostGrants, RunRef, attach_request::Message, attach_response};

use crate::{
    agent::{grant, run_ref, script},
    coordinator::{Book, Got},
    fixture::{Fixture, messages, wait_for_end, wait_for_file},
};

async fn wait_for_refusal(book: &Book, run: &RunRef, count: usize) {
    book.wait_for(&format!("refusal {count} of {}", run.job_id), |got| {
        messages(got)
            .filter(|m| matches!(m, Message::NotMine(refused) if refused.run.as_ref() == Some(run)))
            .nth(count - 1)
            .map(|_| ())
    })
    .await;
}

#[tokio::test]
async fn a_grant_of_another_attach_or_term_starts_nothing() {
    let fixture = Fixture::start().await;
    let (term, attach) = fixture.book.wait_for_stream(1).await;
    let trace = fixture.path("trace");
    let leave_trace = script(&format!("echo ran >> {}", trace.display()), json!({}));
    fixture.send_grant(grant(1, (term, attach + 1), leave_trace.clone())).await;
    fixture.send_grant(grant(2, (term + 1, attach), leave_trace.clone())).await;
    for number in [1, 2] {
        wait_for_refusal(&fixture.book, &run_ref(number), 1).await;
    }
    // Refused once, it stays refused, also where everything is right.
    fixture.send_grant(grant(1, (term, attach), leave_trace)).await;
    wait_for_refusal(&fixture.book, &run_ref(1), 2).await;
    fixture.send_grant(grant(3, (term, attach), script("true", json!({})))).await;
    wait_for_end(&fixture.book, &run_ref(3), 1).await;
    assert!(!trace.exists());
}

#[tokio::test]
async fn a_grant_that_arrives_twice_starts_once() {
    let fixture = Fixture::start().await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let (trace, go_on) = (fixture.path("trace"), fixture.path("go-on"));
    let text =
        format!("echo ran >> {}; while [ ! -e {} ]; do sleep 0.02; done", trace.display(), go_on.display());
    let twice = grant(1, numbers, script(&text, json!({})));
    fixture.send_grant(twice.clone()).await;
    wait_for_file(&trace).await;
    fixture.send_grant(twice).await;
    fixture.send_grant(grant(2, numbers, script("true", json!({})))).await;
    wait_for_end(&fixture.book, &run_ref(2), 1).await;
    std::fs::write(&go_on, "").unwrap();
    wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), "ran\n");
    let refused = |got: &[Got]| messages(got).filter(|m| matches!(m, Message::NotMine(_))).count();
    assert_eq!(refused(&fixture.book.got()), 0, "a run that is held is never refused");
}

#[tokio::test]
async fn a_later_epoch_does_not_start_beside_a_child_of_an_earlier_one() {
    let fixture = Fixture::start().await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let (started, trace) = (fixture.path("started"), fixture.path("trace"));
    let sleeper = script(&format!("echo yes > {}; sleep 600", started.display()), json!({}));
    fixture.send_grant(grant(1, numbers, sleeper)).await;
    wait_for_file(&started).await;
    let mut later = grant(1, numbers, script(&format!("echo ran > {}", trace.display()), json!({})));
    later.run = Some(RunRef { epoch: 2, run: 2, ..run_ref(1) });
    fixture.send_grant(later.clone()).await;
    wait_for_refusal(&fixture.book, later.run.as_ref().unwrap(), 1).await;
    assert!(!trace.exists());
}

#[tokio::test]
async fn a_lost_grant_is_not_mine_and_starts_nothing_when_it_comes_late() {
    let fixture = Fixture::start().await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let (socket, trace) = (fixture.path("started"), fixture.path("trace"));
    let sleeper = script(&format!("echo yes > {}; sleep 600", socket.display()), json!({}));
    fixture.send_grant(grant(1, numbers, sleeper)).await;
    wait_for_file(&socket).await;
    let lost = LostGrants { runs: vec![run_ref(1), run_ref(2)] };
    fixture.book.send(attach_response::Message::LostGrants(lost)).await;
    wait_for_refusal(&fixture.book, &run_ref(2), 1).await;
    let late = script(&format!("echo ran > {}", trace.display()), json!({}));
    fixture.send_grant(grant(2, numbers, late)).await;
    wait_for_refusal(&fixture.book, &run_ref(2), 2).await;
    let of_held = messages(&fixture.book.got())
        .filter(|m| matches!(m, Message::NotMine(refused) if refused.run == Some(run_ref(1))))
        .count();
    assert_eq!(of_held, 0, "the one that it holds is its own");
    assert!(!trace.exists());
}

#[tokio::test]
async fn a_worker_that_drains_takes_nothing_and_lets_a_run_end_by_itself() {
    let fixture = Fixture::start().await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let (started, go_on) = (fixture.path("started"), fixture.path("go-on"));
    let text =
        format!("echo yes > {}; while [ ! -e {} ]; do sleep 0.02; done", started.display(), go_on.display());
    fixture.send_grant(grant(1, numbers, script(&text, json!({})))).await;
    wait_for_file(&started).await;
    fixture.worker.begin_shutdown();
    fixture.send_grant(grant(2, numbers, script("true", json!({})))).await;
    wait_for_refusal(&fixture.book, &run_ref(2), 1).await;
    std::fs::write(&go_on, "").unwrap();
    fixture.worker.shutdown().await;
    let ends = crate::fixture::ends(&fixture.book.got(), &run_ref(1));
    assert_eq!(ends[0].end.clone().unwrap().how, Some(tenure_proto::v1::run_end::How::ExitCode(0)));
}

#[tokio::test]
async fn a_second_call_to_stop_ends_what_still_runs() {
    let fixture = Fixture::start().await;
    let started = fixture.path("started");
    let text = format!("trap '' TERM; echo yes > {}; sleep 600", started.display());
    fixture.grant(1, script(&text, json!({"stop-grace": "60s"}))).await;
    wait_for_file(&started).await;
    fixture.worker.begin_shutdown();
    fixture.worker.begin_shutdown();
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(tenure_proto::v1::run_end::How::ContactLost(_))));
    fixture.worker.shutdown().await;
}
