//! The steps of a handler: journaled, read back by a later run, and refused where nothing more may be begun.

use serde_json::json;
use tenure_core::reason::Reason;
use tenure_proto::v1::{FinishedStep, Grant, Notice, Order, RunRef, attach_response, order, run_end::How};
use tenure_worker::{
    Worker,
    handler::{HandlerError, HandlerWorker, RunContext},
};

use crate::{
    agent::{grant, handler, run_ref},
    coordinator::Got,
    effect_call::{count_appends, wait_for_records},
    fixture::{Fixture, wait_for_append, wait_for_end},
    handlers::{failure, grant_run, start},
};

/// Two steps, the second from what the first returned.
async fn pack(run: RunContext, order: String) -> Result<usize, HandlerError> {
    let lines =
        run.step("load", || async { Ok::<_, HandlerError>(vec![order.clone(), "card".into()]) }).await?;
    run.step("count", || async { Ok::<_, HandlerError>(lines.len()) }).await
}

fn packer() -> HandlerWorker {
    Worker::agent("greeter", "1", pack)
}

fn finished(name: &str, output: Option<&str>) -> FinishedStep {
    FinishedStep { name: name.to_owned(), output: output.map(|json| json.to_owned().into()) }
}

/// Grants run 2 of the job, with these steps finished before.
async fn second_run(handlers: HandlerWorker, steps: Vec<FinishedStep>) -> (Fixture, RunRef) {
    let fixture = Fixture::start_handlers(handlers, |book| book.set_steps(steps)).await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let first = grant(1, numbers, handler("1", json!({})));
    let run = RunRef { run: 2, epoch: 3, ..run_ref(1) };
    fixture.send_grant(Grant { run: Some(run.clone()), input: "\"tea\"".into(), ..first }).await;
    (fixture, run)
}

