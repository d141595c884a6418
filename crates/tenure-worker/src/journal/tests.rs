use super::*;
use crate::factory::run_ref;

fn journal() -> RunJournal {
    RunJournal::new(run_ref(1), Seq(3))
}

fn add_note(journal: &mut RunJournal, text: &str) -> (u64, oneshot::Receiver<ReportAnswer>) {
    let (answer, waiting) = oneshot::channel();
    (journal.add_report(Report::Note(text.to_owned()), answer, None), waiting)
}

fn acknowledged_seq_of(message: Option<Message>) -> Option<u64> {
    match message {
        Some(Message::Append(append)) => Some(append.acknowledged_seq),
        _ => None,
    }
}

#[test]
fn a_report_that_is_sent_again_is_the_same_report() {
    let mut journal = journal();
    let (n, _waiting) = add_note(&mut journal, "half way");
    assert_eq!(n, 1);
    assert_eq!(journal.compose_report(n), journal.compose_report(n));
    assert!(journal.compose_report(n).is_some());
}

#[test]
fn the_acknowledged_seq_never_passes_a_report_without_an_answer() {
    let mut journal = journal();
    let (first, mut first_answer) = add_note(&mut journal, "first");
    let (second, mut second_answer) = add_note(&mut journal, "second");
    journal.answer_report(second, ReportAnswer::Applied(Seq(5)));
    assert_eq!(second_answer.try_recv(), Ok(ReportAnswer::Applied(Seq(5))));
    assert_eq!(acknowledged_seq_of(journal.compose_report(first)), Some(3));
    assert_eq!(journal.compose_report(second), None, "an answered report is not sent again");
    journal.answer_report(first, ReportAnswer::Applied(Seq(4)));
    assert_eq!(first_answer.try_recv(), Ok(ReportAnswer::Applied(Seq(4))));
    let (third, _waiting) = add_note(&mut journal, "third");
    assert_eq!(acknowledged_seq_of(journal.compose_report(third)), Some(5));
}

#[test]
fn a_second_answer_to_the_same_report_changes_nothing() {
    let mut journal = journal();
    let (n, mut answer) = add_note(&mut journal, "once");
    journal.answer_report(n, ReportAnswer::Applied(Seq(4)));
    journal.answer_report(n, ReportAnswer::Sealed);
    assert_eq!(answer.try_recv(), Ok(ReportAnswer::Applied(Seq(4))));
}

#[test]
fn acknowledged_output_is_forgotten_up_to_the_chunk_named() {
    let mut journal = journal();
    for text in ["a", "bb", "ccc"] {
        journal.add_output(v1::OutputStream::Stdout, Bytes::from_static(text.as_bytes()));
    }
    assert_eq!(journal.acknowledge_output(1), 3 + 2 * limits::OUTPUT_CHUNK_OVERHEAD_BYTES);
    assert_eq!(journal.waiting_output().collect::<Vec<_>>(), [2]);
    assert_eq!(journal.compose_output(1), None);
    assert!(journal.compose_output(2).is_some());
}

#[test]
fn a_journal_is_settled_once_closed_and_answered_whole() {
    let mut journal = journal();
    let (n, _waiting) = add_note(&mut journal, "note");
    journal.add_output(v1::OutputStream::Stderr, Bytes::from_static(b"x"));
    journal.close();
    assert!(!journal.is_settled());
    journal.answer_report(n, ReportAnswer::Missing);
    assert!(!journal.is_settled(), "output still waits");
    journal.drop_output();
    assert!(journal.is_settled());
}
