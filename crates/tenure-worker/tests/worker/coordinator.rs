//! The coordinator that a test plays. By itself it opens terms, attaches, renews, and makes every report and every piece
//! of output durable; a test changes its conduct, sends what it wants, and asks what arrived.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_proto::v1::{
    Appended, Applied, AttachRequest, AttachResponse, Attached, Effect, FinishedStep, ListWorkersRequest,
    ListWorkersResponse, OutputWritten, ReadEffectRequest, ReadEffectResponse, ReadStepToUndoRequest,
    ReadStepToUndoResponse, ReadStepsRequest, ReadStepsResponse, RegisterWorkerRequest,
    RegisterWorkerResponse, Renew, Renewed, ReportGoneRequest, ReportGoneResponse, RunRef, SendJobRequest,
    SendJobResponse, SettledGroup, StepToUndo, TermClosed, TermDeaf, TermRenewed, appended, attach_request,
    attach_response, renewed,
    worker_service_server::{WorkerService, WorkerServiceServer},
};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_stream::{
    Stream, StreamExt as _,
    wrappers::{ReceiverStream, TcpListenerStream},
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How renewals are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewals {
    Renew,
    Deaf,
    Closed,
    Silent,
}

/// How reports are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reports {
    Apply,
    Silent,
}

/// What a coordinator got.
#[derive(Debug, Clone)]
pub(crate) enum Got {
    Registration(RegisterWorkerRequest),
    Message(attach_request::Message),
    Gone(ReportGoneRequest),
    LookUp(ReadEffectRequest),
    /// A page of finished steps was asked for.
    StepPage,
    Gift(SendJobRequest),
}

#[derive(Debug)]
struct Conduct {
    renewals: Renewals,
    reports: Reports,
    /// Whether a report that a child is gone is taken; otherwise its sender is told to come again.
    takes_gone: bool,
    ttl: Duration,
    window_bytes: u64,
    /// What is recorded, by key.
    effects: BTreeMap<String, Effect>,
    /// Look-ups and gifts that still fail before one is answered.
    failing_look_ups: usize,
    /// What earlier runs finished.
    steps: Vec<FinishedStep>,
    /// What earlier runs decided about groups of effects.
    groups: Vec<SettledGroup>,
    /// What is to be undone, the next first; each is told once.
    to_undo: VecDeque<StepToUndo>,
}

struct Outgoing {
    sender: mpsc::Sender<Result<AttachResponse, Status>>,
    term: u64,
    attach: u64,
}

#[derive(Clone)]
pub(crate) struct Book {
    got: watch::Sender<Vec<Got>>,
    conduct: Arc<Mutex<Conduct>>,
    streams: Arc<Mutex<Vec<Outgoing>>>,
    seq: Arc<AtomicU64>,
    answers: Arc<AtomicU64>,
}

