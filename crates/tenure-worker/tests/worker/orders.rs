//! What a coordinator orders about a run that is under way.

use serde_json::json;
use tenure_proto::v1::{
    AppendRefused, Applied, Fenced, LostGrants, Notice, Order, RunRef, Sealed, appended::Outcome,
    attach_request::Message, attach_response, order, run_end::How,
};

use crate::{
    agent::{run_ref, script},
    coordinator::{Book, Got, Reports},
    fixture::{Fixture, appends, ends, messages, output, wait_for_end, wait_for_file, wait_until},
};

async fn send_order(fixture: &Fixture, order: order::Order) {
    let order = Order { run: Some(run_ref(1)), order: Some(order) };
    fixture.book.send(attach_response::Message::Order(order)).await;
}

fn cancel(seq: u64) -> Notice {
    Notice { seq, kind: "cancel_requested".to_owned() }
}

#[tokio::test]
async fn a_cancel_asks_the_child_to_end_and_the_end_names_the_notice() {
    let fixture = Fixture::start().await;
    let started = fixture.path("started");
    let text = format!(
        "trap 'echo asked; exit 0' TERM; echo yes > {}; while true; do sleep 0.02; done",
        started.display()
    );
    fixture.grant(1, script(&text, json!({"stop-grace": "30s"}))).await;
    wait_for_file(&started).await;
    send_order(&fixture, order::Order::Notice(cancel(9))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.last_notice_seq, 9);
    assert!(matches!(end.end.unwrap().how, Some(How::Cancel(_))), "after an ask no exit code is a verdict");
    assert!(output(&fixture.book.got(), &run_ref(1)).contains("asked\n"), "it was asked and could say so");
}

#[tokio::test]
async fn a_child_that_ignores_a_cancel_is_killed_after_its_grace() {
    let fixture = Fixture::start().await;
    let started = fixture.path("started");
    let text = format!("trap '' TERM; echo $$ > {}; while true; do sleep 0.02; done", started.display());
    fixture.grant(1, script(&text, json!({"stop-grace": "1s"}))).await;
    wait_for_file(&started).await;
    send_order(&fixture, order::Order::Notice(cancel(9))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(How::Cancel(_))));
}

