//! A run from its grant to its acknowledged end.

use serde_json::json;
use tenure_proto::v1::{WriteNoteRequest, attach_request::Message, run_end::How};

use crate::{
    agent::{run_ref, script},
    coordinator::Got,
    fixture::{
        Fixture, appends, connect_socket, ends, messages, note_text, output, wait_for_append, wait_for_end,
        wait_for_file, wait_until,
    },
};

#[tokio::test]
async fn a_granted_run_leaves_notes_output_and_its_end() {
    let fixture = Fixture::start().await;
    let (socket, go_on) = (fixture.path("socket"), fixture.path("go-on"));
    let text = format!(
        "cat \"$TENURE_INPUT\"; echo; echo \"$TENURE_SOCKET\" > {}; while [ ! -e {} ]; do sleep 0.02; done; echo done",
        socket.display(),
        go_on.display()
    );
    fixture.grant(1, script(&text, json!({}))).await;
    let mut inside = connect_socket(&wait_for_file(&socket).await).await;
    for (text, n) in [("first", 1), ("second", 2)] {
        let seq =
            inside.write_note(WriteNoteRequest { text: text.to_owned() }).await.unwrap().into_inner().seq;
        assert!(seq >= 100, "the seq that the coordinator gave");
        let append = wait_for_append(&fixture.book, &run_ref(1), n).await;
        assert_eq!((append.n, note_text(&append).as_str()), (u64::try_from(n).unwrap(), text));
    }
    std::fs::write(&go_on, "").unwrap();
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.n, 3, "the end counts on from the notes");
    assert_eq!(end.end.unwrap().how, Some(How::ExitCode(0)));
    assert!(!end.output_truncated);
    let got = fixture.book.got();
    assert_eq!(output(&got, &run_ref(1)), "the input\ndone\n");
    assert_eq!(end.acknowledged_seq, 101, "the seq of the second note");
    wait_until("the run's directory to be removed", || fixture.run_directories().is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn the_end_comes_after_the_output_of_its_run_is_durable() {
    let fixture = Fixture::start().await;
    fixture.grant(1, script("echo one; echo two >&2", json!({}))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let got = fixture.book.got();
    let place = |wanted: fn(&Message) -> bool| messages(&got).position(wanted).unwrap();
    assert!(place(|m| matches!(m, Message::WriteOutput(_))) < place(|m| matches!(m, Message::EndRun(_))));
    let chunks = messages(&got).filter(|m| matches!(m, Message::WriteOutput(_))).count();
    assert_eq!(end.output_chunks, u64::try_from(chunks).unwrap());
}

#[tokio::test]
async fn the_result_goes_with_the_end() {
    let fixture = Fixture::start().await;
    fixture.grant(1, script("printf 'forty-two' > \"$TENURE_RESULT\"", json!({}))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.result.as_deref(), Some(&b"forty-two"[..]));
}

#[tokio::test]
async fn a_result_over_its_limit_is_no_success_and_stderr_says_why() {
    let fixture = Fixture::start().await;
    fixture.grant(1, script("head -c 70000000 /dev/zero > \"$TENURE_RESULT\"", json!({}))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!((end.end.unwrap().how, end.result), (Some(How::ExitCode(125)), None));
    let said = output(&fixture.book.got(), &run_ref(1));
    assert!(said.contains("67108864 are allowed"), "{said}");
}

#[tokio::test]
async fn a_failure_is_told_by_its_exit_code() {
    let fixture = Fixture::start().await;
    fixture.grant(1, script("exit 7", json!({}))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.end.unwrap().how, Some(How::ExitCode(7)));
}

#[tokio::test]
async fn a_run_past_its_own_timeout_says_so() {
    let fixture = Fixture::start().await;
    fixture.grant(1, script("sleep 600", json!({"timeout": "1s"}))).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(
        matches!(end.end.unwrap().how, Some(How::OwnTimeout(limit)) if limit.limit.unwrap().seconds == 1)
    );
}

#[tokio::test]
async fn the_deadline_of_the_session_shortens_the_timeout_at_the_start() {
    let fixture = Fixture::start().await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let mut grant = crate::agent::grant(1, numbers, script("sleep 600", json!({})));
    grant.deadline_at = Some(prost_types::Timestamp { seconds: 1_796_000_002, nanos: 0 });
    fixture.send_grant(grant).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(How::OwnTimeout(limit)) if limit.limit.unwrap().seconds < 2));
}

#[tokio::test]
async fn what_keeps_a_child_from_starting_is_named_by_the_end() {
    let fixture = Fixture::start().await;
    let missing_secret = script("true", json!({"secrets": ["NOT_SET_ANYWHERE"]}));
    let unknown_user = script("true", json!({"user": "nobody-of-this-name"}));
    let missing_program = serde_json::to_vec(&json!({"command": ["no-such-program-here"]})).unwrap();
    let no_declaration = b"{}".to_vec();
    let cases = [
        (missing_secret, "NOT_SET_ANYWHERE"),
        (unknown_user, "nobody-of-this-name"),
        (missing_program, "no-such-program-here"),
        (no_declaration, "command"),
    ];
    for (number, (declaration, named)) in (1..).zip(cases) {
        fixture.grant(number, declaration).await;
        let end = wait_for_end(&fixture.book, &run_ref(number), 1).await;
        match end.end.unwrap().how {
            Some(How::NotStarted(why)) => assert!(why.reason.contains(named), "{}", why.reason),
            other => panic!("{named}: {other:?}"),
        }
    }
    wait_until("nothing to be left of them", || fixture.run_directories().is_empty().then_some(())).await;
}

#[tokio::test]
async fn the_directory_of_a_run_is_kept_where_the_worker_is_told_to() {
    let fixture = Fixture::start_with(|_| {}, |options| options.keep_runs = true).await;
    fixture.grant(1, script("echo kept > \"$TENURE_RESULT\"", json!({}))).await;
    wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let directory = fixture.run_directories().pop().unwrap();
    fixture.worker.shutdown().await;
    assert_eq!(std::fs::read_to_string(directory.join("result")).unwrap(), "kept\n");
}

#[tokio::test]
async fn a_child_gets_what_the_surface_promises_and_nothing_of_the_worker() {
    let fixture = Fixture::start().await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let declaration = script("env", json!({"env": {"GREETING": "hello"}}));
    let mut grant = crate::agent::grant(1, numbers, declaration);
    grant.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned();
    grant.deadline_at = Some(prost_types::Timestamp { seconds: 1_796_000_600, nanos: 0 });
    fixture.send_grant(grant).await;
    wait_for_end(&fixture.book, &run_ref(1), 1).await;
    let said = output(&fixture.book.got(), &run_ref(1));
    let mut names: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.retain(|name| !["HOME", "LANG", "TZ", "_", "PWD", "SHLVL", "OLDPWD"].contains(name));
    names.sort_unstable();
    let promised = [
        "GREETING",
        "PATH",
        "TENURE_BRIEF",
        "TENURE_DEADLINE",
        "TENURE_EPOCH",
        "TENURE_HANDOVER",
        "TENURE_INPUT",
        "TENURE_JOB",
        "TENURE_RESULT",
        "TENURE_RUN",
        "TENURE_SOCKET",
        "TRACEPARENT",
    ];
    assert_eq!(names, promised);
}

#[tokio::test]
async fn each_slot_is_offered_once_and_again_when_its_run_is_over() {
    let fixture = Fixture::start_with(|_| {}, |options| options.slots = 2).await;
    let offered = |got: &[Got]| {
        messages(got).map(|m| if let Message::Credits(credits) = m { credits.more } else { 0 }).sum::<u32>()
    };
    fixture.book.wait_for("two credits", |got| (offered(got) == 2).then_some(())).await;
    fixture.grant(1, script("true", json!({}))).await;
    wait_for_end(&fixture.book, &run_ref(1), 1).await;
    fixture.book.wait_for("the third credit", |got| (offered(got) == 3).then_some(())).await;
    assert_eq!(ends(&fixture.book.got(), &run_ref(1)).len(), 1);
    assert!(appends(&fixture.book.got(), &run_ref(1)).is_empty());
}

#[tokio::test]
async fn a_registration_says_what_the_worker_offers() {
    let fixture = Fixture::start_with(
        |_| {},
        |options| {
            options.labels = vec!["git".to_owned(), "zone=eu".to_owned()];
            options.agents = vec!["greeter".to_owned()];
            options.slots = 3;
        },
    )
    .await;
    let registered = fixture
        .book
        .wait_for("a registration", |got| match &got[0] {
            Got::Registration(registered) => Some(registered.clone()),
            Got::Message(..) | Got::Gone(_) | Got::LookUp(_) | Got::StepPage | Got::Gift(_) => None,
        })
        .await;
    assert_eq!((registered.name.as_str(), registered.slots), ("w1", 3));
    assert_eq!(registered.labels, ["git", "zone=eu"]);
    assert_eq!(registered.agents, ["greeter"]);
    assert_eq!(registered.ttl.unwrap().seconds, 30);
    assert!(registered.fencing() as i32 >= 2, "its children are fenced");
}