/// A running one; dropping it breaks every stream and refuses connections.
pub(crate) struct Coordinator {
    pub(crate) address: SocketAddr,
    pub(crate) book: Book,
    /// Its own, so that everything of it stops at once.
    runtime: Option<Runtime>,
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Coordinator {
    pub(crate) async fn start() -> Self {
        let conduct = Conduct {
            renewals: Renewals::Renew,
            reports: Reports::Apply,
            takes_gone: true,
            ttl: Duration::from_secs(30),
            window_bytes: 4 * 1024 * 1024,
            effects: BTreeMap::new(),
            failing_look_ups: 0,
            steps: Vec::new(),
            groups: Vec::new(),
            to_undo: VecDeque::new(),
        };
        let book = Book {
            got: watch::Sender::new(Vec::new()),
            conduct: Arc::new(Mutex::new(conduct)),
            streams: Arc::default(),
            seq: Arc::new(AtomicU64::new(100)),
            answers: Arc::new(AtomicU64::new(1)),
        };
        Self::serve(book).await
    }

    /// Another server with the same book.
    pub(crate) async fn serve(book: Book) -> Self {
        Self::serve_at(book, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Another server with the same book, at an address of an earlier one.
    pub(crate) async fn serve_at(book: Book, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = listener.into_std().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let service = WorkerServiceServer::new(book.clone());
        runtime.spawn(async move {
            let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
            let _ = Server::builder().add_service(service).serve_with_incoming(incoming).await;
        });
        Self { address, book, runtime: Some(runtime) }
    }

    /// Stops to serve: connections break, and new ones are refused.
    pub(crate) fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Book {
    pub(crate) fn set_renewals(&self, renewals: Renewals) {
        self.conduct.lock().unwrap().renewals = renewals;
    }

    pub(crate) fn set_reports(&self, reports: Reports) {
        self.conduct.lock().unwrap().reports = reports;
    }

    pub(crate) fn set_takes_gone(&self, takes_gone: bool) {
        self.conduct.lock().unwrap().takes_gone = takes_gone;
    }

    pub(crate) fn set_ttl(&self, ttl: Duration) {
        self.conduct.lock().unwrap().ttl = ttl;
    }

    pub(crate) fn set_window(&self, window_bytes: u64) {
        self.conduct.lock().unwrap().window_bytes = window_bytes;
    }

    /// What an earlier run decided about a group of effects.
    pub(crate) fn set_group(&self, settled: SettledGroup) {
        self.conduct.lock().unwrap().groups.push(settled);
    }

    /// What a run that undoes is told, one after the other.
    pub(crate) fn set_to_undo(&self, steps: impl IntoIterator<Item = StepToUndo>) {
        self.conduct.lock().unwrap().to_undo = steps.into_iter().collect();
    }

    /// Has this be what is recorded under its key.
    pub(crate) fn set_effect(&self, effect: Effect) {
        self.conduct.lock().unwrap().effects.insert(effect.key.clone(), effect);
    }

    /// Has these be the steps that earlier runs finished.
    pub(crate) fn set_steps(&self, steps: Vec<FinishedStep>) {
        self.conduct.lock().unwrap().steps = steps;
    }

    pub(crate) fn set_failing_look_ups(&self, count: usize) {
        self.conduct.lock().unwrap().failing_look_ups = count;
    }

    /// What arrived until now.
    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.borrow().clone()
    }

    /// Waits until what arrived has something.
    pub(crate) async fn wait_for<T>(&self, what: &str, find: impl Fn(&[Got]) -> Option<T>) -> T {
        let mut seen = self.got.subscribe();
        let waiting = async {
            let found = seen.wait_for(|got| find(got).is_some()).await.unwrap();
            find(&found).unwrap()
        };
        match timeout(PATIENCE, waiting).await {
            Ok(found) => found,
            Err(_) => panic!("waited for {what}; got {:#?}", self.got()),
        }
    }

    /// Waits for the so many-th stream (from 1) to be attached. Returns its term and attach number.
    pub(crate) async fn wait_for_stream(&self, count: usize) -> (u64, u64) {
        self.wait_for(&format!("stream {count}"), |got| {
            got.iter()
                .filter(|got| matches!(got, Got::Message(attach_request::Message::Hello(_))))
                .nth(count - 1)
                .map(|_| ())
        })
        .await;
        let streams = self.streams.lock().unwrap();
        let stream = &streams[count - 1];
        (stream.term, stream.attach)
    }

    pub(crate) fn stream_count(&self) -> usize {
        self.streams.lock().unwrap().len()
    }

    /// Sends on the newest stream.
    pub(crate) async fn send(&self, message: attach_response::Message) {
        let sender = self.streams.lock().unwrap().last().unwrap().sender.clone();
        sender.send(Ok(AttachResponse { message: Some(message) })).await.unwrap();
    }

    /// Answers a report on the newest stream.
    pub(crate) async fn answer(&self, run: &RunRef, n: u64, outcome: appended::Outcome) {
        let answer = Appended { run: Some(run.clone()), n, outcome: Some(outcome) };
        self.send(attach_response::Message::Appended(answer)).await;
    }

    /// Breaks every stream.
    pub(crate) async fn break_streams(&self) {
        let senders: Vec<_> =
            self.streams.lock().unwrap().iter().map(|stream| stream.sender.clone()).collect();
        for sender in senders {
            let _ = sender.send(Err(Status::unknown("the test broke the stream"))).await;
        }
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.seq.fetch_add(1, Ordering::SeqCst)
    }

    fn record(&self, got: Got) {
        self.got.send_modify(|all| all.push(got));
    }

    fn open_term(&self) -> RegisterWorkerResponse {
        let ttl = self.conduct.lock().unwrap().ttl;
        let registrations = self.got().iter().filter(|got| matches!(got, Got::Registration(_))).count();
        RegisterWorkerResponse {
            term: u64::try_from(registrations).unwrap(),
            secret: vec![7; 32].into(),
            ttl: Some(prost_types::Duration::try_from(ttl).unwrap()),
            answer: self.answers.fetch_add(1, Ordering::SeqCst),
            generation: 1,
        }
    }

    /// What a message is answered with by itself.
    fn compose_answer(&self, message: &attach_request::Message) -> Option<attach_response::Message> {
        match message {
            attach_request::Message::Renew(renew) => self.compose_renewed(renew),
            attach_request::Message::Append(append) => self.compose_applied(append.run.clone(), append.n),
            attach_request::Message::EndRun(end) => self.compose_applied(end.run.clone(), end.n),
            attach_request::Message::WriteOutput(output) => {
                Some(attach_response::Message::OutputWritten(OutputWritten {
                    run: output.run.clone(),
                    chunk: output.chunk,
                }))
            }
            _ => None,
        }
    }

    fn compose_renewed(&self, renew: &Renew) -> Option<attach_response::Message> {
        let outcome = match self.conduct.lock().unwrap().renewals {
            Renewals::Renew => renewed::Outcome::Renewed(TermRenewed { now: None }),
            Renewals::Deaf => renewed::Outcome::Deaf(TermDeaf {}),
            Renewals::Closed => renewed::Outcome::Closed(TermClosed {}),
            Renewals::Silent => return None,
        };
        Some(attach_response::Message::Renewed(Renewed {
            no: renew.no,
            outcome: Some(outcome),
            answer: self.answers.fetch_add(1, Ordering::SeqCst),
            orders: Vec::new(),
        }))
    }

    fn compose_applied(&self, run: Option<RunRef>, n: u64) -> Option<attach_response::Message> {
        (self.conduct.lock().unwrap().reports == Reports::Apply).then(|| {
            let outcome = Some(appended::Outcome::Applied(Applied { seq: self.next_seq() }));
            attach_response::Message::Appended(Appended { run, n, outcome })
        })
    }

    fn attach(&self, term: u64, sender: mpsc::Sender<Result<AttachResponse, Status>>) -> Attached {
        let conduct = self.conduct.lock().unwrap();
        let mut streams = self.streams.lock().unwrap();
        let attach = u64::try_from(streams.len()).unwrap() + 1;
        streams.push(Outgoing { sender, term, attach });
        Attached {
            attach,
            ttl: Some(prost_types::Duration::try_from(conduct.ttl).unwrap()),
            output_window_bytes: conduct.window_bytes,
        }
    }
}

#[tonic::async_trait]
impl WorkerService for Book {
    type AttachStream = Pin<Box<dyn Stream<Item = Result<AttachResponse, Status>> + Send>>;
    type ReadInputStream = tokio_stream::Empty<Result<tenure_proto::v1::ReadInputResponse, Status>>;

    async fn register_worker(
        &self,
        request: Request<RegisterWorkerRequest>,
    ) -> Result<Response<RegisterWorkerResponse>, Status> {
        self.record(Got::Registration(request.into_inner()));
        Ok(Response::new(self.open_term()))
    }

    async fn attach(
        &self,
        request: Request<Streaming<AttachRequest>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let mut incoming = request.into_inner();
        let Some(Ok(AttachRequest { message: Some(attach_request::Message::Hello(hello)) })) =
            incoming.next().await
        else {
            return Err(Status::invalid_argument("the first message is no hello"));
        };
        let (sender, responses) = mpsc::channel(1_000);
        let attached = self.attach(hello.term, sender.clone());
        let first = attach_response::Message::Attached(attached);
        sender.send(Ok(AttachResponse { message: Some(first) })).await.unwrap();
        self.record(Got::Message(attach_request::Message::Hello(hello)));
        let book = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(AttachRequest { message: Some(message) })) = incoming.next().await {
                let answer = book.compose_answer(&message);
                book.record(Got::Message(message));
                if answer.is_some() {
                    let _ = sender.send(Ok(AttachResponse { message: answer })).await;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }

    async fn report_gone(
        &self,
        request: Request<ReportGoneRequest>,
    ) -> Result<Response<ReportGoneResponse>, Status> {
        self.record(Got::Gone(request.into_inner()));
        if !self.conduct.lock().unwrap().takes_gone {
            return Err(Status::unavailable("the test takes none"));
        }
        Ok(Response::new(ReportGoneResponse { already_known: false }))
    }

    async fn read_effect(
        &self,
        request: Request<ReadEffectRequest>,
    ) -> Result<Response<ReadEffectResponse>, Status> {
        let request = request.into_inner();
        self.record(Got::LookUp(request.clone()));
        let mut conduct = self.conduct.lock().unwrap();
        if conduct.failing_look_ups > 0 {
            conduct.failing_look_ups -= 1;
            return Err(Status::unavailable("the test answers none"));
        }
        Ok(Response::new(ReadEffectResponse { effect: conduct.effects.get(&request.key).cloned() }))
    }

    async fn read_steps(
        &self,
        request: Request<ReadStepsRequest>,
    ) -> Result<Response<ReadStepsResponse>, Status> {
        let request = request.into_inner();
        self.record(Got::StepPage);
        // One on a page, at as many positions as there are.
        let conduct = self.conduct.lock().unwrap();
        let place = usize::try_from(request.from_seq).unwrap() - 1;
        let steps = conduct.steps.get(place).cloned().into_iter().collect();
        let more = place + 1 < conduct.steps.len();
        let groups = if more { Vec::new() } else { conduct.groups.clone() };
        let next_seq = if more { request.from_seq + 1 } else { 0 };
        Ok(Response::new(ReadStepsResponse { steps, next_seq, groups }))
    }

    async fn read_step_to_undo(
        &self,
        _: Request<ReadStepToUndoRequest>,
    ) -> Result<Response<ReadStepToUndoResponse>, Status> {
        Ok(Response::new(ReadStepToUndoResponse { step: self.conduct.lock().unwrap().to_undo.pop_front() }))
    }

    async fn read_input(
        &self,
        _: Request<tenure_proto::v1::ReadInputRequest>,
    ) -> Result<Response<Self::ReadInputStream>, Status> {
        Err(Status::unimplemented("this coordinator has no blob store"))
    }

    async fn put_result(
        &self,
        _: Request<Streaming<tenure_proto::v1::PutResultRequest>>,
    ) -> Result<Response<tenure_proto::v1::PutResultResponse>, Status> {
        Err(Status::unimplemented("this coordinator has no blob store"))
    }

    /// As many jobs as there are different gifts: the last digits of an id count them.
    async fn send_job(&self, request: Request<SendJobRequest>) -> Result<Response<SendJobResponse>, Status> {
        let request = request.into_inner();
        {
            let mut conduct = self.conduct.lock().unwrap();
            if conduct.failing_look_ups > 0 {
                conduct.failing_look_ups -= 1;
                return Err(Status::unavailable("not now"));
            }
        }
        let known: Vec<_> = self
            .got()
            .into_iter()
            .filter_map(|got| match got {
                Got::Gift(gift) => Some(gift),
                _ => None,
            })
            .collect();
        let place = known.iter().position(|gift| *gift == request);
        let number = place.unwrap_or(known.len());
        if place.is_none() {
            self.record(Got::Gift(request));
        }
        let id = format!("01936f00-0000-7000-8000-{number:012}");
        Ok(Response::new(SendJobResponse {
            job_id: id.clone(),
            session_id: id,
            already_sent: place.is_some(),
        }))
    }

    async fn ask_wait(
        &self,
        _: Request<tenure_proto::v1::AskWaitRequest>,
    ) -> Result<Response<tenure_proto::v1::AskWaitResponse>, Status> {
        Err(Status::unimplemented("this coordinator knows no waits"))
    }

    async fn book_layover(
        &self,
        _: Request<tenure_proto::v1::BookLayoverRequest>,
    ) -> Result<Response<tenure_proto::v1::BookLayoverResponse>, Status> {
        Err(Status::unimplemented("this coordinator knows no layovers"))
    }

    async fn list_workers(
        &self,
        _request: Request<ListWorkersRequest>,
    ) -> Result<Response<ListWorkersResponse>, Status> {
        Ok(Response::new(ListWorkersResponse::default()))
    }
}
