//! A stream that breaks, and what the next one carries.

use serde_json::json;
use tenure_proto::v1::{Applied, WriteNoteRequest, appended::Outcome, attach_request::Message, run_end::How};

use crate::{
    agent::{run_ref, script},
    coordinator::{Coordinator, Got, Reports},
    fixture::{
        Fixture, appends, connect_socket, ends, messages, note_text, output, wait_for_append, wait_for_end,
        wait_for_file,
    },
};

#[tokio::test]
async fn what_was_not_acknowledged_is_sent_again_on_the_next_stream_in_order_and_unchanged() {
    let fixture = Fixture::start_with(|book| book.set_reports(Reports::Silent), |_| {}).await;
    let socket = fixture.path("socket");
    let text = format!("echo said; echo \"$TENURE_SOCKET\" > {}; sleep 600", socket.display());
    fixture.grant(1, script(&text, json!({}))).await;
    let path = wait_for_file(&socket).await;
    let mut inside = connect_socket(&path).await;
    let mut again = connect_socket(&path).await;
    let first =
        tokio::spawn(async move { inside.write_note(WriteNoteRequest { text: "one".to_owned() }).await });
    wait_for_append(&fixture.book, &run_ref(1), 1).await;
    let second =
        tokio::spawn(async move { again.write_note(WriteNoteRequest { text: "two".to_owned() }).await });
    wait_for_append(&fixture.book, &run_ref(1), 2).await;
    fixture.book.break_streams().await;
    fixture.book.wait_for_stream(2).await;
    wait_for_append(&fixture.book, &run_ref(1), 4).await;
    let sent = appends(&fixture.book.got(), &run_ref(1));
    assert_eq!(sent[0], sent[2], "the same n with the same contents");
    assert_eq!(sent[1], sent[3]);
    assert_eq!((note_text(&sent[2]).as_str(), note_text(&sent[3]).as_str()), ("one", "two"));
    for (append, seq) in [(&sent[2], 10), (&sent[3], 11)] {
        fixture.book.answer(&run_ref(1), append.n, Outcome::Applied(Applied { seq })).await;
    }
    assert_eq!(first.await.unwrap().unwrap().into_inner().seq, 10);
    assert_eq!(second.await.unwrap().unwrap().into_inner().seq, 11);
    let held = fixture
        .book
        .wait_for("the second hello", |got| {
            messages(got)
                .filter_map(|m| if let Message::Hello(hello) = m { Some(hello.runs.clone()) } else { None })
                .nth(1)
        })
        .await;
    assert_eq!(held, [run_ref(1)], "the hello names what is held");
}

#[tokio::test]
async fn an_end_whose_answer_was_lost_is_sent_again_with_the_same_number() {
    let fixture = Fixture::start_with(|book| book.set_reports(Reports::Silent), |_| {}).await;
    fixture.grant(1, script("exit 3", json!({}))).await;
    let first = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    fixture.book.break_streams().await;
    let second = wait_for_end(&fixture.book, &run_ref(1), 2).await;
    assert_eq!(first, second);
    assert_eq!(second.end.clone().unwrap().how, Some(How::ExitCode(3)));
    fixture.book.answer(&run_ref(1), second.n, Outcome::Applied(Applied { seq: 10 })).await;
    fixture.book.set_reports(Reports::Apply);
    fixture.book.break_streams().await;
    fixture.book.wait_for_stream(3).await;
    fixture.grant(2, script("true", json!({}))).await;
    wait_for_end(&fixture.book, &run_ref(2), 1).await;
    assert_eq!(ends(&fixture.book.got(), &run_ref(1)).len(), 2, "what was acknowledged is not sent again");
}

#[tokio::test]
async fn a_run_does_not_notice_that_its_coordinator_went_away() {
    let first = Coordinator::start().await;
    let second = Coordinator::serve(first.book.clone()).await;
    let mut fixture =
        Fixture::start_at(first, |_| {}, |options| options.endpoints.push(second.endpoint())).await;
    let (started, go_on) = (fixture.path("started"), fixture.path("go-on"));
    let text =
        format!("echo yes > {}; while [ ! -e {} ]; do sleep 0.02; done", started.display(), go_on.display());
    fixture.grant(1, script(&text, json!({}))).await;
    wait_for_file(&started).await;
    fixture.coordinator.stop();
    fixture.book.break_streams().await;
    fixture.book.wait_for_stream(2).await;
    std::fs::write(&go_on, "").unwrap();
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.end.unwrap().how, Some(How::ExitCode(0)));
    let registrations = fixture.book.got().iter().filter(|got| matches!(got, Got::Registration(_))).count();
    assert_eq!(registrations, 1, "the term stands");
}

#[tokio::test]
async fn output_stays_within_the_window_and_none_is_lost() {
    let fixture = Fixture::start_with(|book| book.set_window(64 * 1024), |_| {}).await;
    let text = "i=0; while [ $i -lt 20000 ]; do echo \"line $i of the output\"; i=$((i+1)); done";
    fixture.grant(1, script(text, json!({}))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.end.unwrap().how, Some(How::ExitCode(0)));
    let got = fixture.book.got();
    let said = output(&got, &run_ref(1));
    assert_eq!(said.lines().count(), 20_000);
    assert!(said.lines().enumerate().all(|(i, line)| line == format!("line {i} of the output")));
}