#[tokio::test]
async fn a_success_that_meets_a_cancel_which_it_had_not_seen_is_reported_again_as_cancelled() {
    let fixture = Fixture::start_with(|book| book.set_reports(Reports::Silent), |_| {}).await;
    fixture.grant(1, script("printf ready > \"$TENURE_RESULT\"", json!({}))).await;
    let first = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!((first.end.unwrap().how, first.last_notice_seq), (Some(How::ExitCode(0)), 0));
    fixture.book.answer(&run_ref(1), first.n, Outcome::Notice(cancel(8))).await;
    let second = wait_for_end(&fixture.book, &run_ref(1), 2).await;
    assert!(matches!(second.end.unwrap().how, Some(How::Cancel(_))));
    assert_eq!((second.last_notice_seq, second.result), (8, None));
    assert_eq!(second.n, first.n + 1, "another report has another number");
    fixture.book.answer(&run_ref(1), second.n, Outcome::Applied(Applied { seq: 9 })).await;
    wait_until("the run's directory to be removed", || fixture.run_directories().is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn a_fenced_run_is_ended_at_once_and_reported_gone_with_its_secret() {
    let fixture = Fixture::start().await;
    let pid = fixture.path("pid");
    let text = format!("trap '' TERM; echo $$ > {}; while true; do sleep 0.02; done", pid.display());
    fixture.grant(1, script(&text, json!({"stop-grace": "600s"}))).await;
    wait_for_file(&pid).await;
    send_order(&fixture, order::Order::Fenced(Fenced { held_by: "w2".to_owned(), epoch: 2, applied_seq: 0 }))
        .await;
    let gone = fixture
        .book
        .wait_for("a report that the child is gone", |got| {
            got.iter().find_map(|got| match got {
                Got::Gone(gone) => Some(gone.clone()),
                Got::Registration(_) | Got::Message(..) | Got::LookUp(_) | Got::StepPage | Got::Gift(_) => {
                    None
                }
            })
        })
        .await;
    assert_eq!((gone.job_id.as_str(), gone.epoch, gone.generation), (run_ref(1).job_id.as_str(), 1, 1));
    assert_eq!(gone.secret, vec![9; 32]);
    assert!(matches!(gone.end.unwrap().how, Some(How::ContactLost(_))));
    wait_until("the run's directory to be removed", || fixture.run_directories().is_empty().then_some(()))
        .await;
    assert!(ends(&fixture.book.got(), &run_ref(1)).is_empty(), "nothing more is reported under that epoch");
}

#[tokio::test]
async fn an_end_that_is_answered_with_a_fence_is_reported_gone() {
    let fixture = Fixture::start_with(|book| book.set_reports(Reports::Silent), |_| {}).await;
    fixture.grant(1, script("exit 4", json!({}))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let fenced = Fenced { held_by: String::new(), epoch: 2, applied_seq: 0 };
    fixture.book.answer(&run_ref(1), end.n, Outcome::Fenced(fenced)).await;
    let gone = fixture
        .book
        .wait_for("a report that the child is gone", |got| {
            got.iter().find_map(|got| if let Got::Gone(gone) = got { Some(gone.clone()) } else { None })
        })
        .await;
    assert_eq!(gone.end.unwrap().how, Some(How::ExitCode(4)));
    assert!(!gone.ended_by_guardian, "it ended by itself");
}

/// What is not held counts as never started, and this one ran.
#[tokio::test]
async fn a_run_whose_end_is_refused_is_held_until_it_is_known_to_be_gone() {
    let prepare = |book: &Book| {
        book.set_reports(Reports::Silent);
        book.set_takes_gone(false);
    };
    let fixture = Fixture::start_with(prepare, |_| {}).await;
    fixture.grant(1, script("exit 4", json!({}))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let refused = AppendRefused { code: "INTERNAL".to_owned(), message: "the data is refused".to_owned() };
    fixture.book.answer(&run_ref(1), end.n, Outcome::Refused(refused)).await;
    let gone = fixture
        .book
        .wait_for("a report that the child is gone", |got| {
            got.iter().find_map(|got| if let Got::Gone(gone) = got { Some(gone.clone()) } else { None })
        })
        .await;
    assert_eq!((gone.end.unwrap().how, gone.secret), (Some(How::ExitCode(4)), vec![9; 32].into()));
    let lost = LostGrants { runs: vec![run_ref(1), run_ref(2)] };
    fixture.book.send(attach_response::Message::LostGrants(lost)).await;
    let disowned = fixture
        .book
        .wait_for("the grant that it does not know to be disowned", |got| {
            let disowned: Vec<_> = messages(got).filter_map(disowned_run).collect();
            disowned.contains(&run_ref(2)).then_some(disowned)
        })
        .await;
    assert_eq!(disowned, [run_ref(2)], "the run that ended is its own");
    fixture.book.set_takes_gone(true);
    wait_until("the run's directory to be removed", || fixture.run_directories().is_empty().then_some(()))
        .await;
}

fn disowned_run(message: &Message) -> Option<RunRef> {
    if let Message::NotMine(not_mine) = message { not_mine.run.clone() } else { None }
}

#[tokio::test]
async fn the_end_of_a_sealed_job_is_let_go() {
    let fixture = Fixture::start_with(|book| book.set_reports(Reports::Silent), |_| {}).await;
    fixture.grant(1, script("true", json!({}))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    fixture.book.answer(&run_ref(1), end.n, Outcome::Sealed(Sealed {})).await;
    wait_until("the run's directory to be removed", || fixture.run_directories().is_empty().then_some(()))
        .await;
    assert!(appends(&fixture.book.got(), &run_ref(1)).is_empty());
}
