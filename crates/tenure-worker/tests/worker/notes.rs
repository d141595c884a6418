//! What a program inside a run may say over its socket, and when it may not any more.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use tenure_core::reason::Reason;
use tenure_proto::{
    status::status_to_refusal,
    v1::{Applied, Fenced, GetRunStatusRequest, WriteNoteRequest, appended::Outcome},
};
use tonic::Status;

use crate::{
    agent::{run_ref, script},
    coordinator::Reports,
    fixture::{
        Fixture, connect_socket, note_text, start_sleeper, wait_for_append, wait_for_end, wait_for_file,
        wait_until,
    },
};

fn note(text: &str) -> WriteNoteRequest {
    WriteNoteRequest { text: text.to_owned() }
}

fn reason(status: &Status) -> Reason {
    status_to_refusal(status).unwrap().reason
}

#[tokio::test]
async fn a_note_is_answered_once_it_is_durable_and_not_before() {
    let fixture = Fixture::start_with(|book| book.set_reports(Reports::Silent), |_| {}).await;
    let mut inside = connect_socket(&start_sleeper(&fixture, json!({})).await).await;
    let writing = tokio::spawn(async move { inside.write_note(note("half way")).await });
    let append = wait_for_append(&fixture.book, &run_ref(1), 1).await;
    assert!(!writing.is_finished(), "nobody has said that it is durable");
    fixture.book.answer(&run_ref(1), append.n, Outcome::Applied(Applied { seq: 42 })).await;
    assert_eq!(writing.await.unwrap().unwrap().into_inner().seq, 42);
}

#[tokio::test]
async fn a_blank_or_oversized_note_is_refused_at_the_door() {
    let fixture = Fixture::start().await;
    let mut inside = connect_socket(&start_sleeper(&fixture, json!({})).await).await;
    let blank = inside.write_note(note(" \n")).await.unwrap_err();
    assert_eq!(reason(&blank), Reason::ReasonMissing);
    let oversized = inside.write_note(note(&"x".repeat(16 * 1024 + 1))).await.unwrap_err();
    let refusal = status_to_refusal(&oversized).unwrap();
    assert_eq!(refusal.reason, Reason::NoteTooLarge);
    assert_eq!(refusal.details["size_bytes"], "16385");
    assert_eq!(refusal.details["limit_bytes"], "16384");
    inside.write_note(note(&"x".repeat(16 * 1024))).await.unwrap();
    assert_eq!(crate::fixture::appends(&fixture.book.got(), &run_ref(1)).len(), 1);
}