#[tokio::test]
async fn a_step_stands_in_the_journal_when_it_begins_and_when_it_is_finished() {
    let fixture = start(packer()).await;
    grant_run(&fixture, "\"tea\"", json!({})).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.result.as_deref(), Some(&b"2"[..]));
    assert_eq!(wait_for_records(&fixture.book, 1).await, ["step load started"]);
    assert_eq!(wait_for_records(&fixture.book, 2).await, [r#"step load finished ["tea","card"]"#]);
    assert_eq!(wait_for_records(&fixture.book, 3).await, ["step count started"]);
    assert_eq!(wait_for_records(&fixture.book, 4).await, ["step count finished 2"]);
    assert!(!fixture.book.got().iter().any(|got| matches!(got, Got::StepPage)), "nothing can be there yet");
}

#[tokio::test]
async fn a_finished_step_is_read_back_by_a_later_run_and_not_executed() {
    let earlier = vec![finished("other", Some("1")), finished("load", Some(r#"["a","b","c"]"#))];
    let (fixture, run) = second_run(packer(), earlier).await;
    let end = wait_for_end(&fixture.book, &run, 1).await;
    assert_eq!(end.result.as_deref(), Some(&b"3"[..]), "from what was recorded");
    assert_eq!(wait_for_records(&fixture.book, 1).await, ["step count started"]);
    assert_eq!(count_appends(&fixture.book), 2);
}

#[tokio::test]
async fn what_cannot_be_read_back_fails_the_job_for_good() {
    for (output, words) in [
        (Some("true"), "what is recorded of the step \"load\" cannot be read as what it returns now: "),
        (None, "what was recorded of the step \"load\" was erased, and it is not executed a second time"),
    ] {
        let (fixture, run) = second_run(packer(), vec![finished("load", output)]).await;
        let (error, is_final) = failure(wait_for_end(&fixture.book, &run, 1).await);
        assert!(error.starts_with(words), "{error}");
        assert!(is_final);
        assert_eq!(count_appends(&fixture.book), 0);
    }
}

#[tokio::test]
async fn a_name_is_used_once_in_a_run() {
    async fn twice(run: RunContext, _input: Option<String>) -> Result<(), HandlerError> {
        for _ in 0..2 {
            run.step("load", || async { Ok::<_, HandlerError>(1) }).await?;
        }
        Ok(())
    }
    let fixture = start(Worker::agent("greeter", "1", twice)).await;
    grant_run(&fixture, "", json!({})).await;
    let (error, is_final) = failure(wait_for_end(&fixture.book, &run_ref(1), 1).await);
    assert_eq!(error, "the step \"load\" was asked for twice in one run, and a name is unique in its job");
    assert!(is_final);
}

#[tokio::test]
async fn a_step_that_failed_or_was_dropped_may_be_asked_for_again() {
    async fn retry(run: RunContext, _input: Option<String>) -> Result<u32, HandlerError> {
        let failed = run.step("load", || async { Err::<u32, _>(HandlerError::new("no route")) }).await;
        assert_eq!(failed.unwrap_err().to_string(), "no route");
        let hang = || std::future::pending::<Result<u32, HandlerError>>();
        let dropped = tokio::time::timeout(std::time::Duration::from_millis(50), run.step("load", hang));
        assert!(dropped.await.is_err());
        run.step("load", || async { Ok::<_, HandlerError>(7) }).await
    }
    let fixture = start(Worker::agent("greeter", "1", retry)).await;
    grant_run(&fixture, "", json!({})).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert_eq!(end.result.as_deref(), Some(&b"7"[..]));
    assert_eq!(wait_for_records(&fixture.book, end.n as usize - 1).await, ["step load finished 7"]);
}

#[tokio::test]
async fn a_step_that_fails_is_begun_and_not_finished() {
    async fn fail(run: RunContext, _input: Option<String>) -> Result<(), HandlerError> {
        run.step("load", || async { Err::<(), _>(std::io::Error::other("no route")) }).await
    }
    let fixture = start(Worker::agent("greeter", "1", fail)).await;
    grant_run(&fixture, "", json!({})).await;
    assert_eq!(failure(wait_for_end(&fixture.book, &run_ref(1), 1).await), ("no route".to_owned(), false));
    assert_eq!(wait_for_records(&fixture.book, 1).await, ["step load started"]);
    assert_eq!(count_appends(&fixture.book), 1);
}

/// Provokes `DEADLINE_REACHED`.
#[tokio::test]
async fn past_the_deadline_no_step_begins_and_the_refusal_has_both_numbers() {
    async fn linger(run: RunContext, _input: Option<String>) -> Result<(), HandlerError> {
        let refused = run.step("load", || async { Ok::<_, HandlerError>(1) }).await.unwrap_err();
        assert_eq!(refused.refusal().map(|refusal| refusal.reason), Some(Reason::DeadlineReached));
        run.note(refused.to_string()).await?;
        Err(refused)
    }
    let fixture = start(Worker::agent("greeter", "1", linger)).await;
    let numbers = fixture.book.wait_for_stream(1).await;
    let at = |seconds: i64| Some(prost_types::Timestamp { seconds: 1_796_000_000 + seconds, nanos: 0 });
    let granted = Grant {
        input: bytes::Bytes::new(),
        session_started_at: at(-60),
        deadline_at: at(0),
        ..grant(1, numbers, handler("1", json!({})))
    };
    fixture.send_grant(granted).await;
    let end = wait_for_end(&fixture.book, &run_ref(1), 1).await;
    assert!(matches!(end.end.unwrap().how, Some(How::DeadlineReached(_))));
    let refused = "note the session's deadline is reached: 60 s have passed, and its ceiling is 60 s: nothing more is begun";
    assert_eq!(wait_for_records(&fixture.book, 1).await, [refused]);
}

#[tokio::test]
async fn nothing_is_begun_once_a_cancel_stands() {
    async fn wait(run: RunContext, _input: Option<String>) -> Result<(), HandlerError> {
        run.note("waiting").await?;
        run.cancellation().cancelled().await;
        let refused = run.step("load", || async { Ok::<_, HandlerError>(1) }).await.unwrap_err();
        run.note(refused.refusal().unwrap().reason.code()).await
    }
    let fixture = start(Worker::agent("greeter", "1", wait)).await;
    grant_run(&fixture, "", json!({})).await;
    wait_for_append(&fixture.book, &run_ref(1), 1).await;
    let notice = Notice { seq: 7, kind: "cancel_requested".to_owned() };
    let order = Order { run: Some(run_ref(1)), order: Some(order::Order::Notice(notice)) };
    fixture.book.send(attach_response::Message::Order(order)).await;
    let code = Reason::CancelRequested.code();
    assert_eq!(wait_for_records(&fixture.book, 2).await, [format!("note {code}")]);
}
