//! A worker and the coordinator that the test plays for it, and a directory in which children leave their traces.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tenure_proto::v1::{
    Append, EndRun, Grant, RunRef, attach_request::Message, attach_response, new_record,
    run_service_client::RunServiceClient,
};
use tenure_worker::{RunningWorker, Worker, WorkerOptions, handler::HandlerWorker};
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};

use crate::{
    agent::{grant, script},
    coordinator::{Book, Coordinator, Got, PATIENCE},
};

/// A condition is looked at so often.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) struct Fixture {
    pub(crate) worker: RunningWorker,
    pub(crate) coordinator: Coordinator,
    pub(crate) book: Book,
    pub(crate) directory: TempDir,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}, |_| {}).await
    }

    pub(crate) async fn start_with(
        prepare: impl FnOnce(&Book),
        change: impl FnOnce(&mut WorkerOptions),
    ) -> Self {
        Self::start_at(Coordinator::start().await, prepare, change).await
    }

    pub(crate) async fn start_at(
        coordinator: Coordinator,
        prepare: impl FnOnce(&Book),
        change: impl FnOnce(&mut WorkerOptions),
    ) -> Self {
        prepare(&coordinator.book);
        Self::start_worker(coordinator, |mut options| {
            change(&mut options);
            Worker::start(options).unwrap()
        })
        .await
    }

    /// A worker that holds these handlers.
    pub(crate) async fn start_handlers(handlers: HandlerWorker, prepare: impl FnOnce(&Book)) -> Self {
        let coordinator = Coordinator::start().await;
        prepare(&coordinator.book);
        Self::start_worker(coordinator, |options| handlers.start(options).unwrap()).await
    }

    async fn start_worker(
        coordinator: Coordinator,
        start: impl FnOnce(WorkerOptions) -> RunningWorker,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("worker");
        let mut options = WorkerOptions::new("w1", vec![coordinator.endpoint()], data);
        options.program = PathBuf::from(env!("CARGO_BIN_EXE_tenure-guard"));
        let worker = start(options);
        let book = coordinator.book.clone();
        book.wait_for_stream(1).await;
        Self { worker, coordinator, book, directory }
    }

    /// A file in which a child leaves a trace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Grants a run on the newest stream.
    pub(crate) async fn grant(&self, number: u32, declaration: Vec<u8>) {
        let streams = self.book.stream_count();
        let numbers = self.book.wait_for_stream(streams).await;
        self.send_grant(grant(number, numbers, declaration)).await;
    }

    pub(crate) async fn send_grant(&self, grant: Grant) {
        self.book.send(attach_response::Message::Grant(grant)).await;
    }

    /// The directories of runs that are there.
    pub(crate) fn run_directories(&self) -> Vec<PathBuf> {
        let runs = self.directory.path().join("worker/runs");
        fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

/// Waits for the end of a run to arrive for the so many-th time (from 1).
pub(crate) async fn wait_for_end(book: &Book, run: &RunRef, count: usize) -> EndRun {
    book.wait_for(&format!("end {count} of {}", run.job_id), |got| ends(got, run).into_iter().nth(count - 1))
        .await
}

/// Waits for the so many-th append (from 1) of a run.
pub(crate) async fn wait_for_append(book: &Book, run: &RunRef, count: usize) -> Append {
    book.wait_for(&format!("append {count} of {}", run.job_id), |got| {
        appends(got, run).into_iter().nth(count - 1)
    })
    .await
}

pub(crate) fn ends(got: &[Got], run: &RunRef) -> Vec<EndRun> {
    messages(got)
        .filter_map(|message| match message {
            Message::EndRun(end) if end.run.as_ref() == Some(run) => Some(end.clone()),
            _ => None,
        })
        .collect()
}

pub(crate) fn appends(got: &[Got], run: &RunRef) -> Vec<Append> {
    messages(got)
        .filter_map(|message| match message {
            Message::Append(append) if append.run.as_ref() == Some(run) => Some(append.clone()),
            _ => None,
        })
        .collect()
}

/// What a run wrote, whole, in the order of its chunks, each once.
pub(crate) fn output(got: &[Got], run: &RunRef) -> String {
    let mut chunks = std::collections::BTreeMap::new();
    for message in messages(got) {
        if let Message::WriteOutput(output) = message
            && output.run.as_ref() == Some(run)
        {
            let earlier = chunks.insert(output.chunk, output.bytes.clone());
            assert!(earlier.is_none_or(|earlier| earlier == output.bytes), "chunk {} changed", output.chunk);
        }
    }
    chunks.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
}

pub(crate) fn note_text(append: &Append) -> String {
    match &append.records[0].kind {
        Some(new_record::Kind::Note(note)) => note.text.clone(),
        _ => String::new(),
    }
}

pub(crate) fn messages(got: &[Got]) -> impl Iterator<Item = &Message> {
    got.iter().filter_map(|got| match got {
        Got::Message(message) => Some(message),
        Got::Registration(_) | Got::Gone(_) | Got::LookUp(_) | Got::StepPage | Got::Gift(_) => None,
    })
}

/// A run that goes on until it is ended. Returns the path of its socket.
pub(crate) async fn start_sleeper(fixture: &Fixture, keys: serde_json::Value) -> String {
    let socket = fixture.path("socket");
    let text = format!("echo \"$TENURE_SOCKET\" > {}; sleep 600", socket.display());
    fixture.grant(1, script(&text, keys)).await;
    wait_for_file(&socket).await.trim().to_owned()
}

/// Waits until a file has something in it, and returns that.
pub(crate) async fn wait_for_file(path: &Path) -> String {
    wait_until(&format!("{} to be written", path.display()), || {
        fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))
    })
    .await
}

/// Waits for something that has to be looked at.
pub(crate) async fn wait_until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited for {what}");
        sleep(LOOK_INTERVAL).await;
    }
}

/// Speaks to the socket of a run as the program inside does.
pub(crate) async fn connect_socket(path: &str) -> RunServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", path.trim())).unwrap();
    RunServiceClient::new(endpoint.connect().await.unwrap())
}
