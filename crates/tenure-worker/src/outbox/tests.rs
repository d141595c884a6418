use super::*;
use crate::factory::run_ref;

const WINDOW_BYTES: u64 = limits::OUTPUT_WINDOW_BYTES;

async fn next_message(outbox: &Outbox) -> Message {
    match outbox.next_outgoing().await {
        Some(Outgoing::Message(message)) => message,
        Some(Outgoing::Renewal) | None => panic!("a renewal, where a message is wanted"),
    }
}

fn note(text: &str) -> Report {
    Report::Note(text.to_owned())
}

fn text_of(message: &Message) -> String {
    match message {
        Message::Append(append) => match &append.records[0].kind {
            Some(v1::new_record::Kind::Note(note)) => note.text.clone(),
            _ => String::new(),
        },
        Message::WriteOutput(output) => String::from_utf8_lossy(&output.bytes).into_owned(),
        Message::NotMine(_) => "not mine".to_owned(),
        Message::Credits(credits) if credits.withdrawn => "no more runs".to_owned(),
        Message::Credits(credits) => format!("{} credits", credits.more),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn renewals_go_first_and_output_last() {
    let outbox = Outbox::new();
    let run = run_ref(1);
    outbox.open_run(&run, Seq(3));
    outbox.add_output(&run, v1::OutputStream::Stdout, Bytes::from_static(b"output")).await;
    let _answer = outbox.add_report(&run, note("note"));
    outbox.refuse_run(v1::RunRef::default());
    outbox.offer_credits(1);
    outbox.offer_credits(2);
    outbox.request_renewal();
    assert_eq!(outbox.next_outgoing().await, Some(Outgoing::Renewal));
    for wanted in ["3 credits", "not mine", "note", "output"] {
        assert_eq!(text_of(&next_message(&outbox).await), wanted);
    }
}

#[tokio::test]
async fn what_stands_in_a_closed_outbox_is_sent_and_then_nothing_more() {
    let outbox = Outbox::new();
    outbox.refuse_run(v1::RunRef::default());
    outbox.close();
    assert!(matches!(next_message(&outbox).await, Message::NotMine(_)));
    assert_eq!(outbox.next_outgoing().await, None);
}

#[tokio::test]
async fn credits_are_withdrawn_before_the_end_of_a_run_is_told_and_void_what_was_offered() {
    let outbox = Outbox::new();
    let run = run_ref(1);
    outbox.open_run(&run, Seq(3));
    outbox.offer_credits(2);
    let _answer = outbox.add_report(&run, note("note"));
    outbox.withdraw_credits();
    for wanted in ["no more runs", "note"] {
        assert_eq!(text_of(&next_message(&outbox).await), wanted);
    }
}

#[tokio::test]
async fn a_new_stream_gets_everything_unacknowledged_again_in_order() {
    let outbox = Outbox::new();
    let run = run_ref(1);
    outbox.open_run(&run, Seq(3));
    let _answers = [outbox.add_report(&run, note("one")), outbox.add_report(&run, note("two"))];
    outbox.add_output(&run, v1::OutputStream::Stdout, Bytes::from_static(b"three")).await;
    let first: Vec<_> = [next_message(&outbox).await, next_message(&outbox).await].into();
    outbox.answer_report(&run, 1, ReportAnswer::Applied(Seq(4)));
    outbox.offer_credits(9);
    outbox.rewind(WINDOW_BYTES);
    assert_eq!(text_of(&first[1]), "two");
    assert_eq!(text_of(&next_message(&outbox).await), "two");
    assert_eq!(text_of(&next_message(&outbox).await), "three");
}

#[tokio::test]
async fn output_beyond_the_window_waits_for_an_acknowledgement() {
    let outbox = Outbox::new();
    let run = run_ref(1);
    outbox.open_run(&run, Seq(3));
    outbox.rewind(0);
    let whole = Bytes::from(vec![b'x'; limits::OUTPUT_CHUNK_MAX_BYTES]);
    outbox.add_output(&run, v1::OutputStream::Stdout, whole).await;
    let one_more = outbox.add_output(&run, v1::OutputStream::Stdout, Bytes::from_static(b"y"));
    tokio::pin!(one_more);
    assert!(poll_once(one_more.as_mut()).await.is_none(), "the window is full");
    outbox.acknowledge_output(&run, 0);
    one_more.await;
    outbox.acknowledge_output(&run, 1);
    outbox.flush_output(&run).await;
}

#[tokio::test]
async fn output_that_is_longer_than_a_chunk_or_the_window_is_cut_into_chunks() {
    let outbox = Outbox::new();
    let run = run_ref(1);
    outbox.open_run(&run, Seq(3));
    outbox.rewind(0);
    let whole = Bytes::from_iter((0..5 * 1024 * 1024_usize).map(|place| (place % 251) as u8));
    let adding = outbox.add_output(&run, v1::OutputStream::Stderr, whole.clone());
    let reading = async {
        let mut seen = Vec::new();
        while seen.len() < whole.len() {
            let Message::WriteOutput(output) = next_message(&outbox).await else { panic!("no output") };
            assert!(output.bytes.len() <= limits::OUTPUT_CHUNK_MAX_BYTES);
            seen.extend_from_slice(&output.bytes);
            outbox.acknowledge_output(&run, output.chunk);
        }
        seen
    };
    let ((), seen) = tokio::join!(adding, reading);
    assert!(seen == whole);
}

/// Polls once.
async fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut future = Some(future);
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().map(|future| future.as_mut().poll(context)) {
            Some(std::task::Poll::Ready(output)) => Some(output),
            _ => None,
        })
    })
    .await
}