#[tokio::test]
async fn secrets_do_not_get_into_notes() {
    let fixture = Fixture::start().await;
    // PATH is a variable that every worker has.
    let secret = std::env::var("PATH").unwrap();
    let mut inside = connect_socket(&start_sleeper(&fixture, json!({"secrets": ["PATH"]})).await).await;
    inside.write_note(note(&format!("found {secret}!"))).await.unwrap();
    let append = wait_for_append(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(note_text(&append), "found [redacted:PATH]!");
}

#[tokio::test]
async fn a_note_after_the_fence_is_refused_and_says_who_holds_the_job() {
    let fixture = Fixture::start_with(|book| book.set_reports(Reports::Silent), |_| {}).await;
    let socket = start_sleeper(&fixture, json!({"stop-grace": "60s"})).await;
    let mut inside = connect_socket(&socket).await;
    let writing = tokio::spawn(async move { inside.write_note(note("too late")).await });
    let append = wait_for_append(&fixture.book, &run_ref(1), 1).await;
    let fenced = Fenced { held_by: "w2".to_owned(), epoch: 4, applied_seq: 0 };
    fixture.book.answer(&run_ref(1), append.n, Outcome::Fenced(fenced)).await;
    let refusal = status_to_refusal(&writing.await.unwrap().unwrap_err()).unwrap();
    assert_eq!(refusal.reason, Reason::Fenced);
    assert_eq!(refusal.details["held_by"], "w2");
    assert!(refusal.message.ends_with("is held by worker w2 under epoch 4, yours was 1"), "{refusal}");
    wait_until("the socket to be gone", || (!std::path::Path::new(&socket).exists()).then_some(())).await;
}

#[tokio::test]
async fn a_note_that_was_durable_before_the_fence_is_acknowledged() {
    let fixture = Fixture::start_with(|book| book.set_reports(Reports::Silent), |_| {}).await;
    let mut inside = connect_socket(&start_sleeper(&fixture, json!({})).await).await;
    let writing = tokio::spawn(async move { inside.write_note(note("in time")).await });
    let append = wait_for_append(&fixture.book, &run_ref(1), 1).await;
    let fenced = Fenced { held_by: "w2".to_owned(), epoch: 4, applied_seq: 17 };
    fixture.book.answer(&run_ref(1), append.n, Outcome::Fenced(fenced)).await;
    assert_eq!(writing.await.unwrap().unwrap().into_inner().seq, 17);
}

#[tokio::test]
async fn the_socket_belongs_to_the_run_alone_and_goes_with_it() {
    let fixture = Fixture::start().await;
    let (socket, go_on) = (fixture.path("socket"), fixture.path("go-on"));
    let text = format!(
        "echo \"$TENURE_SOCKET\" > {}; while [ ! -e {} ]; do sleep 0.02; done",
        socket.display(),
        go_on.display()
    );
    fixture.grant(1, script(&text, json!({}))).await;
    let path = wait_for_file(&socket).await.trim().to_owned();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut inside = connect_socket(&path).await;
    let status = inside.get_run_status(GetRunStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.run, status.epoch, status.attempt), (1, 1, 1));
    assert_eq!((status.worker.as_str(), status.notes, status.cancel_requested), ("w1", 0, false));
    assert_eq!((status.remaining_s, status.deadline_at), (None, None), "no ceiling");
    std::fs::write(&go_on, "").unwrap();
    wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(!std::path::Path::new(&path).exists());
    assert!(inside.write_note(note("after the end")).await.is_err());
    assert!(crate::fixture::appends(&fixture.book.got(), &run_ref(1)).is_empty());
}

#[tokio::test]
async fn the_status_says_what_is_left_to_the_deadline() {
    let fixture = Fixture::start().await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let socket = fixture.path("socket");
    let text = format!("echo \"$TENURE_SOCKET\" > {}; sleep 600", socket.display());
    let mut grant = crate::agent::grant(1, numbers, script(&text, json!({})));
    grant.deadline_at = Some(prost_types::Timestamp { seconds: 1_796_000_600, nanos: 0 });
    fixture.send_grant(grant).await;
    let mut inside = connect_socket(&wait_for_file(&socket).await).await;
    let status = inside.get_run_status(GetRunStatusRequest {}).await.unwrap().into_inner();
    assert!((1..=600).contains(&status.remaining_s.unwrap()), "{:?}", status.remaining_s);
}

#[tokio::test]
async fn a_note_is_a_sign_of_life() {
    let fixture = Fixture::start().await;
    let (socket, go_on) = (fixture.path("socket"), fixture.path("go-on"));
    let text = format!(
        "echo \"$TENURE_SOCKET\" > {}; while [ ! -e {} ]; do sleep 0.05; done",
        socket.display(),
        go_on.display()
    );
    fixture.grant(1, script(&text, json!({"idle-timeout": "2s"}))).await;
    let begun = tokio::time::Instant::now();
    let mut inside = connect_socket(&wait_for_file(&socket).await).await;
    // Longer than the idle timeout, and never silent for as long.
    while begun.elapsed() < std::time::Duration::from_secs(3) {
        inside.write_note(note("still here")).await.unwrap();
    }
    std::fs::write(&go_on, "").unwrap();
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.end.unwrap().how, Some(tenure_proto::v1::run_end::How::ExitCode(0)));
}

#[tokio::test]
async fn a_child_of_another_user_speaks_through_a_socket_of_its_own() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can start a child as another user");
        return;
    }
    let fixture = Fixture::start().await;
    std::fs::set_permissions(fixture.directory.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let text = "id -un; test -w \"$TENURE_SOCKET\" && echo writable; cat \"$TENURE_INPUT\"; echo x > \"$TENURE_RESULT\"";
    fixture.grant(1, script(text, json!({"user": "nobody"}))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(crate::fixture::output(&fixture.book.got(), &run_ref(1)), "nobody\nwritable\nthe input");
    assert_eq!(end.result.as_deref(), Some(&b"x\n"[..]));
}
