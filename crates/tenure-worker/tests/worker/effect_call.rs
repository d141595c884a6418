//! A call about an effect, as the program inside a run makes it.

use tenure_core::reason::Reason;
use tenure_proto::{
    status::status_to_refusal,
    v1::{
        AnnounceEffect, Append, Effect, EffectCommandEnded, EffectCommandStarted, EffectDisposition,
        EffectHasFailed, EffectIsDone, EffectProbeEnded, EffectRecovery, EffectState, PerformEffectRequest,
        PerformEffectResponse, PerformNow, attach_request::Message, new_record::Kind,
        perform_effect_request::Message as Said, perform_effect_response::Message as Told,
    },
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::{
    agent::run_ref,
    coordinator::{Book, Got, PATIENCE},
    fixture::{connect_socket, messages},
};

/// One call. Dropping it breaks it off.
pub(crate) struct Call {
    words: mpsc::Sender<PerformEffectRequest>,
    answers: Streaming<PerformEffectResponse>,
}

/// An effect that changes something, with this recovery.
pub(crate) fn effect(key: &str, recovery: EffectRecovery) -> AnnounceEffect {
    let probe = if recovery == EffectRecovery::Probe { "true" } else { "" };
    AnnounceEffect {
        key: key.to_owned(),
        command: vec!["push".to_owned()],
        recovery: recovery.into(),
        probe: probe.to_owned(),
        ..Default::default()
    }
}

/// What a journal may have about it, without an outcome.
pub(crate) fn recorded(key: &str, recovery: EffectRecovery) -> Effect {
    Effect {
        key: key.to_owned(),
        attempt: 1,
        state: EffectState::Started.into(),
        recovery: recovery.into(),
        mutates: true,
        run: 1,
        announced_seq: 5,
        announced_at: Some(prost_types::Timestamp { seconds: 1_796_000_000, nanos: 0 }),
        request_digest: tenure_core::id::Digest::of(br#"["push"]"#).0.to_vec().into(),
        ..Default::default()
    }
}

impl Call {
    /// Announces an effect over the run's socket.
    pub(crate) async fn announce(socket: &str, announce: AnnounceEffect) -> Self {
        let (words, said) = mpsc::channel(4);
        let mut client = connect_socket(socket).await;
        let first = PerformEffectRequest { message: Some(Said::Announce(announce)) };
        words.send(first).await.unwrap();
        let answers = client.perform_effect(ReceiverStream::new(said)).await.unwrap().into_inner();
        Self { words, answers }
    }

    pub(crate) async fn try_next(&mut self) -> Result<PerformEffectResponse, Status> {
        let next = timeout(PATIENCE, self.answers.message()).await.expect("the worker says something");
        next.map(|told| told.expect("the last words are final"))
    }

    pub(crate) async fn next(&mut self) -> Told {
        self.try_next().await.unwrap().message.unwrap()
    }

    pub(crate) async fn wait_to_perform(&mut self) -> PerformNow {
        match self.next().await {
            Told::Perform(now) => now,
            other => panic!("told {other:?}"),
        }
    }

    pub(crate) async fn wait_to_probe(&mut self) {
        match self.next().await {
            Told::Probe(_) => {}
            other => panic!("told {other:?}"),
        }
    }

    pub(crate) async fn wait_until_done(&mut self) -> EffectIsDone {
        match self.next().await {
            Told::Done(done) => done,
            other => panic!("told {other:?}"),
        }
    }

    pub(crate) async fn wait_until_failed(&mut self) -> EffectHasFailed {
        match self.next().await {
            Told::Failed(failed) => failed,
            other => panic!("told {other:?}"),
        }
    }

    pub(crate) async fn wait_until_refused(&mut self) -> Reason {
        let refused = self.try_next().await.expect_err("it is refused");
        status_to_refusal(&refused).unwrap().reason
    }

    pub(crate) async fn say_started(&self, process_group: i32) {
        self.say(Said::Started(EffectCommandStarted { process_group })).await;
    }

    pub(crate) async fn say_ended(&self, exit_code: i32, output: &str) {
        let output = output.to_owned().into();
        self.say(Said::Ended(EffectCommandEnded {
            exit_code: Some(exit_code),
            output,
            ..Default::default()
        }))
        .await;
    }

    pub(crate) async fn say_probed(&self, verdict: EffectDisposition, value: &str) {
        let value = value.to_owned().into();
        self.say(Said::Probed(EffectProbeEnded { verdict: verdict.into(), value, ..Default::default() }))
            .await;
    }

    async fn say(&self, message: Said) {
        self.words.send(PerformEffectRequest { message: Some(message) }).await.unwrap();
    }
}

/// The records of the so many-th append (from 1) of the run, one line each.
pub(crate) async fn wait_for_records(book: &Book, count: usize) -> Vec<String> {
    let what = format!("append {count}");
    let append = book.wait_for(&what, |got| appends_of_job(got).nth(count - 1)).await;
    append.records.iter().map(|record| describe(record.kind.as_ref().unwrap())).collect()
}

/// How many appends of the run arrived, repeated ones included.
pub(crate) fn count_appends(book: &Book) -> usize {
    appends_of_job(&book.got()).count()
}

/// Those of any run of the job.
fn appends_of_job(got: &[Got]) -> impl Iterator<Item = Append> {
    let job = run_ref(1).job_id;
    messages(got).filter_map(move |message| match message {
        Message::Append(append) if append.run.as_ref().is_some_and(|run| run.job_id == job) => {
            Some(append.clone())
        }
        _ => None,
    })
}

fn describe(kind: &Kind) -> String {
    let word = |given: i32| EffectDisposition::try_from(given).unwrap().as_str_name().to_lowercase();
    let word = |given: i32| word(given).trim_start_matches("effect_disposition_").to_owned();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match kind {
        Kind::Note(note) => format!("note {}", note.text),
        Kind::Spent(spent) => format!("spent {} {} {}", spent.tokens, spent.cost_micros, spent.turns),
        Kind::Remembered(line) => format!("remembered {}", line.text),
        Kind::StepStarted(started) => format!("step {} started", started.name),
        Kind::GroupOpened(opened) => format!("group {} opened", opened.name),
        Kind::GroupSettled(settled) => {
            let outcome = if settled.reversed { "reversed" } else { "committed" };
            format!("group {} {outcome} {} {}", settled.name, settled.members.join(","), settled.invariant)
        }
        Kind::StepFinished(finished) => format!("step {} finished {}", finished.name, text(&finished.output)),
        Kind::EffectStarted(started) => format!("{} {} started", started.key, started.attempt),
        Kind::EffectDone(done) => format!("{} {} done {}", done.key, done.attempt, text(&done.output)),
        Kind::EffectFailed(failed) => {
            format!("{} {} failed {}", failed.key, failed.attempt, word(failed.disposition))
        }
        Kind::EffectReconciled(found) => {
            let value = text(found.value.as_deref().unwrap_or_default());
            format!("{} {} reconciled {} {value}", found.key, found.attempt, word(found.verdict))
                .trim_end()
                .to_owned()
        }
    }
}