#[tokio::test]
async fn many_short_chunks_fill_the_window_by_more_than_their_bytes() {
    let outbox = Outbox::new();
    let run = run_ref(1);
    outbox.open_run(&run, Seq(3));
    outbox.rewind(0);
    let fits = WINDOW_MIN_BYTES / (1 + limits::OUTPUT_CHUNK_OVERHEAD_BYTES);
    for _ in 0..fits {
        outbox.add_output(&run, v1::OutputStream::Stdout, Bytes::from_static(b"x")).await;
    }
    let one_more = outbox.add_output(&run, v1::OutputStream::Stdout, Bytes::from_static(b"x"));
    tokio::pin!(one_more);
    assert!(poll_once(one_more.as_mut()).await.is_none(), "{fits} chunks of one byte fill it");
}

#[tokio::test]
async fn a_report_that_nobody_waits_for_keeps_its_turn_until_it_is_answered() {
    let outbox = Outbox::new();
    let run = run_ref(1);
    outbox.open_run(&run, Seq(3));
    let turns = std::sync::Arc::new(Semaphore::new(1));
    let turn = std::sync::Arc::clone(&turns).try_acquire_owned().unwrap();
    drop(outbox.add_bounded_report(&run, note("left behind"), Some(turn)));
    assert_eq!(text_of(&next_message(&outbox).await), "left behind");
    assert_eq!(turns.available_permits(), 0, "the report is still kept here");
    outbox.answer_report(&run, 1, ReportAnswer::Applied(Seq(4)));
    assert_eq!(turns.available_permits(), 1);
}

#[tokio::test]
async fn a_closed_run_is_forgotten_once_everything_was_answered() {
    let outbox = Outbox::new();
    let run = run_ref(1);
    outbox.open_run(&run, Seq(3));
    let answer = outbox.add_report(&run, note("last"));
    outbox.close_run(&run);
    assert_eq!(text_of(&next_message(&outbox).await), "last");
    outbox.answer_report(&run, 1, ReportAnswer::Sealed);
    assert_eq!(answer.await, Ok(ReportAnswer::Sealed));
    assert!(outbox.lock().runs.is_empty());
    assert!(outbox.add_report(&run, note("too late")).await.is_err(), "nobody answers for an unknown run");
}

#[tokio::test]
async fn output_of_a_job_that_is_not_there_is_dropped() {
    let outbox = Outbox::new();
    let run = run_ref(1);
    outbox.open_run(&run, Seq(3));
    outbox.add_output(&run, v1::OutputStream::Stdout, Bytes::from_static(b"lost")).await;
    let _answer = outbox.add_report(&run, note("lost"));
    outbox.answer_report(&run, 1, ReportAnswer::Missing);
    outbox.flush_output(&run).await;
}
